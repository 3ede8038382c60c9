package import Records

/// The database that a request addresses, as its caller sees it; resolves the caller's zone IDs.
///
/// See Errors.md, "Database scopes".
package struct DatabaseAddress: Hashable, Sendable {
    package var scope: DatabaseScope
    package var caller: Caller

    package init(scope: DatabaseScope, caller: Caller) {
        self.scope = scope
        self.caller = caller
    }

    /// Returns the zone's ID with its owner filled in.
    ///
    /// Throws `zoneNotFound` for zones that the caller cannot access in this database, exactly as for a zone that does
    /// not exist.
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
            // The owner must be named, and a user's own zones are not in their shared database.
            guard let user = caller.user, id.owner != .caller, id.owner != user, id.owner != Zone.publicOwner,
                !id.isDefault
            else { throw .zoneNotFound }
            return id
        }
    }

    /// Returns a zone ID with its owner filled in, for responses, whether or not the zone exists.
    package func full(_ id: ZoneID) -> ZoneID {
        guard id.owner == .caller, let owner = owner ?? caller.user else { return id }
        return ZoneID(id.zoneName, owner: owner)
    }

    /// The owner of all zones in this database; `nil` for the shared database, whose zones have many owners.
    package var owner: UserID? {
        switch scope {
        case .public: Zone.publicOwner
        case .private: caller.user
        case .shared: nil
        }
    }

    /// Returns the caller's roles in the public database, apart from being a record's creator.
    package func roles(in schema: Schema) -> [Role] {
        guard let user = caller.user else { return [.world] }
        guard !schema.members.isEmpty, let own = schema.members[user] else { return [.world, .authenticated] }
        return [.world, .authenticated] + own
    }

    /// Whether the caller is an operator.
    package var isOperators: Bool { if case .operator = caller.identity { true } else { false } }

    /// Returns the caller's rights to records of this type in the public database, apart from those of their creator.
    package func rights(toType type: RecordType, in schema: Schema) -> Rights {
        isOperators ? [.read, .create, .write] : type.rights(of: roles(in: schema))
    }

    /// Returns the caller's rights to records of this type that they created.
    package func rights(toOwnOfType type: RecordType, in schema: Schema) -> Rights {
        isOperators ? [.read, .create, .write] : type.rights(of: roles(in: schema) + [.creator])
    }

    /// Returns the caller's rights to this record.
    package func rights(to record: StoredRecord, in schema: Schema) -> Rights {
        guard scope == .public, !isOperators else { return [.read, .create, .write] }
        // A type that was removed from the schema grants no rights.
        guard let type = schema.types[record.type] else { return [] }
        let isCreator = caller.user.map { $0 == record.created.by } ?? false
        return isCreator ? rights(toOwnOfType: type, in: schema) : rights(toType: type, in: schema)
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

/// The authenticated sender of a request.
package struct Caller: Hashable, Sendable {
    package enum Identity: Hashable, Sendable {
        /// An API token alone: the World role, public database only.
        case anonymous
        case user(UserID)
        /// A server-to-server key, acting in the public database as a user of its own.
        case serverKey(UserID)
        /// An operator in the console: full access to the public database, none to other databases.
        case `operator`(UserID)
    }

    package var identity: Identity
    /// Identifies the calling device, so that the relay does not send it notices of its own changes.
    ///
    /// The value of the request's `X-Zonecast-Device-ID`, or one derived from the web auth token. See Notices.md,
    /// "Which notice".
    package var deviceID: String

    package init(_ identity: Identity, deviceID: String) {
        self.identity = identity
        self.deviceID = deviceID
    }

    /// The user as whom the caller acts; `nil` for an anonymous caller.
    package var user: UserID? {
        switch identity {
        case .anonymous: nil
        case .user(let user), .serverKey(let user), .operator(let user): user
        }
    }
}
