import Dispatch
import Foundation
import Synchronization

/// Runs a command until a signal arrives or it ends itself.
final class InterruptibleTask: Sendable {
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

/// Runs a cleanup before the process ends: normally, by a signal, or because the reader of its output has gone.
final class TerminationSignals: Sendable {
    // Written once, at the end of `init`, and only kept alive after that.
    nonisolated(unsafe) private var sources: [any DispatchSourceSignal] = []
    private let numbers: [Int32]
    private let cleanup: Mutex<(@Sendable () -> Void)?>

    /// Installs the signal handlers.
    ///
    /// - Parameters:
    ///   - numbers: The signals to handle.
    ///   - status: The exit code after a signal; by default 128 plus its number.
    ///   - cleanup: The cleanup; called once, possibly on another thread.
    init(_ numbers: [Int32] = [SIGINT, SIGTERM], status: Int32? = nil, _ cleanup: @escaping @Sendable () -> Void) {
        self.numbers = numbers
        self.cleanup = Mutex(cleanup)
        // Unhandled, SIGPIPE would end the process before a failed write is noticed.
        signal(SIGPIPE, SIG_IGN)
        Terminal.onBrokenPipe { [weak self] in self?.end() }
        // A signal that arrives before its source is installed would be lost.
        let inPlace = DispatchGroup()
        sources = numbers.map { number -> any DispatchSourceSignal in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [weak self] in self?.end(thenExit: status ?? 128 + number) }
            inPlace.enter()
            source.setRegistrationHandler { inPlace.leave() }
            source.resume()
            return source
        }
        inPlace.wait()
    }

    /// Runs the cleanup and restores the default signal handlers; a concurrent caller waits until it is done.
    func end() {
        cleanup.withLock { cleanup in
            cleanup?()
            cleanup = nil
        }
        for source in sources { source.cancel() }
        for number in numbers { signal(number, SIG_DFL) }
    }

    private func end(thenExit status: Int32) {
        cleanup.withLock { cleanup in
            // A signal that arrives after the cleanup ends the process too.
            cleanup?()
            _exit(status)
        }
    }
}
