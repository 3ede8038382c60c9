/// A token of a schema's text.
struct SchemaToken: Hashable {
    enum Kind: Hashable {
        /// Letters, digits and underscores: a keyword or a name.
        case word(String)
        case quoted(String)
        case sign(UInt8)
        case end
    }

    var kind: Kind
    var position: TextPosition

    /// The token in a message.
    var shown: String {
        switch kind {
        case .word(let text): "'\(text.prefix(64))'"
        case .quoted(let text): "\"\(text.prefix(64))\""
        case .sign(let byte): "'\(Character(UnicodeScalar(byte)))'"
        case .end: "the end of the text"
        }
    }

    func isSign(_ character: Unicode.Scalar) -> Bool { kind == .sign(UInt8(ascii: character)) }

    /// Matches in any case.
    ///
    /// See SchemaLanguage.md, "Grammar".
    func isKeyword(_ word: String) -> Bool { keyword == word }

    /// The word in upper case; `nil` for other tokens, including quoted names.
    var keyword: String? { if case .word(let text) = kind { text.uppercased() } else { nil } }

    var isName: Bool {
        switch kind {
        case .word, .quoted: true
        case .sign, .end: false
        }
    }
}

/// Splits a schema's text into tokens, skipping comments and white space.
///
/// See SchemaLanguage.md, "Grammar".
struct SchemaLexer {
    private let bytes: [UInt8]
    private var index = 0
    private var position = TextPosition(line: 1, column: 1)
    private var tokens: [SchemaToken] = []
    private var issues: [SchemaIssue] = []

    /// Returns the tokens, ending with `.end`, and the lexical errors.
    static func tokens(of text: String) -> (tokens: [SchemaToken], issues: [SchemaIssue]) {
        var lexer = SchemaLexer(bytes: Array(text.utf8))
        lexer.run()
        return (lexer.tokens, lexer.issues)
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
        // Some editors write a byte order mark.
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    }

    private var current: UInt8? { index < bytes.count ? bytes[index] : nil }
    private var following: UInt8? { index + 1 < bytes.count ? bytes[index + 1] : nil }

    private mutating func advance() {
        guard let byte = current else { return }
        index += 1
        if byte == UInt8(ascii: "\n") {
            position = TextPosition(line: position.line + 1, column: 1)
        } else if byte & 0xC0 != 0x80 {
            // Continuation bytes (10xxxxxx) belong to a character that was counted.
            position.column += 1
        }
    }

    private mutating func run() {
        while let byte = current {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): advance()
            case UInt8(ascii: "/") where following == byte, UInt8(ascii: "-") where following == byte: skipLine()
            case UInt8(ascii: "/") where following == UInt8(ascii: "*"): skipComment()
            case UInt8(ascii: "\""): readQuoted()
            case _ where Self.isWordByte(byte): readWord()
            case _ where Self.signs.contains(byte):
                tokens.append(SchemaToken(kind: .sign(byte), position: position))
                advance()
            default: skipUnknown()
            }
        }
        tokens.append(SchemaToken(kind: .end, position: position))
    }

    private static let signs = Set("(),;<>".utf8)

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private mutating func skipLine() {
        while let byte = current, byte != UInt8(ascii: "\n") { advance() }
    }

    private mutating func skipComment() {
        let start = position
        advance()
        advance()
        while let byte = current {
            if byte == UInt8(ascii: "*"), following == UInt8(ascii: "/") {
                advance()
                return advance()
            }
            advance()
        }
        issues.append(SchemaIssue(at: start, "unterminated comment: add */"))
    }

    private mutating func readWord() {
        let (start, first) = (position, index)
        while let byte = current, Self.isWordByte(byte) { advance() }
        tokens.append(SchemaToken(kind: .word(text(first..<index)), position: start))
    }

    private mutating func readQuoted() {
        let start = position
        advance()
        let first = index
        while let byte = current, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\n") { advance() }
        tokens.append(SchemaToken(kind: .quoted(text(first..<index)), position: start))
        if current == UInt8(ascii: "\"") {
            advance()
        } else {
            issues.append(SchemaIssue(at: start, "this name has no closing quote"))
        }
    }

    /// Reports one issue for a run of unknown characters.
    private mutating func skipUnknown() {
        let (start, first) = (position, index)
        advance()
        while let byte = current, byte > 0x20, byte != UInt8(ascii: "\""), !Self.isWordByte(byte),
            !Self.signs.contains(byte)
        {
            advance()
        }
        issues.append(
            SchemaIssue(at: start, "'\(text(first..<index).prefix(64))' is not part of the schema language")
        )
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
}
