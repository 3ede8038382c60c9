import Dispatch
import Foundation
import Synchronization

/// Tidies up when the demo is ended from outside: by a signal, which would leave relay, files and terminal as they are.
final class DemoSignals: Sendable {
    // Written once, at the end of `init`, and only kept alive after that.
    nonisolated(unsafe) private var sources: [any DispatchSourceSignal] = []
    private let tidy: Mutex<(@Sendable () -> Void)?>

    init(tidy: @escaping @Sendable () -> Void) {
        self.tidy = Mutex(tidy)
        signal(SIGPIPE, SIG_IGN)
        sources = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].map { number -> any DispatchSourceSignal in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [weak self] in
                DemoTerminal.restore()
                self?.end(thenExit: 128 + number)
            }
            source.resume()
            return source
        }
    }

    /// Tidies up, once; whoever else wants to meanwhile waits until that is done.
    func end() {
        tidy.withLock { tidy in
            tidy?()
            tidy = nil
        }
    }

    /// Tidies up and ends the program: before anybody who waits in `end` may go on to complain.
    private func end(thenExit status: Int32) {
        tidy.withLock { tidy in
            tidy?()
            exit(status)
        }
    }
}
