import Foundation
import Synchronization

/// The end of a command that runs until it is told to stop: by a signal, or by itself.
final class Stop: Sendable {
    private struct State {
        var failure: CommandFailure?
        var task: Task<Void, Never>?
        var isOver = false
        var last: [@Sendable () async -> Void] = []
    }

    private let state = Mutex(State())

    /// Runs `body` until it returns, a signal comes, or `end` is called; then what `atEnd` was given.
    ///
    /// Gives the failure that ended it, if one did.
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

    /// Ends the wait; the first failure given is the one it ends with.
    func end(_ failure: CommandFailure?) {
        state.withLock { state in
            state.isOver = true
            state.failure = state.failure ?? failure
            state.task?.cancel()
        }
    }

    /// Does this before `wait` returns.
    func atEnd(_ step: @escaping @Sendable () async -> Void) { state.withLock { $0.last.append(step) } }
}
