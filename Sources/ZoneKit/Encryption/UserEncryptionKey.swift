import Crypto
public import Foundation

/// The public key by which a user is given the keys of zones that are shared with them, as the relay tells it.
///
/// The relay could tell another: its own. Then it would be given the keys of shared zones, and read what is encrypted there. Two
/// people who want to be sure compare fingerprints by a way that is not the relay's.
public struct UserEncryptionKey: Hashable, Sendable {
    /// Whose it is said to be.
    public let userRecordID: CKRecord.ID
    /// Twelve groups of five digits, from the key's SHA-256: the same on every device, and for nothing else.
    public let fingerprint: String

    package init(_ publicKey: [UInt8], of user: String) {
        userRecordID = CKRecord.ID(recordName: user)
        let hash = Array(SHA256.hash(data: Data("zonecast fingerprint 1 ".utf8) + Data(publicKey)))
        let groups = (0..<12).map { group in
            let number = UInt32(hash[group * 2]) << 8 | UInt32(hash[group * 2 + 1])
            // The other bytes make each group use all of its five digits.
            let mixed = (number << 8 | UInt32(hash[24 + group % 8])) % 100_000
            return String(100_000 + mixed).dropFirst()
        }
        fingerprint = groups.joined(separator: " ")
    }
}

extension Notification.Name {
    /// A user has published another key than the one by which they were given zones' keys, and is given none any more.
    ///
    /// Posted on the default center. The user's own devices do so after a reset of their key; so would a relay that wants to
    /// read along. `userInfo` holds the new key under `CKUserEncryptionKeyKey`. Once it is known whose it is,
    /// `CKContainer.trustEncryptionKey(_:)` lets sharing go on.
    public static let CKUserEncryptionKeyChanged = Notification.Name("CKUserEncryptionKeyChangedNotification")
}

/// Under which a `CKUserEncryptionKeyChanged` has its `UserEncryptionKey`.
public let CKUserEncryptionKeyKey = "CKUserEncryptionKey"

extension EncryptionKeyProvider {
    /// Trusts a user's first key, and no other.
    ///
    /// - Parameters:
    ///   - key: The key that the relay tells.
    ///   - known: The key by which the user was given something before.
    /// - Returns: Whether zones' keys may be given to whoever holds the key.
    public func trusts(_ key: UserEncryptionKey, insteadOf known: UserEncryptionKey?) async -> Bool { known == nil }
}

extension CKContainer {
    /// The key that a user has published, for comparing its fingerprint.
    ///
    /// - Parameter userRecordID: The user; `userRecordID()` gives one's own.
    /// - Returns: The key as the relay tells it; `nil` for who has published none.
    /// - Throws: What any call throws.
    public func encryptionKey(of userRecordID: CKRecord.ID) async throws -> UserEncryptionKey? {
        let connection = try session.connection()
        var name = userRecordID.recordName
        if name == CKCurrentUserDefaultName { name = try await connection.fetchCallerName() }
        let user = try await publicCloudDatabase.record(for: CKRecord.ID(recordName: name))
        return (user[KeyRecord.publicKeyField] as? Data).map { UserEncryptionKey([UInt8]($0), of: name) }
    }

    /// Lets a user be given zones' keys by this key from now on, as long as this process lives.
    ///
    /// What they are given by it then stands in the zone, and other devices trust it by that.
    ///
    /// - Parameter key: A key whose fingerprint has been compared.
    /// - Throws: `badContainer` when no relay is configured.
    public func trustEncryptionKey(_ key: UserEncryptionKey) throws {
        try session.connection().zoneKeys.trust(key)
    }
}
