import Synchronization

/// Wakes waiting tasks after a possible change, so that they check their condition again.
final class ChangeSignal: Sendable {
    private let listeners = Mutex<[Int: AsyncStream<Void>.Continuation]>([:])
    private let count = Atomic(0)

    func send() { listeners.withLock { Array($0.values) }.forEach { $0.yield() } }

    /// Returns when the condition holds.
    ///
    /// The condition is checked at once and after each signal. Throws if the task is cancelled.
    func until(_ condition: @Sendable () -> Bool) async throws {
        let number = count.add(1, ordering: .relaxed).newValue
        // Several pending signals count as one.
        let (signals, listener) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        listeners.withLock { $0[number] = listener }
        defer { listeners.withLock { $0[number] = nil } }
        if condition() { return }
        for await _ in signals where condition() { return }
        throw CancellationError()
    }
}
