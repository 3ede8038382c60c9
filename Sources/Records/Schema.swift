/// The record types of a container, and the rights to them in the public database.
///
/// See SchemaLanguage.md, "Grammar".
package struct Schema: Hashable, Sendable {
    /// Increases with every change, which invalidates everything prepared with an earlier version.
    package var version: Int
    package var types: [String: RecordType]
    /// The declared roles, without the three built-in ones.
    package var roles: Set<Role>
    /// The declared roles of users, without the built-in roles.
    ///
    /// Not part of the schema's text, but versioned with it, because rights depend on both.
    package var members: [UserID: Set<Role>] = [:]
    /// Removed fields by type name: records may still contain them, so they can only be added again with the same type.
    package var removedFields: [String: [String: RecordType.Field]] = [:]

    package init(version: Int = 0, types: [String: RecordType] = [:], roles: Set<Role> = []) {
        self.version = version
        self.types = types
        self.roles = roles
    }

    /// Returns a type whose records can be queried: a type of the schema, or shares, which no schema declares.
    package func queryable(_ name: String) -> RecordType? {
        types[name] ?? (name == Share.recordType ? RecordType() : nil)
    }
}

/// A record type: its fields, and the rights of each role to its records.
package struct RecordType: Hashable, Sendable {
    package struct Field: Hashable, Sendable {
        package var type: FieldType
        package var isEncrypted: Bool
        package var indexes: Indexes
        /// Only for a field declared as NUMBER.
        package var number: NumberKind?

        /// Creates a field; without `indexes`, it gets all that its type supports, like a field added by saving.
        package init(
            _ type: FieldType,
            isEncrypted: Bool = false,
            indexes: Indexes? = nil,
            number: NumberKind? = nil
        ) {
            self.type = type
            self.isEncrypted = isEncrypted
            self.indexes = indexes ?? .all(for: type, isEncrypted: isEncrypted)
            self.number = number
        }
    }

    /// Whether the type of a NUMBER is decided.
    package enum NumberKind: Int, Hashable, Sendable {
        /// Contains doubles, and integers as doubles.
        case unspecified = 1
        /// Declared PREFERRED AS the field's current type.
        case preferred = 2
    }

    package var fields: [String: Field]
    package var grants: [Role: Rights]
    /// The indexes of the system fields; fields without indexes are left out.
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

    /// The system indexes of a type that was added by saving: all of them, as is convenient in development.
    ///
    /// A declared type has only the indexes that its text lists.
    package static let allSystemIndexes = Dictionary(
        uniqueKeysWithValues: Query.SystemField.allCases.map { ($0, [.queryable, .sortable] as Indexes) }
    )

    /// CloudKit's default: everybody reads, signed-in users create, the creator writes.
    package static let defaultGrants: [Role: Rights] = [.world: .read, .authenticated: .create, .creator: .write]

    /// The name of the type that represents users; the relay creates and deletes its records.
    ///
    /// See Wire.md, "Users".
    package static let usersName = "Users"

    /// The built-in definition, without indexes, since a caller who can query the type gets a list of all users.
    package static let users = RecordType(
        fields: ["roles": Field(.list(.int64), indexes: [])],
        grants: [.world: .read, .creator: .write],
        systemIndexes: [:]
    )

    /// The built-in fields of share records.
    package static let share = RecordType(
        fields: [
            "cloudkit.title": Field(.scalar(.string), indexes: []),
            "cloudkit.type": Field(.scalar(.string), indexes: []),
            "cloudkit.thumbnailImageData": Field(.scalar(.bytes), indexes: []),
        ]
    )

    /// Returns the indexes of a field or a system field.
    package func indexes(of field: Query.Field) -> Indexes {
        switch field {
        case .own(let name): fields[name]?.indexes ?? []
        case .system(let system): systemIndexes[system] ?? []
        case .anySearchable: []
        }
    }

    /// Returns the rights of a caller with these roles: the union of the roles' grants, and what those include.
    ///
    /// The author of a new record is its creator, so granting `create` to creators grants it to all signed-in users. `create`
    /// includes reading and writing the caller's own records, which applies if `roles` contains `_creator`. `write` includes
    /// `read`.
    package func rights(of roles: some Collection<Role>) -> Rights {
        var given = roles.reduce(into: Rights()) { $0.formUnion(grants[$1] ?? []) }
        if grants[.creator]?.contains(.create) ?? false, roles.contains(.authenticated) { given.insert(.create) }
        if given.contains(.create), roles.contains(.creator) { given.insert(.write) }
        if given.contains(.write) { given.insert(.read) }
        return given
    }
}

/// A role in the public database, by its name in the schema language.
package struct Role: Hashable, Sendable {
    package let name: String

    package init(_ name: String) { self.name = name }

    package static let world = Role("_world")
    package static let authenticated = Role("_icloud")
    package static let creator = Role("_creator")

    /// The roles that every schema has without declaring them.
    package static let implicit: Set<Role> = [.world, .authenticated, .creator]
}

/// The rights that a schema grants a role; write includes delete.
///
/// `RecordType.rights(of:)` adds what each grant includes.
package struct Rights: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let read = Rights(rawValue: 1)
    package static let create = Rights(rawValue: 2)
    package static let write = Rights(rawValue: 4)
}

/// The kinds of queries for which a field is indexed.
package struct Indexes: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let queryable = Indexes(rawValue: 1)
    package static let sortable = Indexes(rawValue: 2)
    package static let searchable = Indexes(rawValue: 4)

    /// Returns all indexes that a field of this type can have.
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

/// The name of an element of a schema, as used in diagnostics and differences.
package enum SchemaElement: Hashable, Sendable, Comparable {
    case role(String)
    case type(String)
    case field(type: String, String)
    case grant(type: String, role: String)

    package static func < (a: SchemaElement, b: SchemaElement) -> Bool { a.place.lexicographicallyPrecedes(b.place) }

    /// The sort key: roles first, then each type with its fields and its grants.
    private var place: [String] {
        switch self {
        case .role(let name): ["", name]
        case .type(let name): [name]
        case .field(let type, let name): [type, "1", name]
        case .grant(let type, let role): [type, "2", role]
        }
    }

    /// The names separately, for machine-readable output.
    package var names: (recordType: String?, field: String?, role: String?) {
        switch self {
        case .role(let name): (nil, nil, name)
        case .type(let name): (name, nil, nil)
        case .field(let type, let name): (type, name, nil)
        case .grant(let type, let role): (type, nil, role)
        }
    }

    /// The element in a sentence: `field 'title' of record type 'Note'`.
    package var sentenceName: String {
        switch self {
        case .role(let name): "role '\(name)'"
        case .type(let name): "record type '\(name)'"
        case .field(let type, let name): "field '\(name)' of record type '\(type)'"
        case .grant(let type, let role): "the rights of role '\(role)' to record type '\(type)'"
        }
    }
}
