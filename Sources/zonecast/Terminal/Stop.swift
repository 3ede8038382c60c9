import Foundation
import Synchronization

/// Runs a command until a signal arrives or it ends itself.
final class Stop: Sendable {
    private struct State {
        var failure: CommandFailure?
        var task: Task<Void, Never>?
        var isOver = false
        var last: [@Sendable () async -> Void] = []
    }

    private let state = Mutex(State())

    /// Runs `body` until it returns, a signal arrives or `end` is called; then runs the `atEnd` steps.
    ///
    /// Returns the failure that ended it, if any.
    func wait(_ body: @escaping @Sendable () async -> Void) async -> CommandFailure? {
        let sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler { self.end(nil) }
            source.resume()
            return source
        }
        defer { sources.forEach { $0.cancel() } }
        let task = Task { await body() }
        state.withLock { state in
            state.task = task
            if state.isOver { task.cancel() }
        }
        await task.value
        for step in state.withLock({ $0.last }) { await step() }
        return state.withLock { $0.failure }
    }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// Ends the wait; the first failure passed is the one that `wait` returns.
    func end(_ failure: CommandFailure?) {
        state.withLock { state in
            state.isOver = true
            state.failure = state.failure ?? failure
            state.task?.cancel()
        }
    }

    /// Adds a step that runs before `wait` returns.
    func atEnd(_ step: @escaping @Sendable () async -> Void) { state.withLock { $0.last.append(step) } }
}
