import Crypto
import Foundation
import Records
import RelayCore

/// The credential that an asset's address was issued to; the address becomes invalid together with it.
enum AssetAddressCredential: Hashable {
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
    var issuedTo: AssetAddressCredential?
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
            issuedTo?.text ?? "", room.map { "\($0)" } ?? "",
        ]
    }

    init(home: ContainerEnvironment, user: UserID, zone: ZoneID, issuedTo: AssetAddressCredential?, room: Int64?) {
        self.home = home
        self.user = user
        self.zone = zone
        self.issuedTo = issuedTo
        self.room = room
    }

    init?(_ parts: [String]) {
        guard let home = ContainerEnvironment(described: parts[0]) else { return nil }
        self.init(
            home: home,
            user: UserID(parts[1]),
            zone: ZoneID(parts[3], owner: UserID(parts[2])),
            issuedTo: AssetAddressCredential(text: parts[4]),
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
    var issuedTo: AssetAddressCredential?
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
            field, hash.checksum, issuedTo?.text ?? "",
        ]
    }

    init(
        home: ContainerEnvironment,
        issuedTo: AssetAddressCredential?,
        user: UserID?,
        scope: DatabaseScope,
        zone: ZoneID,
        record: String,
        field: String,
        hash: AssetHash
    ) {
        self.home = home
        self.issuedTo = issuedTo
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
            issuedTo: AssetAddressCredential(text: parts[8]),
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

/// Encrypts the content of upload addresses, receipts and download addresses with the relay's key.
///
/// Only this relay can create or read them, and it stores nothing. Uses AES-GCM; the purpose is authenticated, so that
/// a text for one purpose is invalid for another. See Wire.md, "Asset operations".
struct AssetSeal: Sendable {
    enum Purpose: String {
        case upload, receipt, download
    }

    private let key: SymmetricKey
    private let random: RandomSource

    init(relayKey: [UInt8], random: RandomSource) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast assets 1")
        self.random = random
    }

    /// Returns nonce, ciphertext and tag in Base64URL.
    ///
    /// No part may contain a line feed; names of records, zones and fields cannot.
    func seal(_ parts: [String], for purpose: Purpose, until end: Timestamp) -> String {
        let text = ([String(end.milliseconds)] + parts).joined(separator: "\n")
        guard let nonce = try? AES.GCM.Nonce(data: random.bytes(12)),
            let box = try? AES.GCM.seal(
                Array(text.utf8),
                using: key,
                nonce: nonce,
                authenticating: Array(purpose.rawValue.utf8)
            ), let bytes = box.combined
        else { preconditionFailure("a nonce of 12 bytes and a key of 32 always seal") }
        return Base64URL.encode(Array(bytes))
    }

    /// Returns the parts; `nil` if this relay has not sealed them for this purpose or they have expired.
    func open(_ text: String, for purpose: Purpose, count: Int, at now: Timestamp) -> [String]? {
        guard text.utf8.count <= 4096, let bytes = Base64URL.decode(text.utf8),
            let box = try? AES.GCM.SealedBox(combined: bytes),
            let content = try? AES.GCM.open(box, using: key, authenticating: Array(purpose.rawValue.utf8))
        else { return nil }
        let parts = String(decoding: content, as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == count + 1, let end = Int64(parts[0]), now.milliseconds < end else { return nil }
        return Array(parts.dropFirst())
    }
}
