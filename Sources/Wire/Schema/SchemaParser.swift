import Records

/// Parses the tokens of a schema's text; after an error, continues at the next item.
struct SchemaParser {
    private let tokens: [SchemaToken]
    private var index = 0
    private(set) var schema = Schema()
    private(set) var positions: [SchemaElement: TextPosition] = [:]
    private(set) var issues: [SchemaIssue]
    /// Roles that grants name, to be checked against the declared roles.
    private var grantees: [(role: Role, position: TextPosition)] = []

    init(_ text: String) {
        (tokens, issues) = SchemaLexer.tokens(of: text)
    }

    // MARK: Tokens

    var current: SchemaToken { tokens[index] }
    var following: SchemaToken { tokens[min(index + 1, tokens.count - 1)] }
    private var isAtEnd: Bool { current.kind == .end }

    /// Never moves past the end.
    mutating func advance() { index = min(index + 1, tokens.count - 1) }

    mutating func report(_ message: String, at position: TextPosition? = nil, isWarning: Bool = false) {
        issues.append(SchemaIssue(at: position ?? current.position, isWarning: isWarning, message))
    }

    mutating func takeKeyword(_ word: String) -> Bool {
        guard current.isKeyword(word) else { return false }
        advance()
        return true
    }

    mutating func takeSign(_ character: Unicode.Scalar) -> Bool {
        guard current.isSign(character) else { return false }
        advance()
        return true
    }

    private var startsDeclaration: Bool {
        (current.isKeyword("RECORD") && following.isKeyword("TYPE"))
            || (current.isKeyword("CREATE") && following.isKeyword("ROLE"))
    }

    // MARK: Declarations

    mutating func run() {
        if takeKeyword("DEFINE") {
            if !takeKeyword("SCHEMA") { report("expected SCHEMA after DEFINE, found \(current.shown)") }
        } else {
            report("expected DEFINE SCHEMA at the beginning, found \(current.shown)")
        }
        while !isAtEnd {
            if current.isKeyword("RECORD"), following.isKeyword("TYPE") {
                readType()
            } else if current.isKeyword("CREATE"), following.isKeyword("ROLE") {
                readRole()
            } else {
                report("expected RECORD TYPE or CREATE ROLE, found \(current.shown)")
                skipDeclaration()
            }
        }
        for grantee in grantees where !schema.roles.contains(grantee.role) && !Role.implicit.contains(grantee.role) {
            reportUnknown(grantee.role, at: grantee.position)
        }
    }

    /// Reports a role and how to fix it; an invalid name has been reported already.
    private mutating func reportUnknown(_ role: Role, at position: TextPosition) {
        let name = role.name
        if name.hasPrefix("_") {
            report("role '\(name)' does not exist: the system roles are _creator, _icloud and _world", at: position)
        } else if NameRules.isIdentifier(name) {
            report("role '\(name)' is not declared: add CREATE ROLE \(SchemaPrinter.quoted(name));", at: position)
        }
    }

    /// Continues after the next semicolon, or at what looks like the next declaration.
    private mutating func skipDeclaration() {
        repeat {
            if takeSign(";") { return }
            advance()
        } while !isAtEnd && !startsDeclaration
    }

    private mutating func finish(_ element: SchemaElement) {
        guard !takeSign(";") else { return }
        report("expected ';' after \(element.sentenceName), found \(current.shown)")
        if !startsDeclaration { skipDeclaration() }
    }

    private mutating func readRole() {
        advance()
        advance()
        let position = current.position
        guard let name = readName("role") else { return skipDeclaration() }
        if Role.implicit.contains(Role(name)) {
            report("role \"\(name)\" is built in and cannot be created", at: position)
        } else if name.hasPrefix("_") {
            report("'\(name)' is not a valid role name: names that start with an underscore are reserved", at: position)
        } else if !schema.roles.insert(Role(name)).inserted {
            report("role '\(name)' is created twice", at: position)
        } else {
            positions[.role(name)] = position
        }
        finish(.role(name))
    }

    private mutating func readType() {
        advance()
        advance()
        let position = current.position
        guard let name = readName("record type") else { return skipDeclaration() }
        if name.hasPrefix("_") {
            report(
                "'\(name)' is not a valid record type name: names that start with an underscore are reserved",
                at: position
            )
        }
        if schema.types[name] != nil { report("record type '\(name)' is declared twice", at: position) }
        guard takeSign("(") else {
            report("expected '(' after record type '\(name)', found \(current.shown)")
            return skipDeclaration()
        }
        var reader = TypeReader(name: name)
        readItems(&reader)
        if schema.types[name] == nil, !name.hasPrefix("_") {
            schema.types[name] = reader.type
            positions[.type(name)] = position
            positions.merge(reader.positions) { first, _ in first }
        }
        grantees += reader.grantees
        finish(.type(name))
    }

    /// Parses up to the closing parenthesis.
    private mutating func readItems(_ reader: inout TypeReader) {
        while true {
            if takeSign(")") { return }
            if isAtEnd || current.isSign(";") || startsDeclaration {
                return report("expected ')' at the end of record type '\(reader.name)', found \(current.shown)")
            }
            if !reader.readItem(&self) { skipItem() }
            let comma = current.position
            if takeSign(",") {
                if current.isSign(")") {
                    report("other tools for this language reject a comma before ')'", at: comma, isWarning: true)
                }
            } else if !current.isSign(")"), !isAtEnd, !current.isSign(";"), !startsDeclaration {
                report("expected ',' or ')', found \(current.shown)")
                // If a comma is missing, the next item begins here.
                if !current.isName || !following.isName { skipItem() }
                _ = takeSign(",")
            }
        }
    }

    /// Skips to the end of an item; moves by at least one token unless it is there already.
    private mutating func skipItem() {
        while !isAtEnd, !current.isSign(","), !current.isSign(")"), !current.isSign(";"), !startsDeclaration {
            advance()
        }
    }

    // MARK: Names

    /// Parses a name and reports errors in it; `nil` if parsing cannot continue.
    mutating func readName(_ what: String) -> String? {
        let token = current
        switch token.kind {
        case .sign, .end:
            report("expected the name of a \(what), found \(token.shown)")
            return nil
        case .word(let name):
            advance()
            if name.hasPrefix("_") {
                report("\(name) is a system name and must be quoted: \"\(name)\"", at: token.position)
            } else if SchemaPrinter.reservedWords.contains(name.lowercased()) {
                report("\(name) is a reserved word and must be quoted to be a name", at: token.position)
            } else {
                checkName(name, of: what, at: token.position)
            }
            return name
        case .quoted(let name):
            advance()
            let bare = name.drop { $0 == "_" }
            checkName(bare.isEmpty ? name : String(bare), of: what, at: token.position)
            return name
        }
    }

    private mutating func checkName(_ name: String, of what: String, at position: TextPosition) {
        guard !NameRules.isIdentifier(name) else { return }
        report(
            "'\(name.prefix(64))' is not a valid \(what) name: use 1 to 255 letters, digits or '_', a letter first",
            at: position
        )
    }
}

/// Parses the items of one record type: fields and grants.
struct TypeReader {
    let name: String
    private(set) var type = RecordType(grants: [:], systemIndexes: [:])
    private(set) var positions: [SchemaElement: TextPosition] = [:]
    private(set) var grantees: [(role: Role, position: TextPosition)] = []
    private var systemFields: Set<Query.SystemField> = []

    init(name: String) { self.name = name }

    /// Returns `false` if the rest of the item must be skipped.
    mutating func readItem(_ parser: inout SchemaParser) -> Bool {
        parser.current.isKeyword("GRANT") ? readGrant(&parser) : readField(&parser)
    }

    // MARK: Grants

    private mutating func readGrant(_ parser: inout SchemaParser) -> Bool {
        parser.advance()
        var rights: Rights = []
        repeat {
            switch parser.current.keyword {
            case "READ": rights.insert(.read)
            case "CREATE": rights.insert(.create)
            case "WRITE": rights.insert(.write)
            default:
                let hint = rights.isEmpty ? "; quote the name if it is meant to be a field" : ""
                parser.report("expected READ, CREATE or WRITE after GRANT, found \(parser.current.shown)\(hint)")
                return false
            }
            parser.advance()
        } while parser.takeSign(",")
        guard parser.takeKeyword("TO") else {
            parser.report("expected TO and a role, found \(parser.current.shown)")
            return false
        }
        let position = parser.current.position
        guard let name = parser.readName("role") else { return false }
        let role = Role(name)
        // Several grants to one role are merged.
        type.grants[role, default: []].formUnion(rights)
        positions[.grant(type: self.name, role: name)] = position
        grantees.append((role, position))
        return true
    }

    // MARK: Fields

    private mutating func readField(_ parser: inout SchemaParser) -> Bool {
        let position = parser.current.position
        guard let name = parser.readName("field") else { return false }
        let typePosition = parser.current.position
        guard let declared = FieldDeclaration(&parser) else { return false }
        let indexes = readOptions(&parser, of: name, declared)
        if name.hasPrefix("_") {
            declareSystem(name, declared, indexes, &parser, position, typePosition)
        } else if type.fields[name] != nil {
            parser.report("field '\(name)' is declared twice in record type '\(self.name)'", at: position)
        } else {
            type.fields[name] = .init(
                declared.type,
                isEncrypted: declared.isEncrypted,
                indexes: indexes,
                number: declared.number
            )
            positions[.field(type: self.name, name)] = position
        }
        return true
    }

    private mutating func declareSystem(
        _ name: String,
        _ declared: FieldDeclaration,
        _ indexes: Indexes,
        _ parser: inout SchemaParser,
        _ position: TextPosition,
        _ typePosition: TextPosition
    ) {
        guard let field = Query.SystemField(rawValue: name) else {
            let names = Query.SystemField.allCases.map(\.rawValue).joined(separator: ", ")
            return parser.report("'\(name)' is not a system field; the system fields are \(names)", at: position)
        }
        guard declared == FieldDeclaration(field.type) else {
            return parser.report("\(name) is always \(FieldDeclaration(field.type).text)", at: typePosition)
        }
        guard systemFields.insert(field).inserted else {
            return parser.report("field '\(name)' is declared twice in record type '\(self.name)'", at: position)
        }
        if !indexes.isEmpty { type.systemIndexes[field] = indexes }
        positions[.field(type: self.name, name)] = position
    }

    private func readOptions(_ parser: inout SchemaParser, of field: String, _ declared: FieldDeclaration) -> Indexes {
        let allowed = Indexes.all(for: declared.type, isEncrypted: declared.isEncrypted)
        var (indexes, refused): (Indexes, Indexes) = ([], [])
        while let word = parser.current.keyword, let option = Indexes(keyword: word) {
            if indexes.contains(option) || refused.contains(option) {
                parser.report("\(word) is repeated for field '\(field)'")
            } else if !allowed.contains(option) {
                parser.report("field '\(field)' cannot be \(word): \(declared.refusal(of: option))")
                refused.insert(option)
            } else {
                indexes.insert(option)
            }
            parser.advance()
        }
        if case .word(let word) = parser.current.kind, !parser.following.isName {
            parser.report("'\(word.prefix(64))' is not an option; the options are QUERYABLE, SORTABLE and SEARCHABLE")
            parser.advance()
        }
        return indexes
    }
}

extension Indexes {
    fileprivate init?(keyword: String) {
        switch keyword {
        case "QUERYABLE": self = .queryable
        case "SORTABLE": self = .sortable
        case "SEARCHABLE": self = .searchable
        default: return nil
        }
    }
}

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
