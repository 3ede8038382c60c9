import Foundation
import Synchronization

/// What a command prints, and the little it asks.
enum Terminal {
    private static let quiet = Mutex(false)
    private static let spoken = Mutex(false)
    /// What is left to do when nobody reads any more.
    private static let lastDuty = Mutex<(@Sendable () -> Void)?>(nil)

    /// One line of the answer, on standard output, at once: whoever reads a pipe must not wait for a full buffer.
    ///
    /// Ends the program, as the signal would, when the reader has gone: `zonecast … | head` has what it wanted. Where the
    /// line cannot be written for another reason it fails: half an answer must not pass for the whole.
    static func say(_ line: String) { deliver(line + "\n") }

    /// The same for text that has its line ends already.
    static func deliver(_ text: String) {
        spoken.withLock { $0 = true }
        let fault = put(text, on: STDOUT_FILENO)
        guard fault != 0 else { return }
        lastDuty.withLock { $0 }?()
        guard fault != EPIPE else { exit(128 + SIGPIPE) }
        let why = String(cString: strerror(fault))
        complain("zonecast: The output cannot be written: \(why). What is there of it is not all.")
        exit(CommandExit.failed.rawValue)
    }

    /// A line of a program that goes on even where it cannot be written: a full disk under its log stops no relay.
    static func announce(_ line: String) {
        guard put(line + "\n", on: STDOUT_FILENO) != EPIPE else { return deliver(line + "\n") }
    }

    /// Whether a part of the answer is out.
    static var hasSpoken: Bool { spoken.withLock { $0 } }

    /// Whether only what was asked for is wanted: `--quiet`.
    static var isQuiet: Bool { quiet.withLock { $0 } }

    static func beQuiet() { quiet.withLock { $0 = true } }

    /// A line that a person likes to read and a script does not need: what was done, what to type next.
    static func tell(_ line: String) { if !isQuiet { say(line) } }

    /// A value that was asked for, behind what it is called; alone where a script takes it.
    static func say(_ value: String, as name: String) { say(isQuiet ? value : name + value) }

    /// One line for the person, on standard error.
    static func complain(_ line: String) { put(line + "\n", on: STDERR_FILENO) }

    /// Has `duty` done before the program ends because nobody reads its output.
    static func beforeEndingUnread(_ duty: @escaping @Sendable () -> Void) { lastDuty.withLock { $0 = duty } }

    /// Writes all of a text; returns the system's error number, or 0.
    ///
    /// A terminal that has gone away is no reason to crash, which is what Foundation's file handles make of it.
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

    /// A value as one line of JSON, keys in order.
    static func say(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        say(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Rows under a heading, each column as wide as it must be; where there are none nothing but `empty`, if that says a thing.
    ///
    /// With `--quiet` only the rows.
    static func say(table rows: [[String]], heading: [String], empty: String) {
        guard !rows.isEmpty else { return empty.isEmpty ? () : tell(empty) }
        let all = (isQuiet ? [] : [heading]) + rows.map { $0.map(\.withoutControls) }
        let widths = heading.indices.map { column in all.map { $0[column].columns }.max() ?? 0 }
        for row in all {
            let line = zip(row, widths).map { $0.filled(to: $1) }.joined(separator: "  ")
            say(String(line.reversed().drop { $0 == " " }.reversed()))
        }
    }

    /// Asks for a password without showing it; twice where it is a new one.
    static func askPassword(_ prompt: String, isNew: Bool) throws -> String {
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(
                .usage,
                "There is no terminal to ask for a password. Pipe it in and add --password-stdin."
            )
        }
        let first = try askHidden("\(prompt): ")
        guard isNew else { return first }
        guard try askHidden("\(prompt) again: ") == first else {
            throw CommandFailure(.failed, "The two passwords differ. Nothing was changed.")
        }
        return first
    }

    /// Has a person type a word before something that has no way back; where nobody can be asked, refuses.
    static func confirm(_ warning: String, byTyping word: String, called name: String) throws {
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(.usage, "\(warning) Add --yes where nobody can be asked.")
        }
        put("\(warning) Type \(name) to go on: ", on: STDERR_FILENO)
        guard readLine(strippingNewline: true) == word else {
            throw CommandFailure(.failed, "That was not it. Nothing was changed.")
        }
    }

    /// The first line of standard input, without its line end.
    static func readPasswordLine(_ what: String = "password") throws -> String {
        guard let line = readLine(strippingNewline: true) else {
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
        // Whoever breaks off here wants to see what they type next.
        let ending = EndingSignals { [shown] in
            var shown = shown
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
            put("\n", on: STDERR_FILENO)
        }
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden)
        defer { ending.end() }
        guard let line = readLine(strippingNewline: true) else {
            throw CommandFailure(.failed, "No password was typed.")
        }
        return line
    }
}

extension String {
    /// Filled with blanks up to so many columns; what is longer stays whole.
    ///
    /// Foundation's own padding counts UTF-16 and cuts what it finds too long.
    func filled(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - columns)) }

    /// As it may be shown in a terminal, whoever wrote it: what would act on the terminal or turn the line around is one sign.
    var withoutControls: String {
        guard unicodeScalars.contains(where: \.isControl) else { return self }
        return String(String.UnicodeScalarView(unicodeScalars.map { $0.isControl ? "\u{FFFD}" : $0 }))
    }
}

extension Unicode.Scalar {
    /// Controls, line ends, and the marks by which the direction of text is changed.
    fileprivate var isControl: Bool {
        switch value {
        case 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: properties.generalCategory == .control
        }
    }
}
