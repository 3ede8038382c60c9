package import Records
import Wire

/// The changes that turn one schema into another.
///
/// Versions and role members are ignored: they are not part of a schema's text.
package struct SchemaDifference: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case addRole, removeRole, addType, removeType, addField, removeField, changeField
        case addIndex, removeIndex, addRight, removeRight

        /// The sign in displayed differences: `+`, `-` or `~`.
        package var sign: String {
            switch self {
            case .addRole, .addType, .addField, .addIndex, .addRight: "+"
            case .removeRole, .removeType, .removeField, .removeIndex, .removeRight: "-"
            case .changeField: "~"
            }
        }
    }

    package struct Change: Hashable, Sendable {
        package var kind: Kind
        package var element: SchemaElement
        /// The previous and the new form in the schema language; empty if there is none.
        package var before: String
        package var after: String

        init(_ kind: Kind, _ element: SchemaElement, before: String = "", after: String = "") {
            self.kind = kind
            self.element = element
            self.before = before
            self.after = after
        }
    }

    /// Sorted by element.
    package private(set) var changes: [Change] = []
    package var isEmpty: Bool { changes.isEmpty }

    package init(from old: Schema, to new: Schema) {
        for role in new.roles.subtracting(old.roles) { changes.append(.init(.addRole, .role(role.name))) }
        for role in old.roles.subtracting(new.roles) { changes.append(.init(.removeRole, .role(role.name))) }
        for name in Set(old.types.keys).union(new.types.keys) {
            compare(name, old.types[name], new.types[name])
        }
        changes.sort { ($0.element, $0.kind.rawValue) < ($1.element, $1.kind.rawValue) }
    }

    private mutating func compare(_ name: String, _ old: RecordType?, _ new: RecordType?) {
        guard let new else { return changes.append(.init(.removeType, .type(name))) }
        if old == nil { changes.append(.init(.addType, .type(name))) }
        let old = old ?? RecordType(grants: [:], systemIndexes: [:])
        for field in Set(old.fields.keys).union(new.fields.keys) {
            compare(.field(type: name, field), old.fields[field], new.fields[field])
        }
        for field in Query.SystemField.allCases {
            let element = SchemaElement.field(type: name, field.rawValue)
            compare(element, old.systemIndexes[field] ?? [], new.systemIndexes[field] ?? [])
        }
        for role in Set(old.grants.keys).union(new.grants.keys) {
            let element = SchemaElement.grant(type: name, role: role.name)
            let (before, after) = (old.grants[role] ?? [], new.grants[role] ?? [])
            let (gained, lost) = (after.subtracting(before), before.subtracting(after))
            if !gained.isEmpty { changes.append(.init(.addRight, element, after: gained.keywords.listed)) }
            if !lost.isEmpty { changes.append(.init(.removeRight, element, before: lost.keywords.listed)) }
        }
    }

    private mutating func compare(_ element: SchemaElement, _ old: RecordType.Field?, _ new: RecordType.Field?) {
        guard let new else {
            return changes.append(.init(.removeField, element, before: old.map { FieldForm($0).text } ?? ""))
        }
        let form = FieldForm(new)
        guard let old else {
            let words = [form.text] + new.indexes.keywords
            return changes.append(.init(.addField, element, after: words.joined(separator: " ")))
        }
        if FieldForm(old) != form {
            changes.append(.init(.changeField, element, before: FieldForm(old).text, after: form.text))
        }
        compare(element, old.indexes, new.indexes)
    }

    private mutating func compare(_ element: SchemaElement, _ old: Indexes, _ new: Indexes) {
        let (gained, lost) = (new.subtracting(old), old.subtracting(new))
        if !gained.isEmpty { changes.append(.init(.addIndex, element, after: gained.keywords.listed)) }
        if !lost.isEmpty { changes.append(.init(.removeIndex, element, before: lost.keywords.listed)) }
    }
}

extension [String] {
    fileprivate var listed: String { joined(separator: ", ") }
}
