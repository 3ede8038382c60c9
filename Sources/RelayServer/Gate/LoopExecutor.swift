import NIOCore

/// Runs the tasks of an event loop's connections on that loop, so that a request needs no thread switch.
///
/// Request handlers must therefore not block: a request that computes or reads for long must move to another executor.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
