import Foundation

/// What a command prints, and the little it asks.
enum Terminal {
    /// One line of the answer, on standard output, at once: whoever reads a pipe must not wait for a full buffer.
    static func say(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    /// One line for the person, on standard error.
    static func complain(_ line: String) {
        FileHandle.standardError.write(Data((line + "\n").utf8))
    }

    /// A value as one line of JSON, keys in order.
    static func say(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        say(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Rows under a heading, each column as wide as it must be; nothing but `empty` where there are none.
    static func say(table rows: [[String]], heading: [String], empty: String) {
        guard !rows.isEmpty else { return say(empty) }
        let all = [heading] + rows
        let widths = heading.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        for row in all {
            let cells = zip(row, widths).map { $0.padding(toLength: max($1, $0.count), withPad: " ", startingAt: 0) }
            let line = cells.joined(separator: "  ")
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

    /// The first line of standard input, without its line end.
    static func readPasswordLine() throws -> String {
        guard let line = readLine(strippingNewline: true) else {
            throw CommandFailure(
                .usage,
                "Standard input is empty. Pipe the password in: printf '%s' \"$PASSWORD\" | zonecast …"
            )
        }
        return line
    }

    private static func askHidden(_ prompt: String) throws -> String {
        FileHandle.standardError.write(Data(prompt.utf8))
        var shown = termios()
        tcgetattr(STDIN_FILENO, &shown)
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden)
        defer {
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
            FileHandle.standardError.write(Data("\n".utf8))
        }
        guard let line = readLine(strippingNewline: true) else {
            throw CommandFailure(.failed, "No password was typed.")
        }
        return line
    }
}
