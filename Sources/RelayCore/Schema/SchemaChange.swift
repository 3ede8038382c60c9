package import Records
import Wire

/// A schema that is to take the place of an environment's: what it comes to, and all that forbids it.
///
/// It is taken as a whole or not at all. See SchemaLanguage.md, "Changing a schema".
package struct SchemaChange: Sendable {
    /// Why one element may not become what it would.
    package struct Offence: Hashable, Sendable {
        package var element: SchemaElement
        /// A sentence without its full stop.
        package var reason: String
    }

    /// The environment's schema afterwards; its version and members are those it has.
    package let result: Schema
    package private(set) var offences: [Offence] = []
    package let difference: SchemaDifference

    package var isAllowed: Bool { offences.isEmpty }

    /// A text in place of development's schema, compared with it and with production's.
    package init(importing text: Schema, over development: Schema, production: Schema) {
        let new = text.keepingUsers(of: development)
        result = new.inPlace(of: development)
        difference = SchemaDifference(from: development, to: result)
        // Where nobody has signed in to development yet, only production has the users' type.
        protect(production, from: new.keepingUsers(of: production), "is in production and cannot be removed")
        forbidRetyping(
            of: production,
            to: new,
            "in production; what is there never changes its type"
        )
        forbidRetyping(
            of: development,
            to: new,
            "in development; it can change only after 'zonecast schema reset'"
        )
        forbidRetyping(
            of: Schema(types: development.retired.mapValues { RecordType(fields: $0) }),
            to: new,
            "in what development's records may still hold; it can come back as another only after 'zonecast schema reset'"
        )
        protectRoles(of: development, "development", from: new)
        protectRoles(of: production, "production", from: new)
        offences.sort { $0.element < $1.element }
    }

    /// Development's schema in place of production's.
    package init(promoting development: Schema, over production: Schema) {
        let new = development.keepingUsers(of: production)
        result = new.inPlace(of: production)
        difference = SchemaDifference(from: production, to: result)
        protect(production, from: new, "is in production but not in development; a promotion only adds")
        forbidRetyping(of: production, to: new, "in production; what is there never changes its type")
        protectRoles(of: production, "production", from: new)
        offences.sort { $0.element < $1.element }
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
                // Once for each: what is in production is in development as well.
                guard !offences.contains(where: { $0.element == element }) else { continue }
                add(element, "cannot become \(FieldForm(after).text): it is \(FieldForm(before).text) \(reason)")
            }
        }
    }

    /// A role that somebody has cannot go.
    private mutating func protectRoles(of old: Schema, _ environment: String, from new: Schema) {
        for role in old.roles.subtracting(new.roles) {
            let holders = old.members.values.count { $0.contains(role) }
            guard holders > 0 else { continue }
            let who = holders == 1 ? "one user has" : "\(holders) users have"
            add(
                .role(role.name),
                "cannot be removed: \(who) it in \(environment); take it from them with 'zonecast role take'"
            )
        }
    }

    private mutating func add(_ element: SchemaElement, _ reason: String) {
        offences.append(Offence(element: element, reason: reason))
    }
}

extension RecordType.Field {
    /// Whether stored values stay what they are: only an open NUMBER may be settled.
    fileprivate func mayBecome(_ new: RecordType.Field) -> Bool {
        if isEncrypted == new.isEncrypted, type == new.type { return new.number != .open || number == .open }
        guard number == .open, new.number == .settled, !new.isEncrypted else { return false }
        if case .list = type { return new.type == .list(.int64) }
        return new.type == .scalar(.int64)
    }
}

extension Schema {
    /// The users' type is always there: a text that leaves it out, or a field that it came with, leaves it as it is.
    fileprivate func keepingUsers(of current: Schema) -> Schema {
        guard let users = current.types[RecordType.usersName] else { return self }
        var kept = self
        kept.types[RecordType.usersName, default: users].fields.merge(
            users.fields.filter { RecordType.users.fields[$0.key] != nil }
        ) { new, _ in new }
        return kept
    }

    /// These definitions under the version and the members of another.
    fileprivate func inPlace(of old: Schema) -> Schema {
        var result = self
        result.version = old.version
        result.members = old.members
        result.retired = old.retired
        return result
    }
}
