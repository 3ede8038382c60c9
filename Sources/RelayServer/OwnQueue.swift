package import Dispatch

/// Runs blocking disk work outside the threads that answer requests.
package enum OwnQueue {
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
