package import Dispatch

/// An executor for work that blocks on the disk or computes for long, which must not run on event loops.
package final class DiskExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "zonecast disk", qos: .utility, attributes: .concurrent)

    package init() {}

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Runs blocking disk work outside the threads that answer requests.
package enum BackgroundQueue {
    /// Returns the result of `work`, or throws as soon as the task is cancelled.
    ///
    /// After a cancellation, `work` continues without anyone waiting for it, and ends with the process.
    ///
    /// - Throws: `CancellationError`, or what `work` throws.
    package static func run<Value: Sendable>(
        _ quality: DispatchQoS.QoSClass,
        _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let (results, end) = AsyncStream<Result<Value, any Error>>.makeStream()
        DispatchQueue.global(qos: quality).async {
            end.yield(Result(catching: work))
            end.finish()
        }
        for await result in results { return try result.get() }
        throw CancellationError()
    }
}
