import Foundation
import Synchronization

/// The terminal in raw mode with the alternate screen.
///
/// Restored on every exit.
enum DemoTerminal {
    private struct SavedMode {
        var before: termios
        /// The current contents, so that an equal frame is not drawn again.
        var shown: [String] = []
        var size = (width: 0, height: 0)
    }

    private static let taken = Mutex<SavedMode?>(nil)

    static var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Whether to use colours: not if `NO_COLOR` is set or the terminal is dumb.
    static var hasColour: Bool {
        (ProcessInfo.processInfo.environment["NO_COLOR"] ?? "").isEmpty && !isDumb
    }

    /// Whether the terminal supports plain lines only.
    static var isDumb: Bool { ProcessInfo.processInfo.environment["TERM"] == "dumb" }

    static func take() {
        var state = termios()
        guard tcgetattr(STDIN_FILENO, &state) == 0 else { return }
        taken.withLock { $0 = SavedMode(before: state) }
        state.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &state)
        write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[2J")
    }

    /// Restores the terminal; later calls of `draw` do nothing.
    static func restore() {
        taken.withLock { taken in
            guard var state = taken?.before else { return }
            taken = nil
            write("\u{1B}[?25h\u{1B}[?1049l")
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &state)
        }
    }

    /// Draws the whole screen if it differs from the current one.
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
    static let escape: Character = "\u{1B}"

    /// Returns the keys pressed, including arrows; ends with standard input.
    static func keys() -> AsyncStream<Character> {
        AsyncStream { continuation in
            Thread {
                while let byte = nextByte() {
                    let key =
                        byte == 0x1B ? arrow() : character(beginning: byte) { isByteWaiting() ? nextByte() : nil }
                    if let key { continuation.yield(key) }
                }
                continuation.finish()
            }.start()
        }
    }

    /// Returns the UTF-8 character that begins with a byte; `nil` if it is invalid.
    ///
    /// The remaining bytes arrive together with the first.
    static func character(beginning first: UInt8, _ next: () -> UInt8?) -> Character? {
        var bytes = [first]
        let length =
            switch first {
            case ..<0x80: 1
            case 0xC2...0xDF: 2
            case 0xE0...0xEF: 3
            case 0xF0...0xF4: 4
            default: 0
            }
        while bytes.count < length, let byte = next() { bytes.append(byte) }
        return String(validating: bytes, as: UTF8.self)?.first
    }

    /// Returns a key's name; keys without a visible character have names of their own.
    static func name(of key: Character) -> String {
        switch key {
        case "\r", "\n": return "Return"
        case " ": return "Space"
        case "\u{8}", "\u{7F}": return "Backspace"
        case escape: return "Escape"
        default: break
        }
        guard let scalar = key.unicodeScalars.first else { return "" }
        // Control characters: 1 is Ctrl-A, and so on.
        if scalar.value < 0x20 { return "Ctrl-\(Character(UnicodeScalar(UInt8(scalar.value) + 0x40)))" }
        return key.unicodeScalars.contains { $0.properties.generalCategory == .control } ? "a control key" : "\(key)"
    }

    /// Reads the rest of an escape sequence; returns `nil` for everything except Escape and arrows.
    private static func arrow() -> Character? {
        guard isByteWaiting() else { return escape }
        guard let open = nextByte(), open == UInt8(ascii: "[") || open == UInt8(ascii: "O") else {
            return nil
        }
        while isByteWaiting(), let byte = nextByte() {
            switch byte {
            case UInt8(ascii: "A"): return up
            case UInt8(ascii: "B"): return down
            case UInt8(ascii: "C"): return right
            case UInt8(ascii: "D"): return left
            // A letter or tilde ends a longer sequence; other bytes are parameters.
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
