import Synchronization
import Testing

/// A gate at which tasks wait until the test opens it.
///
/// It stays open.
package final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var arrivals: [CheckedContinuation<Void, Never>] = []
        var hasArrival = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Returns once the gate is open.
    package func wait() async {
        await withCheckedContinuation { continuation in
            let (woken, isOpen) = state.withLock { state in
                state.hasArrival = true
                if !state.isOpen { state.waiting.append(continuation) }
                defer { state.arrivals = [] }
                return (state.arrivals, state.isOpen)
            }
            woken.forEach { $0.resume() }
            if isOpen { continuation.resume() }
        }
    }

    /// Returns once a task waits, or has waited, at the gate.
    package func arrival() async {
        await withCheckedContinuation { continuation in
            let hasArrival = state.withLock { state in
                if !state.hasArrival { state.arrivals.append(continuation) }
                return state.hasArrival
            }
            if hasArrival { continuation.resume() }
        }
    }

    package func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        waiting.forEach { $0.resume() }
    }
}

/// Waits until a condition holds.
///
/// For work that a task or thread does without reporting it. Records an issue that names the condition if it does not
/// hold within 300 seconds; even a slow machine needs less unless the program hangs.
package func eventually(_ condition: String, _ holds: () async throws -> Bool) async throws {
    let limit = ContinuousClock.now + .seconds(300)
    while try await !holds() {
        guard ContinuousClock.now < limit else {
            Issue.record("waited 300 s for \(condition)")
            return
        }
        try await Task.sleep(for: .milliseconds(1))
    }
}
