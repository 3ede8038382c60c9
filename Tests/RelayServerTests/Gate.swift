import Logging
import Synchronization

/// A door that requests wait at until the test opens it.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var arrivals: [CheckedContinuation<Void, Never>] = []
        var hasArrival = false
    }

    private let state = Mutex(State())

    func wait() async {
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

    /// Returns once somebody waits, or has waited.
    func arrival() async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if !state.hasArrival { state.arrivals.append(continuation) }
                return state.hasArrival
            }
            if isThere { continuation.resume() }
        }
    }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        waiting.forEach { $0.resume() }
    }
}

let quiet = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
