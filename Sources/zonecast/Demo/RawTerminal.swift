import Foundation
import Synchronization

/// The terminal while panes are shown: other screen, no echo, keys one by one; as it was again on every way out.
final class RawTerminal {
    private let shown: ShownState
    private let signals: [any DispatchSourceSignal]

    init() {
        var before = termios()
        tcgetattr(STDIN_FILENO, &before)
        let shown = ShownState(before)
        self.shown = shown
        var raw = before
        raw.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw)
        Self.write("\u{1B}[?1049h\u{1B}[?25l")
        signals = [SIGTERM, SIGHUP].map { number in
            signal(number, SIG_IGN)
            return DispatchSource.makeSignalSource(signal: number)
        }
        for source in signals {
            source.setEventHandler {
                shown.restore()
                exit(CommandExit.failed.rawValue)
            }
            source.resume()
        }
    }

    /// Gives the terminal back; calling it again does nothing.
    func restore() { shown.restore() }

    /// How the terminal was, until it is so again.
    private final class ShownState: Sendable {
        private let before: Mutex<termios?>

        init(_ before: termios) { self.before = Mutex(before) }

        func restore() {
            before.withLock { kept in
                guard var before = kept else { return }
                kept = nil
                RawTerminal.write("\u{1B}[?25h\u{1B}[?1049l")
                tcsetattr(STDIN_FILENO, TCSAFLUSH, &before)
            }
        }
    }

    func show(_ lines: [String]) { Self.write("\u{1B}[H" + lines.joined(separator: "\u{1B}[K\r\n") + "\u{1B}[J") }

    /// The keys pressed since the last call; never waits.
    func keys() -> [Character] {
        var descriptor = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        guard poll(&descriptor, 1, 0) > 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(STDIN_FILENO, &bytes, bytes.count)
        // A closed terminal reads as its end: that is a wish to leave.
        return count > 0 ? Array(String(decoding: bytes.prefix(count), as: UTF8.self)) : ["q"]
    }

    static var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    private static func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }
}
