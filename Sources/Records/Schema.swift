/// What a container's records may look like and who may touch them in the public database.
///
/// Schema reference.
package struct Schema: Hashable, Sendable {
    /// Grows with every change, so that a decision prepared under one version is seen to be stale under the next.
    package var version: Int
    package var types: [String: RecordType]

    package init(version: Int = 0, types: [String: RecordType] = [:]) {
        self.version = version
        self.types = types
    }
}

/// One record type: its fields, and the rights each role has to its records.
package struct RecordType: Hashable, Sendable {
    package struct Field: Hashable, Sendable {
        package var type: FieldType
        package var isEncrypted: Bool
        package var indexes: Indexes

        package init(
            _ type: FieldType,
            isEncrypted: Bool = false,
            indexes: Indexes = [.queryable, .sortable, .searchable]
        ) {
            self.type = type
            self.isEncrypted = isEncrypted
            self.indexes = indexes
        }
    }

    package var fields: [String: Field]
    package var grants: [Role: Rights]
    package var systemIndexes: [Query.SystemField: Indexes] = [
        .recordName: [.queryable, .sortable], .created: [.queryable, .sortable], .modified: [.queryable, .sortable],
        .createdBy: [.queryable, .sortable], .modifiedBy: [.queryable, .sortable], .changeTag: [.queryable, .sortable],
    ]

    package init(fields: [String: Field] = [:], grants: [Role: Rights] = RecordType.defaultGrants) {
        self.fields = fields
        self.grants = grants
    }

    /// CloudKit's own: everybody reads, whoever is signed in creates, the creator writes.
    package static let defaultGrants: [Role: Rights] = [.world: .read, .authenticated: .create, .creator: .write]

    /// The type of the records that stand for users; the relay makes and ends them.
    ///
    /// Wire reference 4.8.
    package static let usersName = "Users"

    /// The union of what the caller's roles are given.
    package func rights(of roles: some Sequence<Role>) -> Rights {
        roles.reduce(into: Rights()) { $0.formUnion(grants[$1] ?? []) }
    }
}

/// A role of the public database, by its name in the schema language.
package struct Role: Hashable, Sendable {
    package let name: String

    package init(_ name: String) { self.name = name }

    package static let world = Role("_world")
    package static let authenticated = Role("_icloud")
    package static let creator = Role("_creator")
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
}
