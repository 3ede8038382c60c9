import Records
import RelayCore

/// The credential that an asset's address was given to: when it ends, so does the address.
enum AddressHolder: Hashable {
    case session(Session.ID)
    case serverKey(String)

    private static let keyMark = "key:"

    /// As it stands in a sealed address.
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

    /// That of a request; `nil` where neither a sign-in nor a key is shown.
    init?(_ credential: Credential) {
        switch credential {
        case .session(let id, _): self = .session(id)
        case .serverKey(let id): self = .serverKey(id)
        case .apiToken, .dev: return nil
        }
    }
}

/// What an upload address speaks for.
struct Upload {
    var home: ContainerEnvironment
    var user: UserID
    /// The zone that the asset is for; its owner's quota takes it.
    var zone: ZoneID
    /// What it was given to and ends with; `nil` where nothing ends it before its time.
    var holder: AddressHolder?
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
    /// What it was given to and ends with; `nil` where nothing ends it before its time.
    var holder: AddressHolder?
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
    /// As `description` writes it.
    fileprivate init?(described text: String) {
        let parts = text.split(separator: "/").map(String.init)
        guard parts.count == 2, let container = ContainerID(parts[0]), let environment = Environment(rawValue: parts[1])
        else { return nil }
        self.init(container, environment)
    }
}
