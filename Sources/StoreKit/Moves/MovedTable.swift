/// A table of a store in the form in which its rows move to another store.
///
/// Both stores have these tables, under similar names. Numbers that a store gives to users, record types, zones and shares
/// mean nothing to another one: columns that contain them say so, and `MoveTranslation` replaces them.
package enum MovedTable: String, CaseIterable, Sendable {
    // Of an owner.
    case zone, record, reference, assetUse, share, participant, shareRequest, shareAlias, sharedZone, shareEntry
    case subscription
    /// Idempotency records and signatures of writes with the owner whose data they changed, for a move of one owner.
    case ownerDoneWrite, ownerSignedWrite
    // Of a container in one environment.
    /// The same without the owner, which a store on SQLite does not know.
    case doneWrite, signedWrite
    case recordType, recordField, retiredField, recordGrant, role, roleMember, transfer
    // Of the relay: accounts, credentials and operators. Their numbers are the same in every store.
    case relay, container, apiToken, serverKey, managementToken, account, session, containerUser, issuer, pushDevice
    case quota, containerQuota, operatorAccount, operatorLink, operatorSession, operatorPasskey, audit

    /// What a column contains.
    package enum Kind: Sendable {
        /// 8 bytes.
        case int
        /// 1 byte.
        case bool
        case text, bytes
        /// Numbers of the store, 8 bytes.
        case user, type, zone, share

        /// Whether it is a number that each store gives for itself.
        package var isNumber: Bool {
            switch self {
            case .user, .type, .zone, .share: true
            case .int, .bool, .text, .bytes: false
            }
        }
    }

    package struct Column: Sendable {
        package let name: String
        package let kind: Kind

        fileprivate init(_ name: String, _ kind: Kind) { (self.name, self.kind) = (name, kind) }
    }

    /// The columns; those of the key are the first ones.
    package var columns: [Column] { Self.allColumns[self] ?? [] }

    /// The number of columns that identify a row within what moves.
    package var keyCount: Int {
        switch self {
        case .zone, .share, .recordType, .role, .transfer, .relay, .container, .apiToken, .serverKey, .managementToken,
            .account, .session, .quota, .operatorAccount, .operatorLink, .operatorSession, .operatorPasskey, .audit:
            1
        case .record, .participant, .shareRequest, .shareAlias, .sharedZone, .shareEntry, .doneWrite, .signedWrite,
            .recordField, .retiredField, .recordGrant, .roleMember, .issuer, .containerQuota:
            2
        case .assetUse, .subscription, .ownerDoneWrite, .ownerSignedWrite, .containerUser: 3
        case .pushDevice: 4
        case .reference: 5
        }
    }

    /// Whether the table has as many rows as there are records, so that only what has changed moves again.
    package var isLarge: Bool {
        switch self {
        case .record, .reference, .assetUse, .shareEntry: true
        default: false
        }
    }

    /// The tables that move with one owner, in an order in which each row comes after those that it refers to.
    package static let ofOwner: [MovedTable] = [
        .zone, .share, .record, .reference, .assetUse, .participant, .shareRequest, .shareAlias, .sharedZone,
        .shareEntry, .subscription, .ownerDoneWrite, .ownerSignedWrite,
    ]

    /// The tables that move with a container, in such an order.
    package static let ofHome: [MovedTable] = [
        .recordType, .recordField, .retiredField, .recordGrant, .role, .roleMember, .zone, .share, .record, .reference,
        .assetUse, .participant, .shareRequest, .shareAlias, .sharedZone, .shareEntry, .subscription, .doneWrite,
        .signedWrite, .transfer,
    ]

    /// The tables of a relay, in such an order.
    package static let ofRelay: [MovedTable] = [
        .relay, .container, .apiToken, .serverKey, .managementToken, .account, .session, .containerUser, .issuer,
        .pushDevice, .quota, .containerQuota, .operatorAccount, .operatorLink, .operatorSession, .operatorPasskey,
        .audit,
    ]

    // Computed once: every row asks for them.
    private static let allColumns: [MovedTable: [Column]] = Dictionary(
        uniqueKeysWithValues: allCases.map { ($0, list(of: $0)) }
    )

    private static func list(of table: MovedTable) -> [Column] {
        func columns(_ names: String, _ kind: Kind) -> [Column] {
            names.split(separator: " ").map { Column(String($0), kind) }
        }
        return switch table {
        case .zone:
            // `deleted` implies that its records do not move.
            columns("identity", .int) + columns("owner", .user) + columns("name", .text)
                + columns("last_change record_bytes asset_bytes last_modified horizon shared", .int)
                + columns("deleted", .bool) + columns("ended loss", .int)
        case .record:
            columns("zone", .zone) + columns("name", .text) + columns("change", .int) + columns("type", .type)
                + columns("deleted", .bool) + columns("created_at", .int) + columns("created_by", .user)
                + columns("created_device modified_at", .int) + columns("modified_by", .user)
                + columns("modified_device", .int) + columns("parent share", .text) + columns("fields", .bytes)
        case .reference:
            columns("zone", .zone) + columns("target", .text) + columns("kind", .int) + columns("source field", .text)
        case .assetUse:
            columns("zone", .zone) + columns("hash", .bytes) + columns("name", .text) + columns("size", .int)
        case .share:
            columns("guid", .text) + columns("zone", .zone) + columns("name root", .text)
                + columns("public_permission last_change", .int) + columns("allows_requests has_aliases", .bool)
                + columns("horizon", .int)
        case .participant:
            columns("share", .share) + columns("id", .text) + columns("place role permission", .int)
                + columns("accepted", .bool) + columns("person", .user) + columns("email phone", .text)
                + columns("has_asked", .bool) + columns("added", .int)
        case .shareRequest:
            columns("share", .share) + columns("person", .user) + columns("place", .int) + columns("blocked", .bool)
        case .shareAlias: columns("share", .share) + columns("shown kept", .text)
        case .sharedZone:
            columns("person", .user) + columns("zone", .zone) + columns("identity change", .int)
                + columns("ended", .bool)
        case .shareEntry:
            columns("share", .share) + columns("name", .text) + columns("zone", .zone)
                + columns("change gone record", .int) + columns("type", .type)
        case .subscription:
            columns("person", .user) + columns("scope", .int) + columns("id", .text) + columns("kind", .int)
                + columns("zone_owner zone_name", .text) + columns("notification_info", .bytes)
                + columns("record_type", .text) + columns("query", .bytes) + columns("fires", .int)
        case .ownerDoneWrite:
            columns("owner person", .user) + columns("id", .text) + columns("print", .int) + columns("places", .bytes)
                + columns("place", .int)
        case .ownerSignedWrite: columns("owner", .user) + columns("signed_at", .int) + columns("fingerprint", .bytes)
        case .doneWrite:
            columns("person", .user) + columns("id", .text) + columns("print", .int) + columns("places", .bytes)
        case .signedWrite: columns("signed_at", .int) + columns("fingerprint", .bytes)
        case .recordType: columns("name", .text) + columns("declared", .bool)
        case .recordField:
            columns("type", .type) + columns("name tag", .text) + columns("encrypted", .bool)
                + columns("indexes number", .int)
        case .retiredField:
            columns("type", .type) + columns("name tag", .text) + columns("encrypted", .bool) + columns("number", .int)
        case .recordGrant: columns("type", .type) + columns("role", .text) + columns("rights", .int)
        case .role: columns("name", .text)
        case .roleMember: columns("person role", .text)
        case .transfer: columns("month bytes", .int)
        case .relay: columns("id", .int) + columns("token_key", .bytes) + columns("revocations", .int)
        case .container: columns("name", .text) + columns("created", .int) + columns("title", .text)
        case .apiToken:
            columns("hash", .bytes) + columns("id container environment name notes callback origins", .text)
                + columns("created revoked", .int)
        case .serverKey:
            columns("id container environment name public_key user_name", .text) + columns("created revoked", .int)
        case .managementToken:
            columns("hash", .bytes) + columns("id container name", .text)
                + columns("created expires revoked used", .int)
        case .account:
            columns("id method", .int) + columns("login", .text) + columns("salt hash", .bytes)
                + columns("rounds block_size parallelism", .int) + columns("disabled", .bool) + columns("created", .int)
                + columns(
                    "email phone name_prefix given_name middle_name family_name name_suffix nickname",
                    .text
                )
        case .session:
            columns("id secret_hash", .bytes) + columns("account", .int) + columns("container environment", .text)
                + columns("kind created revoked used", .int)
        case .containerUser:
            columns("container environment", .text) + columns("account", .int) + columns("name", .text)
                + columns("discoverable", .bool)
        case .issuer:
            columns("container name audiences algorithms keys_url keys_file claims", .text)
                + columns("trusts_contacts", .bool) + columns("created revision", .int)
        case .pushDevice:
            columns("container environment user_name device id", .text) + columns("session api_token", .bytes)
                + columns("kind address topic", .text) + columns("sandbox", .bool) + columns("key secret", .bytes)
                + columns("registered", .int) + columns("fault", .text)
        case .quota: columns("account private_bytes", .int)
        case .containerQuota:
            columns("container environment", .text)
                + columns("private_bytes public_records public_assets public_transfer", .int)
        case .operatorAccount:
            columns("id", .int) + columns("name user_name", .text) + columns("salt hash", .bytes)
                + columns("rounds block_size parallelism created", .int)
        case .operatorLink: columns("hash", .bytes) + columns("operator", .text) + columns("expires", .int)
        case .operatorSession: columns("hash", .bytes) + columns("operator created used", .int)
        case .operatorPasskey:
            columns("id", .bytes) + columns("operator", .int) + columns("name", .text) + columns("algorithm", .int)
                + columns("public_key", .bytes) + columns("host", .text) + columns("sign_count created used", .int)
        case .audit:
            columns("id at", .int) + columns("actor action container environment subject detail", .text)
        }
    }
}

/// What moves: one owner by the store's number, all owners of a container in one environment with what belongs to the
/// container itself, or the relay.
package enum MoveScope: Hashable, Sendable {
    case owner(Int64)
    case home
    /// The relay's accounts, credentials and operators.
    case relay
}
