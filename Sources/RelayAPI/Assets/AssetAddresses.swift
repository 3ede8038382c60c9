import Records
import RelayCore

/// The credential that an asset's address was issued to; the address becomes invalid together with it.
enum AddressHolder: Hashable {
    case session(Session.ID)
    case serverKey(String)

    private static let keyMark = "key:"

    /// The text in a sealed address.
    var text: String {
        switch self {
        case .session(let id): String(id.number, radix: 36)
        case .serverKey(let id): Self.keyMark + id
        }
    }

    init?(text: String) {
        if text.hasPrefix(Self.keyMark) {
            self = .serverKey(String(text.dropFirst(Self.keyMark.count)))
        } else if let number = UInt128(text, radix: 36) {
            self = .session(Session.ID(number))
        } else {
            return nil
        }
    }

    /// Creates the value for the credential of a request; `nil` without a session or a server key.
    init?(_ credential: Credential) {
        switch credential {
        case .session(let id, _): self = .session(id)
        case .serverKey(let id): self = .serverKey(id)
        case .apiToken, .dev: return nil
        }
    }
}

/// The content of an upload address.
struct Upload {
    var home: ContainerEnvironment
    var user: UserID
    /// The zone of the future record; its owner's quota is charged.
    var zone: ZoneID
    /// The credential of the address; `nil` if only its expiry ends it.
    var holder: AddressHolder?
    /// The number of bytes that the quota had left when the address was created; `nil` without a quota.
    var room: Int64?

    var owner: UserID { zone.owner }
    var isPublic: Bool { owner == Zone.publicOwner }
    /// Whether the zone belongs to another user, so that the permission to write may end.
    var isForSharedZone: Bool { !isPublic && owner != user }

    static let count = 6
    var parts: [String] {
        [
            home.description, user.recordName, zone.owner.recordName, zone.zoneName,
            holder?.text ?? "", room.map { "\($0)" } ?? "",
        ]
    }

    init(home: ContainerEnvironment, user: UserID, zone: ZoneID, holder: AddressHolder?, room: Int64?) {
        self.home = home
        self.user = user
        self.zone = zone
        self.holder = holder
        self.room = room
    }

    init?(_ parts: [String]) {
        guard let home = ContainerEnvironment(described: parts[0]) else { return nil }
        self.init(
            home: home,
            user: UserID(parts[1]),
            zone: ZoneID(parts[3], owner: UserID(parts[2])),
            holder: AddressHolder(text: parts[4]),
            room: Int64(parts[5])
        )
    }

    /// The error of the upload itself; the exceeded quota was already named in the response of assets/upload.
    var quotaExceeded: RelayError {
        RelayError(
            .quotaExceeded,
            "This asset exceeds the quota, together with earlier uploads that are not yet saved in a record. "
                + "Save those, let them expire, or delete records first."
        )
    }
}

/// The content of a download address: one asset in one field, for one user.
struct Download {
    var home: ContainerEnvironment
    /// The credential of the address; `nil` if only its expiry ends it.
    var holder: AddressHolder?
    /// `nil` for everybody, in the public database.
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
            field, hash.checksum, holder?.text ?? "",
        ]
    }

    init(
        home: ContainerEnvironment,
        holder: AddressHolder?,
        user: UserID?,
        scope: DatabaseScope,
        zone: ZoneID,
        record: String,
        field: String,
        hash: AssetHash
    ) {
        self.home = home
        self.holder = holder
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
            holder: AddressHolder(text: parts[8]),
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
    /// Parses the text that `description` returns.
    fileprivate init?(described text: String) {
        let parts = text.split(separator: "/").map(String.init)
        guard parts.count == 2, let container = ContainerID(parts[0]), let environment = Environment(rawValue: parts[1])
        else { return nil }
        self.init(container, environment)
    }
}
