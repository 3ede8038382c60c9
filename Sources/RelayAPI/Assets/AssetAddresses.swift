import Records
import RelayCore

/// What an upload address speaks for.
struct Upload {
    var home: ContainerEnvironment
    var user: UserID
    /// The zone that the asset is for; its owner's quota takes it.
    var zone: ZoneID
    /// The sign-in that it was given to and ends with; `nil` where it came by other credentials.
    var session: Session.ID?
    /// Bytes that the quota had left when the address was made; `nil`: any number.
    var room: Int64?

    var owner: UserID { zone.owner }
    var isPublic: Bool { owner == Zone.publicOwner }
    /// Whether it is for somebody else's zone, where the right to write may end.
    var isForSharedZone: Bool { !isPublic && owner != user }

    static let count = 6
    var parts: [String] {
        [
            home.description, user.recordName, zone.owner.recordName, zone.zoneName,
            session.map { String($0.number, radix: 36) } ?? "", room.map { "\($0)" } ?? "",
        ]
    }

    init(home: ContainerEnvironment, user: UserID, zone: ZoneID, session: Session.ID?, room: Int64?) {
        self.home = home
        self.user = user
        self.zone = zone
        self.session = session
        self.room = room
    }

    init?(_ parts: [String]) {
        guard let home = ContainerEnvironment(described: parts[0]) else { return nil }
        self.init(
            home: home,
            user: UserID(parts[1]),
            zone: ZoneID(parts[3], owner: UserID(parts[2])),
            session: UInt128(parts[4], radix: 36).map { Session.ID($0) },
            room: Int64(parts[5])
        )
    }

    /// Told at the upload: whose quota it is was told with the address.
    var quotaExceeded: RelayError {
        RelayError(
            .quotaExceeded,
            "There is not enough room left for this asset, with those uploaded before it that no record holds yet. "
                + "Save or leave those, or delete records first."
        )
    }
}

/// What a download address speaks for: one asset in one field, for one person.
struct Download {
    var home: ContainerEnvironment
    /// The sign-in that it was given to and ends with; `nil` where it came by other credentials.
    var session: Session.ID?
    /// `nil`: anybody, in the public database.
    var user: UserID?
    var scope: DatabaseScope
    var zone: ZoneID
    var record: String
    var field: String
    var hash: AssetHash

    static let count = 9
    var parts: [String] {
        [
            home.description, user?.recordName ?? "", scope.pathName, zone.zoneName, zone.owner.recordName, record,
            field, hash.checksum, session.map { String($0.number, radix: 36) } ?? "",
        ]
    }

    init(
        home: ContainerEnvironment,
        session: Session.ID?,
        user: UserID?,
        scope: DatabaseScope,
        zone: ZoneID,
        record: String,
        field: String,
        hash: AssetHash
    ) {
        self.home = home
        self.session = session
        self.user = user
        self.scope = scope
        self.zone = zone
        self.record = record
        self.field = field
        self.hash = hash
    }

    init?(_ parts: [String]) {
        guard let home = ContainerEnvironment(described: parts[0]), let scope = DatabaseScope(pathName: parts[2]),
            let hash = AssetHash(checksum: parts[7])
        else { return nil }
        self.init(
            home: home,
            session: UInt128(parts[8], radix: 36).map { Session.ID($0) },
            user: parts[1].isEmpty ? nil : UserID(parts[1]),
            scope: scope,
            zone: ZoneID(parts[3], owner: UserID(parts[4])),
            record: parts[5],
            field: parts[6],
            hash: hash
        )
    }
}

extension ContainerEnvironment {
    /// As `description` writes it.
    fileprivate init?(described text: String) {
        let parts = text.split(separator: "/").map(String.init)
        guard parts.count == 2, let container = ContainerID(parts[0]), let environment = Environment(rawValue: parts[1])
        else { return nil }
        self.init(container, environment)
    }
}
