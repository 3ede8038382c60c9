import Foundation
import Synchronization
import Wire

/// Output and prompts of the commands.
enum Terminal {
    private static let quiet = Mutex(false)
    private static let verbose = Mutex(false)
    private static let outputWritten = Mutex(false)
    /// The cleanup to run if the reader of the output has gone.
    private static let brokenPipeCleanup = Mutex<(@Sendable () -> Void)?>(nil)

    /// Writes a line to standard output without buffering, so that readers of a pipe receive it at once.
    ///
    /// Ends the process as SIGPIPE would if the reader has gone: `zonecast … | head` has all it needs. Any other write
    /// error fails the command, so that incomplete output is not taken for complete.
    static func say(_ line: String) { deliver(line + "\n") }

    /// Like `say`, for text that contains its line ends.
    static func deliver(_ text: String) {
        outputWritten.withLock { $0 = true }
        let fault = put(text, on: STDOUT_FILENO)
        guard fault != 0 else { return }
        brokenPipeCleanup.withLock { $0 }?()
        guard fault != EPIPE else { exit(128 + SIGPIPE) }
        let why = String(cString: strerror(fault))
        sayError("zonecast: The output cannot be written: \(why). It is incomplete.")
        exit(CommandExit.failed.rawValue)
    }

    /// Writes a line, ignoring write errors: a full disk under its log must not stop a relay.
    static func announce(_ line: String) {
        guard put(line + "\n", on: STDOUT_FILENO) != EPIPE else { return deliver(line + "\n") }
    }

    /// Whether output has been written.
    static var hasWrittenOutput: Bool { outputWritten.withLock { $0 } }

    /// Whether `--quiet` is set.
    static var isQuiet: Bool { quiet.withLock { $0 } }

    static func setQuiet() { quiet.withLock { $0 = true } }

    static func setVerbose() { verbose.withLock { $0 = true } }

    /// Writes a line to standard error if `--verbose` is set.
    static func trace(_ line: @autoclosure () -> String) {
        if verbose.withLock({ $0 }) { sayError("zonecast: \(line())") }
    }

    /// Writes a line for people, such as a confirmation or hint; suppressed by `--quiet`.
    static func tell(_ line: String) { if !isQuiet { say(line) } }

    /// Writes a named value; with `--quiet` only the value.
    static func say(_ value: String, as name: String) { say(isQuiet ? value : name + value) }

    /// Writes a line to standard error.
    static func sayError(_ line: String) { put(line + "\n", on: STDERR_FILENO) }

    /// Sets the cleanup that runs before the process ends because the reader of its output has gone.
    static func onBrokenPipe(_ cleanup: @escaping @Sendable () -> Void) { brokenPipeCleanup.withLock { $0 = cleanup } }

    /// Writes the whole text; returns the system's error number, or 0.
    ///
    /// Foundation's file handles would crash if the terminal has gone.
    @discardableResult
    static func put(_ text: String, on file: Int32) -> Int32 {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                var output = pollfd(fd: file, events: Int16(POLLOUT), revents: 0)
                poll(&output, 1, 1_000)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }

    /// Writes a value as one line of JSON with sorted keys.
    static func say(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        say(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Writes a table with aligned columns; without rows, writes `empty` unless that is empty.
    ///
    /// With `--quiet`, only the rows.
    static func say(table rows: [[String]], heading: [String], empty: String) {
        guard !rows.isEmpty else { return empty.isEmpty ? () : tell(empty) }
        let all = (isQuiet ? [] : [heading]) + rows.map { $0.map(\.withoutControls) }
        let widths = heading.indices.map { column in all.map { $0[column].columns }.max() ?? 0 }
        for row in all {
            let line = zip(row, widths).map { $0.filled(to: $1) }.joined(separator: "  ")
            say(String(line.reversed().drop { $0 == " " }.reversed()))
        }
    }

    /// Asks for a password without echoing it; asks twice for a new one.
    static func askPassword(_ prompt: String, isNew: Bool) throws -> String {
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(
                .usage,
                "There is no terminal to ask for a password. Pipe it in with --password-stdin."
            )
        }
        let first = try askHidden("\(prompt): ")
        guard isNew else { return first }
        guard try askHidden("\(prompt) again: ") == first else {
            throw CommandFailure(.failed, "The two passwords differ. Nothing was changed.")
        }
        return first
    }

    /// Asks the user to type a word before an irreversible change; fails if there is no terminal.
    static func confirm(_ warning: String, byTyping word: String, called name: String) throws {
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(.usage, "\(warning) Add --yes to confirm without a terminal.")
        }
        put("\(warning) Type \(name) to continue: ", on: STDERR_FILENO)
        guard readLine(strippingNewline: true) == word else {
            throw CommandFailure(.failed, "The text does not match. Nothing was changed.")
        }
    }

    /// Returns the first line of standard input, without its line end and without a byte order mark before it.
    static func readPasswordLine(_ what: String = "password") throws -> String {
        guard let line = readLine(strippingNewline: true).map({ ByteOrderMark.dropped(from: $0) }) else {
            let variable = what.split(separator: " ").last.map { $0.uppercased() } ?? ""
            throw CommandFailure(
                .usage,
                "Standard input is empty. Pipe the \(what) in: printf '%s' \"$\(variable)\" | zonecast …"
            )
        }
        return line
    }

    private static func askHidden(_ prompt: String) throws -> String {
        put(prompt, on: STDERR_FILENO)
        var shown = termios()
        tcgetattr(STDIN_FILENO, &shown)
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        // If the user interrupts, the terminal must echo again.
        let ending = TerminationSignals { [shown] in
            var shown = shown
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
            put("\n", on: STDERR_FILENO)
        }
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden)
        defer { ending.end() }
        guard let line = readLine(strippingNewline: true) else {
            throw CommandFailure(.failed, "No password was entered.")
        }
        return line
    }
}

extension String {
    /// Pads with spaces to this many columns; longer text is unchanged.
    ///
    /// Foundation's padding counts UTF-16 units and truncates longer text.
    func filled(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - columns)) }

    /// Replaces characters that would control the terminal or the text direction, so that untrusted text can be shown.
    var withoutControls: String {
        guard unicodeScalars.contains(where: \.isControl) else { return self }
        return String(String.UnicodeScalarView(unicodeScalars.map { $0.isControl ? "\u{FFFD}" : $0 }))
    }
}

extension Unicode.Scalar {
    /// Control characters, line separators and bidirectional marks.
    fileprivate var isControl: Bool {
        switch value {
        case 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: properties.generalCategory == .control
        }
    }
}

extension StringProtocol {
    /// The number of terminal columns the text takes: two for an East Asian wide character or an emoji.
    var columns: Int { reduce(0) { $0 + $1.columns } }

    /// Returns the longest prefix that fits into this many columns.
    func prefix(columns: Int) -> SubSequence {
        var left = columns
        return prefix { character in
            left -= character.columns
            return left >= 0
        }
    }
}

extension Character {
    /// Terminals use one or two columns per character.
    fileprivate var columns: Int {
        guard let first = unicodeScalars.first, first.value >= 0x1100 else { return 1 }
        let isEmoji = first.properties.isEmojiPresentation || unicodeScalars.contains("\u{FE0F}")
        return isEmoji || Self.wide.contains { $0.contains(first.value) } ? 2 : 1
    }

    /// The blocks that Unicode Annex 11 classifies as wide or full width.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
        0xFE30...0xFE6F, 0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x1_7000...0x1_8CFF, 0x1_AFF0...0x1_B2FF,
        0x2_0000...0x3_FFFD,
    ]
}

extension Int {
    /// `1 asset`, `2 assets`.
    func of(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
