import NIOCore

/// Runs the tasks of a loop's connections on that loop, so that a request is read, answered and written without
/// changing threads.
///
/// What is behind the gate therefore must not block: a request that computes or reads for long moves itself elsewhere.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
