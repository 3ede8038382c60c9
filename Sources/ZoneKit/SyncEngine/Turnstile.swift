import Synchronization

/// Lets tasks through one at a time, in the order in which they came.
package final class Turnstile: Sendable {
    private struct State {
        var isTaken = false
        var lastID: UInt64 = 0
        var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Whoever has entered leaves, even when its task was cancelled meanwhile.
    package func enter() async {
        _ = await withCheckedContinuation { wait(with: $0, id: nil) }
    }

    /// The same, but that a cancelled task waits no longer: false when it has not entered and must not leave.
    package func enterUnlessCancelled() async -> Bool {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { wait(with: $0, id: id) }
        } onCancel: {
            let gone = state.withLock { state in
                state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0).continuation }
            }
            gone?.resume(returning: false)
        }
    }

    /// Without an ID the task waits until it may enter, whatever comes.
    private func wait(with continuation: CheckedContinuation<Bool, Never>, id: UInt64?) {
        let answer: Bool? = state.withLock { state in
            // A cancellation that comes after this look finds the task among those that wait.
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
