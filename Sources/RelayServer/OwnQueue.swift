package import Dispatch

/// Work that takes as long as the disk does: not on the threads that answer requests.
package enum OwnQueue {
    /// Gives what it comes to, or throws as soon as the task is cancelled: a relay that is told to stop does not wait for it,
    /// and it ends with the process.
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
