import Foundation
import Synchronization

/// The terminal as the demo's panes need it: one screen of its own, keys without Return.
///
/// Given back on every way out.
enum DemoTerminal {
    private struct Taken {
        var before: termios
        /// What is on the screen, so that a picture like the last is not drawn.
        var shown: [String] = []
        var size = (width: 0, height: 0)
    }

    private static let taken = Mutex<Taken?>(nil)

    static var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Colours are wanted unless `NO_COLOR` is set to anything, or the terminal knows none.
    static var hasColour: Bool {
        (ProcessInfo.processInfo.environment["NO_COLOR"] ?? "").isEmpty && !isDumb
    }

    /// Whether it says of itself that it shows lines and nothing else.
    static var isDumb: Bool { ProcessInfo.processInfo.environment["TERM"] == "dumb" }

    static func take() {
        var state = termios()
        guard tcgetattr(STDIN_FILENO, &state) == 0 else { return }
        taken.withLock { $0 = Taken(before: state) }
        state.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &state)
        write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[2J")
    }

    /// Gives the terminal back; nothing is drawn after that, whoever is still drawing.
    static func restore() {
        taken.withLock { taken in
            guard var state = taken?.before else { return }
            taken = nil
            write("\u{1B}[?25h\u{1B}[?1049l")
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &state)
        }
    }

    /// Draws the whole screen, where it differs from what is there.
    static func draw(_ lines: [String], _ width: Int, _ height: Int) {
        taken.withLock { now in
            guard let before = now, before.shown != lines || before.size != (width, height) else { return }
            now?.shown = lines
            now?.size = (width, height)
            let body = lines.map { $0 + "\u{1B}[0m\u{1B}[K" }.joined(separator: "\r\n")
            write("\u{1B}[H" + body + "\u{1B}[J")
        }
    }

    // MARK: Keys

    static let up: Character = "↑"
    static let down: Character = "↓"
    static let right: Character = "→"
    static let left: Character = "←"

    /// Keys as they are pressed, the arrows as such; ends with standard input.
    static func keys() -> AsyncStream<Character> {
        AsyncStream { continuation in
            Thread {
                while let byte = nextByte() {
                    guard byte == 0x1B else {
                        continuation.yield(Character(UnicodeScalar(byte)))
                        continue
                    }
                    if let arrow = arrow() { continuation.yield(arrow) }
                }
                continuation.finish()
            }.start()
        }
    }

    /// The rest of an escape sequence, which comes at once; `nil` for the key Escape and all that is no arrow.
    private static func arrow() -> Character? {
        guard isByteWaiting(), let open = nextByte(), open == UInt8(ascii: "[") || open == UInt8(ascii: "O") else {
            return nil
        }
        while isByteWaiting(), let byte = nextByte() {
            switch byte {
            case UInt8(ascii: "A"): return up
            case UInt8(ascii: "B"): return down
            case UInt8(ascii: "C"): return right
            case UInt8(ascii: "D"): return left
            // Parameters of longer sequences; any letter or tilde ends one.
            case 0x40...0x7E: return nil
            default: break
            }
        }
        return nil
    }

    private static func isByteWaiting() -> Bool {
        var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        return poll(&input, 1, 30) == 1
    }

    private static func nextByte() -> UInt8? {
        var byte: UInt8 = 0
        return read(STDIN_FILENO, &byte, 1) == 1 ? byte : nil
    }

    private static func write(_ text: String) { Terminal.put(text, on: STDOUT_FILENO) }
}
