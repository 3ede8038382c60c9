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
        sources = [SIGINT, SIGTERM, SIGHUP].map { number -> any DispatchSourceSignal in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [weak self] in
                DemoTerminal.restore()
                self?.end()
                exit(128 + number)
            }
            source.resume()
            return source
        }
    }

    /// Tidies up, once.
    func end() {
        let tidy = tidy.withLock { tidy in
            defer { tidy = nil }
            return tidy
        }
        tidy?()
    }
}
