import Wire

/// The line of each key in a YAML file, which the library that reads the values does not report.
///
/// Supports block mappings and lists, all that a configuration needs. Reports other lines in `unreadableLines`, so that no key
/// is overlooked.
struct ConfigurationFile {
    /// A key's full dotted name and its line, from 1.
    struct Entry: Hashable {
        var name: String
        var line: Int
    }

    /// Keys with a value, in file order.
    private(set) var entries: [Entry] = []
    /// The lines that are not `key: value`, `key:`, `- item`, a comment or empty.
    private(set) var unreadableLines: [Int] = []

    /// The open mappings, outermost first.
    private var open: [(indent: Int, name: String)] = []
    /// A key without a value so far; a mapping, a list or nothing may follow.
    private var pending: (entry: Entry, indent: Int)?
    private var isInList = false

    init(_ text: String) {
        for (index, line) in Self.lines(of: ByteOrderMark.dropped(from: text)).enumerated() {
            read(line, number: index + 1)
        }
        finishPending()
    }

    /// Splits text into lines as YAML does; in Swift, "\r\n" is one character.
    static func lines(of text: String) -> [Substring] {
        text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" || $0 == "\r" }
    }

    private mutating func read(_ line: Substring, number: Int) {
        let content = Self.withoutComment(line)
        let text = content.drop { $0 == " " }
        guard !text.isEmpty, text != "---" else { return }
        if text.hasPrefix("- ") || text == "-" {
            if pending == nil, !isInList { unreadableLines.append(number) }
            finishPending()
            isInList = true
            return
        }
        isInList = false
        guard let colon = Self.colon(of: text) else {
            unreadableLines.append(number)
            return
        }
        let value = text[text.index(after: colon)...].drop { $0 == " " }
        guard !value.hasPrefix("{") else {
            unreadableLines.append(number)
            return
        }
        read(key: Self.unquoted(text[..<colon]), hasValue: !value.isEmpty, indent: content.count - text.count, number)
    }

    private mutating func read(key: String, hasValue: Bool, indent: Int, _ number: Int) {
        if let pending, indent <= pending.indent { finishPending() }
        pending = nil
        while let last = open.last, last.indent >= indent { open.removeLast() }
        let entry = Entry(name: (open.map(\.name) + [key]).joined(separator: "."), line: number)
        if hasValue {
            entries.append(entry)
        } else {
            open.append((indent, key))
            pending = (entry, indent)
        }
    }

    private mutating func finishPending() {
        if let pending { entries.append(pending.entry) }
        pending = nil
    }

    /// Removes a comment.
    private static func withoutComment(_ line: Substring) -> Substring {
        trimmed(line[..<(comment(in: line) ?? line.endIndex)])
    }

    /// Where a comment begins: at a `#` outside quotes, at the start of the line or after a blank.
    ///
    /// A quote mark counts only where a value begins: in `it's` it is a letter.
    static func comment(in line: Substring) -> Substring.Index? {
        var quote: Character?
        var isEscaped = false
        // The last character other than a space; a value begins after these.
        var before: Character?
        var previous: Character = " "
        for index in line.indices {
            let character = line[index]
            defer {
                previous = character
                if character != " ", character != "\t" { before = character }
            }
            let isAfterBlank = previous == " " || previous == "\t"
            if let open = quote {
                if isEscaped {
                    isEscaped = false
                } else if character == "\\", open == "\"" {
                    isEscaped = true
                } else if character == open {
                    quote = nil
                }
            } else if character == "\"" || character == "'" {
                let begins = before.map { "[{,".contains($0) || (isAfterBlank && ":-".contains($0)) } ?? true
                // Doubled within single quotes, it closes and opens at once.
                if begins || (character == "'" && previous == "'") { quote = character }
            } else if character == "#", isAfterBlank {
                return index
            }
        }
        return nil
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }

    /// Returns the colon that ends the key: the first one before a space or at the end of the line.
    private static func colon(of text: Substring) -> Substring.Index? {
        text.indices.first { index in
            guard text[index] == ":" else { return false }
            let next = text.index(after: index)
            return next == text.endIndex || text[next] == " "
        }
    }

    private static func unquoted(_ text: Substring) -> String {
        guard text.count >= 2, let first = text.first, first == "\"" || first == "'", text.last == first else {
            return String(text)
        }
        return String(text.dropFirst().dropLast())
    }
}

/// Parses the YAML library's error text into a line number and a reason.
///
/// The text has the form `LINE:COLUMN: error: PART: while WHAT in line LINE, column COLUMN`, followed by what was found
/// and the line itself. The error's type is not public.
struct YAMLFault: CustomStringConvertible {
    /// The line, from 1; `nil` if the text names none.
    private(set) var line: Int?
    private var reason: String

    init(_ error: any Error) {
        let lines = "\(error)".split(separator: "\n")
        let parts = lines.first?.split(separator: ":", maxSplits: 4).map { $0.drop { $0 == " " } } ?? []
        guard parts.count == 5, let line = Int(parts[0]), parts[2] == "error" else {
            reason = lines.joined(separator: " ")
            return
        }
        self.line = line
        var words = parts[4]
        if let place = words.firstRange(of: " in line ") {
            // An unclosed quote or bracket is reported at the end of the file; name the line where it begins.
            let isOpen = ["a quoted scalar", "a flow "].contains { words[..<place.lowerBound].contains($0) }
            if isOpen { self.line = Int(words[place.upperBound...].prefix { $0.isNumber }) ?? line }
            words = words[..<place.lowerBound] + " " + (lines.dropFirst().first ?? "")
        }
        reason = String(words.last == ":" ? words.dropLast() : words)
    }

    /// The error text that follows the file name.
    var description: String {
        let place = line.map { "line \($0): this " } ?? ""
        return "\(place)is not YAML: \(reason). Write lines like  listen: 127.0.0.1:8080"
    }
}
