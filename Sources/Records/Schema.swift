/// What a container's records may look like and who may touch them in the public database.
///
/// See SchemaLanguage.md, "Grammar".
package struct Schema: Hashable, Sendable {
    /// Grows with every change, so that a decision prepared under one version is seen to be stale under the next.
    package var version: Int
    package var types: [String: RecordType]
    /// The declared roles; the three that are always there are not among them.
    package var roles: Set<Role>
    /// Which of the declared roles users have been given, apart from those that everybody has.
    ///
    /// No part of the schema's text, but kept and noticed with it: a right is decided by both.
    package var members: [UserID: Set<Role>] = [:]
    /// Fields that were taken out, by their types' names: records may still hold them, so they come back as they were or
    /// not at all.
    package var retired: [String: [String: RecordType.Field]] = [:]

    package init(version: Int = 0, types: [String: RecordType] = [:], roles: Set<Role> = []) {
        self.version = version
        self.types = types
        self.roles = roles
    }

    /// A type whose records can be asked for: those of the schema, and shares, which no schema declares.
    package func queryable(_ name: String) -> RecordType? {
        types[name] ?? (name == Share.recordType ? RecordType() : nil)
    }
}

/// One record type: its fields, and the rights each role has to its records.
package struct RecordType: Hashable, Sendable {
    package struct Field: Hashable, Sendable {
        package var type: FieldType
        package var isEncrypted: Bool
        package var indexes: Indexes
        /// For a field declared as NUMBER; `nil` for all others.
        package var number: NumberForm?

        /// Without `indexes`, all that its type can have, as a field has that came about by being saved.
        package init(
            _ type: FieldType,
            isEncrypted: Bool = false,
            indexes: Indexes? = nil,
            number: NumberForm? = nil
        ) {
            self.type = type
            self.isEncrypted = isEncrypted
            self.indexes = indexes ?? .all(for: type, isEncrypted: isEncrypted)
            self.number = number
        }
    }

    /// Whether a NUMBER has been settled.
    package enum NumberForm: Int, Hashable, Sendable {
        /// Holds doubles, and integers as doubles.
        case open = 1
        /// PREFERRED AS the type it has now.
        case settled = 2
    }

    package var fields: [String: Field]
    package var grants: [Role: Rights]
    /// Those of the fields that every record has; such as have none are left out.
    package var systemIndexes: [Query.SystemField: Indexes]

    package init(
        fields: [String: Field] = [:],
        grants: [Role: Rights] = RecordType.defaultGrants,
        systemIndexes: [Query.SystemField: Indexes] = RecordType.allSystemIndexes
    ) {
        self.fields = fields
        self.grants = grants
        self.systemIndexes = systemIndexes
    }

    /// What a type has that came about by being saved: everything can be asked, as in a development environment one wants
    /// to; a text that declares the type says for itself what can.
    package static let allSystemIndexes = Dictionary(
        uniqueKeysWithValues: Query.SystemField.allCases.map { ($0, [.queryable, .sortable] as Indexes) }
    )

    /// CloudKit's own: everybody reads, whoever is signed in creates, the creator writes.
    package static let defaultGrants: [Role: Rights] = [.world: .read, .authenticated: .create, .creator: .write]

    /// The type of the records that stand for users; the relay makes and ends them.
    ///
    /// See Wire.md, "Users".
    package static let usersName = "Users"

    /// What it is before anybody declares it: without any index, since whoever may query it has a list of all users.
    package static let users = RecordType(
        fields: ["roles": Field(.list(.int64), indexes: [])],
        grants: [.world: .read, .creator: .write],
        systemIndexes: [:]
    )

    /// What every share record may hold.
    package static let share = RecordType(
        fields: [
            "cloudkit.title": Field(.scalar(.string), indexes: []),
            "cloudkit.type": Field(.scalar(.string), indexes: []),
            "cloudkit.thumbnailImageData": Field(.scalar(.bytes), indexes: []),
        ]
    )

    /// The indexes of a field, be it one of the type's own or one that every record has.
    package func indexes(of field: Query.Field) -> Indexes {
        switch field {
        case .own(let name): fields[name]?.indexes ?? []
        case .system(let system): systemIndexes[system] ?? []
        case .anySearchable: []
        }
    }

    /// The union of what the caller's roles are given.
    ///
    /// Whoever makes a record is its creator, so that creating is given to all who are signed in where it is given to
    /// creators.
    package func rights(of roles: some Collection<Role>) -> Rights {
        let given = roles.reduce(into: Rights()) { $0.formUnion(grants[$1] ?? []) }
        guard grants[.creator]?.contains(.create) ?? false, roles.contains(.authenticated) else { return given }
        return given.union(.create)
    }
}

/// A role of the public database, by its name in the schema language.
package struct Role: Hashable, Sendable {
    package let name: String

    package init(_ name: String) { self.name = name }

    package static let world = Role("_world")
    package static let authenticated = Role("_icloud")
    package static let creator = Role("_creator")

    /// Those that every schema has without declaring them.
    package static let implicit: Set<Role> = [.world, .authenticated, .creator]
}

/// What a role may do; each stands alone, and writing includes deleting.
package struct Rights: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let read = Rights(rawValue: 1)
    package static let create = Rights(rawValue: 2)
    package static let write = Rights(rawValue: 4)
}

/// Which ways of asking a field is made ready for.
package struct Indexes: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let queryable = Indexes(rawValue: 1)
    package static let sortable = Indexes(rawValue: 2)
    package static let searchable = Indexes(rawValue: 4)

    /// All that a field of this type can have.
    ///
    /// See SchemaLanguage.md, "Indexes".
    package static func all(for type: FieldType, isEncrypted: Bool = false) -> Indexes {
        switch type {
        case _ where isEncrypted || type.isAsset: []
        case .scalar(.string): [.queryable, .sortable, .searchable]
        case .list(.string): [.queryable, .searchable]
        case .scalar: [.queryable, .sortable]
        case .list: .queryable
        }
    }
}
