import Dispatch
import Foundation
import Synchronization

/// Has something put in order before the program ends, however it ends: by itself, told to by a signal, or because nobody
/// reads its output any more.
final class EndingSignals: Sendable {
    // Written once, at the end of `init`, and only kept alive after that.
    nonisolated(unsafe) private var sources: [any DispatchSourceSignal] = []
    private let numbers: [Int32]
    private let duty: Mutex<(@Sendable () -> Void)?>

    /// `duty` is done once, and may be done on another thread; `status` is what a signal ends the program with, if not as signals
    /// do.
    init(_ numbers: [Int32] = [SIGINT, SIGTERM], status: Int32? = nil, _ duty: @escaping @Sendable () -> Void) {
        self.numbers = numbers
        self.duty = Mutex(duty)
        // Left alone it would end the program before it finds out by itself.
        signal(SIGPIPE, SIG_IGN)
        Terminal.beforeEndingUnread { [weak self] in self?.end() }
        // A signal that comes before a source is in place would be lost.
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

    /// Does the duty, and leaves signals as they were; whoever else wants to meanwhile waits until that is done.
    func end() {
        duty.withLock { duty in
            duty?()
            duty = nil
        }
        for source in sources { source.cancel() }
        for number in numbers { signal(number, SIG_DFL) }
    }

    private func end(thenExit status: Int32) {
        duty.withLock { duty in
            // A signal that came when all was done ends the program too.
            duty?()
            _exit(status)
        }
    }
}
