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
                    let key =
                        byte == 0x1B ? arrow() : character(beginning: byte) { isByteWaiting() ? nextByte() : nil }
                    if let key { continuation.yield(key) }
                }
                continuation.finish()
            }.start()
        }
    }

    /// The character that begins with a byte in UTF-8, whose other bytes come at once; `nil` for what is none.
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

    /// What a key is called: those that show nothing, or would move what is on the screen, by their names.
    static func name(of key: Character) -> String {
        switch key {
        case "\r", "\n": return "Return"
        case " ": return "Space"
        case "\u{8}", "\u{7F}": return "Backspace"
        default: break
        }
        guard let scalar = key.unicodeScalars.first else { return "" }
        // Control and a letter: 1 for A, and so on.
        if scalar.value < 0x20 { return "Ctrl-\(Character(UnicodeScalar(UInt8(scalar.value) + 0x40)))" }
        return key.unicodeScalars.contains { $0.properties.generalCategory == .control } ? "a control key" : "\(key)"
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
