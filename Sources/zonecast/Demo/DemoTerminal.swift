import Foundation
import Synchronization

/// The terminal as the demo's panes need it: one screen of its own, keys without Return.
///
/// Given back on every way out.
enum DemoTerminal {
    private static let saved = Mutex<termios?>(nil)

    static var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Colours are wanted unless `NO_COLOR` is set to anything, or the terminal knows none.
    static var hasColour: Bool {
        let environment = ProcessInfo.processInfo.environment
        return (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
    }

    static func take() {
        var state = termios()
        guard tcgetattr(STDIN_FILENO, &state) == 0 else { return }
        saved.withLock { $0 = state }
        state.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &state)
        write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[2J")
    }

    /// Gives the terminal back; nothing is drawn after that, whoever is still drawing.
    static func restore() {
        saved.withLock { saved in
            guard var state = saved else { return }
            saved = nil
            write("\u{1B}[?25h\u{1B}[?1049l")
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &state)
        }
    }

    static func draw(_ lines: [String]) {
        let body = lines.map { $0 + "\u{1B}[0m\u{1B}[K" }.joined(separator: "\r\n")
        saved.withLock { saved in
            if saved != nil { write("\u{1B}[H" + body + "\u{1B}[J") }
        }
    }

    /// Keys as they are pressed; ends with standard input.
    static func keys() -> AsyncStream<Character> {
        AsyncStream { continuation in
            Thread {
                var byte: UInt8 = 0
                while read(STDIN_FILENO, &byte, 1) == 1 { continuation.yield(Character(UnicodeScalar(byte))) }
                continuation.finish()
            }.start()
        }
    }

    private static func write(_ text: String) {
        FileHandle.standardOutput.write(Data(text.utf8))
    }
}
