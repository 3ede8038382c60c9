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
