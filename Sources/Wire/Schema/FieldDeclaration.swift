package import Records

/// A field's type in the syntax of the schema language.
///
/// See SchemaLanguage.md, "Grammar".
package struct FieldDeclaration: Hashable, Sendable {
    package var type: FieldType
    package var isEncrypted = false
    package var number: RecordType.NumberKind?

    package init(_ type: FieldType) { self.type = type }

    package init(_ field: RecordType.Field) {
        type = field.type
        isEncrypted = field.isEncrypted
        number = field.number
    }

    /// The text, with keywords in upper case.
    package var text: String {
        switch type {
        case .scalar(let scalar): primitive(scalar)
        case .list(let scalar): "LIST<\(primitive(scalar))>"
        }
    }

    private func primitive(_ scalar: FieldType.Scalar) -> String {
        switch number {
        case .unspecified: "NUMBER"
        case .preferred: "NUMBER PREFERRED AS \(scalar.keyword)"
        case nil: isEncrypted ? "ENCRYPTED \(scalar.keyword)" : scalar.keyword
        }
    }

    /// Returns the reason why the type does not support an index, as the end of a sentence.
    func refusal(of index: Indexes) -> String {
        if isEncrypted { return "encrypted fields have no index" }
        if type.isAsset { return "assets have no index" }
        return index == .searchable
            ? "only STRING and LIST<STRING> fields can be searched for words" : "lists cannot be sorted"
    }
}

// MARK: - Parsing

extension FieldDeclaration {
    /// Parses a type; on failure reports an issue and returns `nil`.
    init?(_ parser: inout SchemaParser) {
        guard parser.current.isKeyword("LIST") else {
            self.init(primitive: &parser)
            return
        }
        parser.advance()
        guard parser.takeSign("<") else {
            parser.report("expected '<' and the list's element type, found \(parser.current.shown)")
            return nil
        }
        self.init(primitive: &parser)
        guard case .scalar(let scalar) = type else { return nil }
        type = .list(scalar)
        guard parser.takeSign(">") else {
            parser.report("expected '>' after the list's element type, found \(parser.current.shown)")
            return nil
        }
    }

    private init?(primitive parser: inout SchemaParser) {
        if parser.takeKeyword("NUMBER") {
            guard let (scalar, form) = Self.readNumber(&parser) else { return nil }
            self.init(.scalar(scalar))
            number = form
            return
        }
        let isEncrypted = parser.takeKeyword("ENCRYPTED")
        guard let word = parser.current.keyword, let scalar = FieldType.Scalar(keyword: word) else {
            let what = isEncrypted ? "the encrypted type" : "a type"
            parser.report("expected \(what), such as STRING or INT64, found \(parser.current.shown)")
            return nil
        }
        if isEncrypted, !FieldType.scalar(scalar).isEncryptable {
            parser.report("\(word) cannot be encrypted")
        }
        parser.advance()
        self.init(.scalar(scalar))
        self.isEncrypted = isEncrypted
    }

    private static func readNumber(
        _ parser: inout SchemaParser
    ) -> (FieldType.Scalar, RecordType.NumberKind)? {
        guard parser.takeKeyword("PREFERRED") else { return (.double, .unspecified) }
        guard parser.takeKeyword("AS") else {
            parser.report("expected AS after PREFERRED, found \(parser.current.shown)")
            return nil
        }
        guard let word = parser.current.keyword, word == "INT64" || word == "DOUBLE" else {
            parser.report("expected INT64 or DOUBLE after PREFERRED AS, found \(parser.current.shown)")
            return nil
        }
        parser.advance()
        return (word == "INT64" ? .int64 : .double, .preferred)
    }
}

extension FieldType.Scalar {
    /// The keyword in the schema language: the same as on the wire, except for assets.
    package var keyword: String { self == .asset ? "ASSET" : rawValue }

    fileprivate init?(keyword: String) {
        guard keyword != "ASSETID" else { return nil }
        self.init(rawValue: keyword == "ASSET" ? "ASSETID" : keyword)
    }
}
