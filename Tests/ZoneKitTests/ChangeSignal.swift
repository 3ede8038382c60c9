import Synchronization

/// Tells those who wait that something may have changed, so that they look again.
final class Bell: Sendable {
    private let listeners = Mutex<[Int: AsyncStream<Void>.Continuation]>([:])
    private let count = Atomic(0)

    func ring() { listeners.withLock { Array($0.values) }.forEach { $0.yield() } }

    /// Returns once the condition holds, which is looked at now and at each ring; throws when the task is cancelled.
    func until(_ condition: @Sendable () -> Bool) async throws {
        let number = count.add(1, ordering: .relaxed).newValue
        // One ring that has not been heard is as good as many.
        let (rings, listener) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        listeners.withLock { $0[number] = listener }
        defer { listeners.withLock { $0[number] = nil } }
        if condition() { return }
        for await _ in rings where condition() { return }
        throw CancellationError()
    }
}
