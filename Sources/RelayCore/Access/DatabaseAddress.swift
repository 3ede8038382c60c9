package import Records

/// Which database a request speaks of, and who asks: decides what zone a zone ID of theirs means.
///
/// See Errors.md, "Database scopes".
package struct DatabaseAddress: Hashable, Sendable {
    package var scope: DatabaseScope
    package var caller: Caller

    package init(scope: DatabaseScope, caller: Caller) {
        self.scope = scope
        self.caller = caller
    }

    /// The zone's full address, its owner filled in.
    ///
    /// Throws `zoneNotFound` for zones that the caller cannot have here, in the same words as for one that is not there.
    package func zone(_ id: ZoneID) throws(RelayError) -> ZoneID {
        guard NameRules.isZoneName(id.zoneName) else {
            throw .badRequest("Zone names are 1 to 255 ASCII characters and do not start with an underscore.")
        }
        switch scope {
        case .public:
            guard id.isDefault else { throw .zoneNotFound }
            return ZoneID(id.zoneName, owner: Zone.publicOwner)
        case .private:
            guard let user = caller.user else { throw .zoneNotFound }
            guard id.owner == .caller || id.owner == Zone.publicOwner || id.owner == user else { throw .zoneNotFound }
            return ZoneID(id.zoneName, owner: user)
        case .shared:
            // Whose zone it is has to be said, and nobody shares with themselves.
            guard let user = caller.user, id.owner != .caller, id.owner != user, id.owner != Zone.publicOwner,
                !id.isDefault
            else { throw .zoneNotFound }
            return id
        }
    }

    /// A zone ID as answers show it, whether or not there is such a zone: with the owner that it means.
    package func full(_ id: ZoneID) -> ZoneID {
        guard id.owner == .caller, let owner = owner ?? caller.user else { return id }
        return ZoneID(id.zoneName, owner: owner)
    }

    /// Whose zones make up this database; `nil` for the shared one, where they are of many.
    package var owner: UserID? {
        switch scope {
        case .public: Zone.publicOwner
        case .private: caller.user
        case .shared: nil
        }
    }

    /// The roles the caller has in the public database, apart from being some record's creator.
    package func roles(in schema: Schema) -> [Role] {
        guard let user = caller.user else { return [.world] }
        guard !schema.members.isEmpty, let own = schema.members[user] else { return [.world, .authenticated] }
        return [.world, .authenticated] + own
    }

    /// Whether whoever runs the relay asks.
    package var isOperators: Bool { if case .operator = caller.identity { true } else { false } }

    /// What the caller may do in the public database with records of this type, apart from being their creator.
    package func rights(toType type: RecordType, in schema: Schema) -> Rights {
        isOperators ? [.read, .create, .write] : type.rights(of: roles(in: schema))
    }

    /// What the caller may do with this record.
    package func rights(to record: StoredRecord, in schema: Schema) -> Rights {
        guard scope == .public, !isOperators else { return [.read, .create, .write] }
        // A type that was taken out of the schema grants nobody anything.
        guard let type = schema.types[record.type] else { return [] }
        let isCreator = caller.user.map { $0 == record.created.by } ?? false
        let roles = roles(in: schema)
        return type.rights(of: isCreator ? roles + [.creator] : roles)
    }
}

extension RelayError {
    package static let zoneNotFound = RelayError(.zoneNotFound, "Zone not found")
    package static let recordNotFound = RelayError(.notFound, "Record not found")
    package static let changeTokenExpired = RelayError(
        .badRequest,
        "client knowledge differs from server knowledge",
        fineCode: .changeTokenExpired
    )
}
