import Records

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
        guard let declared = FieldForm(&parser) else { return false }
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
        _ declared: FieldForm,
        _ indexes: Indexes,
        _ parser: inout SchemaParser,
        _ position: TextPosition,
        _ typePosition: TextPosition
    ) {
        guard let field = Query.SystemField(rawValue: name) else {
            let names = Query.SystemField.allCases.map(\.rawValue).joined(separator: ", ")
            return parser.report("'\(name)' is not a system field; the system fields are \(names)", at: position)
        }
        guard declared == FieldForm(field.type) else {
            return parser.report("\(name) is always \(FieldForm(field.type).text)", at: typePosition)
        }
        guard systemFields.insert(field).inserted else {
            return parser.report("field '\(name)' is declared twice in record type '\(self.name)'", at: position)
        }
        if !indexes.isEmpty { type.systemIndexes[field] = indexes }
        positions[.field(type: self.name, name)] = position
    }

    private func readOptions(_ parser: inout SchemaParser, of field: String, _ declared: FieldForm) -> Indexes {
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
