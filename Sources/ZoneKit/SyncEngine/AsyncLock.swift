import Synchronization

/// A lock that suspends tasks instead of blocking threads; waiting tasks acquire it in FIFO order.
package final class AsyncLock: Sendable {
    private struct State {
        var isTaken = false
        var lastID: UInt64 = 0
        var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Acquires the lock, even if the task is cancelled.
    ///
    /// Must be followed by `leave()`.
    package func enter() async {
        _ = await withCheckedContinuation { wait(with: $0, id: nil) }
    }

    /// Acquires the lock, or returns `false` if the task is cancelled.
    ///
    /// After `false`, `leave()` must not be called.
    package func enterUnlessCancelled() async -> Bool {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { wait(with: $0, id: id) }
        } onCancel: {
            let removed = state.withLock { state in
                state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0).continuation }
            }
            removed?.resume(returning: false)
        }
    }

    /// Waits for the lock.
    ///
    /// Without an ID, cancellation has no effect.
    private func wait(with continuation: CheckedContinuation<Bool, Never>, id: UInt64?) {
        let answer: Bool? = state.withLock { state in
            // A cancellation after this check finds the task in the queue.
            if id != nil, Task.isCancelled { return false }
            guard state.isTaken else {
                state.isTaken = true
                return true
            }
            state.waiting.append((id ?? 0, continuation))
            return nil
        }
        if let answer { continuation.resume(returning: answer) }
    }

    package func leave() {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard !state.waiting.isEmpty else {
                state.isTaken = false
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume(returning: true)
    }
}
