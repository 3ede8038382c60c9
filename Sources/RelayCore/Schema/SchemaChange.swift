package import Records
import Wire

/// A proposed replacement of an environment's schema: the result, and the reasons why it is not allowed.
///
/// The schema is replaced as a whole or not at all. See SchemaLanguage.md, "Changing a schema".
package struct SchemaChange: Sendable {
    /// A reason why an element may not change.
    package struct Violation: Hashable, Sendable {
        package var element: SchemaElement
        /// A sentence without its final period.
        package var reason: String
    }

    /// The environment's schema after the change, with the current version and members.
    package let result: Schema
    package private(set) var violations: [Violation] = []
    package let difference: SchemaDifference

    package var isAllowed: Bool { violations.isEmpty }

    /// Replaces the development schema by a parsed text, checked against both environments' schemas.
    package init(importing text: Schema, over development: Schema, production: Schema) {
        let new = text.keepingUsers(of: development)
        result = new.inPlace(of: development)
        difference = SchemaDifference(from: development, to: result)
        // Before the first sign-in to development, only production has the `Users` type.
        protect(production, from: new.keepingUsers(of: production), "is in production and cannot be removed")
        forbidRetyping(
            of: production,
            to: new,
            "in production, where types never change"
        )
        forbidRetyping(
            of: development,
            to: new,
            "in development, where its type can change only after 'zonecast schema reset'"
        )
        forbidRetyping(
            of: Schema(types: development.removedFields.mapValues { RecordType(fields: $0) }),
            to: new,
            "in values that development's records may still contain; its type can change only after 'zonecast schema reset'"
        )
        protectRoles(of: development, "development", from: new)
        protectRoles(of: production, "production", from: new)
        violations.sort { $0.element < $1.element }
    }

    /// Replaces the production schema by the development schema.
    package init(promoting development: Schema, over production: Schema) {
        let new = development.keepingUsers(of: production)
        result = new.inPlace(of: production)
        difference = SchemaDifference(from: production, to: result)
        protect(production, from: new, "is in production but not in development; a promotion removes nothing")
        forbidRetyping(of: production, to: new, "in production, where types never change")
        protectRoles(of: production, "production", from: new)
        violations.sort { $0.element < $1.element }
    }

    private mutating func protect(_ old: Schema, from new: Schema, _ reason: String) {
        for (name, type) in old.types {
            guard let after = new.types[name] else {
                add(.type(name), reason)
                continue
            }
            for field in type.fields.keys where after.fields[field] == nil {
                add(.field(type: name, field), reason)
            }
        }
    }

    private mutating func forbidRetyping(of old: Schema, to new: Schema, _ reason: String) {
        for (name, type) in old.types {
            for (field, before) in type.fields {
                guard let after = new.types[name]?.fields[field], !before.mayBecome(after) else { continue }
                let element = SchemaElement.field(type: name, field)
                // Reports each element once: what is in production is in development too.
                guard !violations.contains(where: { $0.element == element }) else { continue }
                add(
                    element,
                    "cannot become \(FieldDeclaration(after).text): it is \(FieldDeclaration(before).text) \(reason)"
                )
            }
        }
    }

    /// Rejects the removal of a role that users have.
    private mutating func protectRoles(of old: Schema, _ environment: String, from new: Schema) {
        for role in old.roles.subtracting(new.roles) {
            let holders = old.members.values.count { $0.contains(role) }
            guard holders > 0 else { continue }
            let who = holders == 1 ? "one user has" : "\(holders) users have"
            add(
                .role(role.name),
                "cannot be removed: \(who) it in \(environment); remove it first with 'zonecast user role revoke'"
            )
        }
    }

    private mutating func add(_ element: SchemaElement, _ reason: String) {
        violations.append(Violation(element: element, reason: reason))
    }
}

extension RecordType.Field {
    /// Returns whether stored values keep their type: only the type of an undecided NUMBER may change.
    fileprivate func mayBecome(_ new: RecordType.Field) -> Bool {
        if isEncrypted == new.isEncrypted, type == new.type {
            return new.number != .unspecified || number == .unspecified
        }
        guard number == .unspecified, new.number == .preferred, !new.isEncrypted else { return false }
        if case .list = type { return new.type == .list(.int64) }
        return new.type == .scalar(.int64)
    }
}

extension Schema {
    /// Returns the schema with the `Users` type and its built-in fields, even if a text omits them.
    fileprivate func keepingUsers(of current: Schema) -> Schema {
        guard let users = current.types[RecordType.usersName] else { return self }
        var kept = self
        kept.types[RecordType.usersName, default: users].fields.merge(
            users.fields.filter { RecordType.users.fields[$0.key] != nil }
        ) { new, _ in new }
        return kept
    }

    /// Returns these definitions with the version, members and retired fields of another schema.
    fileprivate func inPlace(of old: Schema) -> Schema {
        var result = self
        result.version = old.version
        result.members = old.members
        result.removedFields = old.removedFields
        return result
    }
}

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
            return changes.append(.init(.removeField, element, before: old.map { FieldDeclaration($0).text } ?? ""))
        }
        let form = FieldDeclaration(new)
        guard let old else {
            let words = [form.text] + new.indexes.keywords
            return changes.append(.init(.addField, element, after: words.joined(separator: " ")))
        }
        if FieldDeclaration(old) != form {
            changes.append(.init(.changeField, element, before: FieldDeclaration(old).text, after: form.text))
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
