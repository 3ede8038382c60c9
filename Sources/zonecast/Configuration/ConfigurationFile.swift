/// Where in a YAML file each key stands, which the library that reads the values does not tell.
///
/// Knows block mappings and lists, all that a configuration needs; what it does not know it refuses, so that no key is
/// ever overlooked.
struct ConfigurationFile {
    /// A full dotted name and the line, from 1, that it is on.
    struct Entry: Hashable {
        var name: String
        var line: Int
    }

    /// Keys with a value, in the file's order.
    private(set) var entries: [Entry] = []
    /// Lines that hold something else than `key: value`, `key:`, `- item`, a comment or nothing.
    private(set) var oddLines: [Int] = []

    /// The mappings that the next line may belong to.
    private var open: [(indent: Int, name: String)] = []
    /// A key without a value yet: a mapping, a list or nothing may follow.
    private var pending: (entry: Entry, indent: Int)?
    private var isInList = false

    init(_ text: String) {
        // Some editors put a mark of the encoding before the first line.
        let text = text.unicodeScalars.first == "\u{FEFF}" ? String(text.unicodeScalars.dropFirst()) : text
        for (index, line) in Self.lines(of: text).enumerated() { read(line, number: index + 1) }
        settlePending()
    }

    /// As YAML counts them; a line of Windows ends with what is one character here.
    static func lines(of text: String) -> [Substring] {
        text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" || $0 == "\r" }
    }

    private mutating func read(_ line: Substring, number: Int) {
        let content = Self.withoutComment(line)
        let text = content.drop { $0 == " " }
        guard !text.isEmpty, text != "---" else { return }
        if text.hasPrefix("- ") || text == "-" {
            if pending == nil, !isInList { oddLines.append(number) }
            settlePending()
            isInList = true
            return
        }
        isInList = false
        guard let colon = Self.colon(of: text) else {
            oddLines.append(number)
            return
        }
        let value = text[text.index(after: colon)...].drop { $0 == " " }
        guard !value.hasPrefix("{") else {
            oddLines.append(number)
            return
        }
        read(key: Self.unquoted(text[..<colon]), hasValue: !value.isEmpty, indent: content.count - text.count, number)
    }

    private mutating func read(key: String, hasValue: Bool, indent: Int, _ number: Int) {
        if let pending, indent <= pending.indent { settlePending() }
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

    private mutating func settlePending() {
        if let pending { entries.append(pending.entry) }
        pending = nil
    }

    /// Cuts a comment, which begins at a `#` outside quotes, at the start or after a blank.
    private static func withoutComment(_ line: Substring) -> Substring {
        var quote: Character?
        var previous: Character = " "
        for index in line.indices {
            let character = line[index]
            if let open = quote {
                if character == open { quote = nil }
            } else if character == "\"" || character == "'" {
                quote = character
            } else if character == "#", previous == " " {
                return trimmed(line[..<index])
            }
            previous = character
        }
        return trimmed(line)
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }

    /// The colon that ends the key: at the line's end or before a blank.
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
