package import Records
import RelayCore

/// A row of a record type's definition: a field, or a role's rights.
package struct RecordTypeRow: Hashable, Sendable {
    package var tag: String
    package var isEncrypted: Bool
    package var indexes: Indexes
    package var number: Int
    /// `nil` for a field.
    package var rights: Rights?

    package init(
        tag: String = "",
        isEncrypted: Bool = false,
        indexes: Indexes = [],
        number: Int = 0,
        rights: Rights? = nil
    ) {
        self.tag = tag
        self.isEncrypted = isEncrypted
        self.indexes = indexes
        self.number = number
        self.rights = rights
    }

    /// Returns the rows of a type by name; a role's name gets a leading space, since a field may have the same name.
    package static func rows(of type: RecordType) -> [String: RecordTypeRow] {
        var rows: [String: RecordTypeRow] = [:]
        for (name, field) in type.fields {
            rows[name] = RecordTypeRow(
                tag: field.type.tag,
                isEncrypted: field.isEncrypted,
                indexes: field.indexes,
                number: field.number?.rawValue ?? 0
            )
        }
        for (field, indexes) in type.systemIndexes where !indexes.isEmpty {
            rows[field.rawValue] = RecordTypeRow(tag: field.type.tag, indexes: indexes)
        }
        for (role, rights) in type.grants { rows[" " + role.name] = RecordTypeRow(rights: rights) }
        return rows
    }
}

extension Schema {
    /// Adds a field of a declared type as it is stored; `false` if its type's tag is unknown.
    package mutating func addField(_ row: RecordTypeRow, named name: String, to type: String) -> Bool {
        if let system = Query.SystemField(rawValue: name) {
            types[type]?.systemIndexes[system] = row.indexes
            return true
        }
        guard let field = FieldType(tag: row.tag) else { return false }
        let number = RecordType.NumberKind(rawValue: row.number)
        types[type]?.fields[name] = .init(field, isEncrypted: row.isEncrypted, indexes: row.indexes, number: number)
        return true
    }

    /// Adds a field that was removed from a type.
    package mutating func addRemovedField(_ row: RecordTypeRow, named name: String, of type: String) {
        guard let field = FieldType(tag: row.tag) else { return }
        removedFields[type, default: [:]][name] = .init(
            field,
            isEncrypted: row.isEncrypted,
            indexes: [],
            number: RecordType.NumberKind(rawValue: row.number)
        )
    }
}
