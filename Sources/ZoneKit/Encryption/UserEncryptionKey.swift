import Crypto
public import Foundation

/// A user's public encryption key, as the relay returns it.
///
/// Zone keys are provided to other users by encrypting them with this key. A malicious relay could return its own key
/// instead, get the keys of shared zones, and read their encrypted values. To rule this out, two users can compare
/// fingerprints through another channel.
public struct UserEncryptionKey: Hashable, Sendable {
    /// The user to whom the relay attributes the key.
    public let userRecordID: CKRecord.ID
    /// A fingerprint of the key: twelve groups of five digits, from its SHA-256 hash.
    ///
    /// The same on every device.
    public let fingerprint: String

    package init(_ publicKey: [UInt8], of user: String) {
        userRecordID = CKRecord.ID(recordName: user)
        let hash = Array(SHA256.hash(data: Data("zonecast fingerprint 1 ".utf8) + Data(publicKey)))
        let groups = (0..<12).map { group in
            let number = UInt32(hash[group * 2]) << 8 | UInt32(hash[group * 2 + 1])
            // The other bytes make each group use its full range of five digits.
            let mixed = (number << 8 | UInt32(hash[24 + group % 8])) % 100_000
            return String(100_000 + mixed).dropFirst()
        }
        fingerprint = groups.joined(separator: " ")
    }
}

extension Notification.Name {
    /// A user has published another public key than the one with which they got zone keys, and gets no more zone keys.
    ///
    /// Posted to the default notification center. A user's device does this after a reset of the user's key; so would a
    /// relay that tries to read encrypted values. `userInfo` contains the new key under `CKUserEncryptionKeyKey`. When
    /// its owner is verified, call `CKContainer.trustEncryptionKey(_:)` to continue sharing.
    public static let CKUserEncryptionKeyChanged = Notification.Name("CKUserEncryptionKeyChangedNotification")
}

/// The key of the `UserEncryptionKey` in the `userInfo` of a `CKUserEncryptionKeyChanged` notification.
public let CKUserEncryptionKeyKey = "CKUserEncryptionKey"

extension EncryptionKeyProvider {
    /// Trusts a user's first key, and no other.
    ///
    /// - Parameters:
    ///   - key: The public key that the relay has returned for the user.
    ///   - known: The public key with which the user got zone keys before.
    /// - Returns: Whether zone keys may be provided to the owner of the key.
    public func trusts(_ key: UserEncryptionKey, insteadOf known: UserEncryptionKey?) async -> Bool { known == nil }
}

extension CKContainer {
    /// Returns the public key that a user has published, to compare its fingerprint.
    ///
    /// - Parameter userRecordID: The user; `userRecordID()` returns the current user's ID.
    /// - Returns: The key that the relay returns, or `nil` if the user has published none.
    /// - Throws: The errors of any request.
    public func encryptionKey(of userRecordID: CKRecord.ID) async throws -> UserEncryptionKey? {
        let connection = try session.connection()
        var name = userRecordID.recordName
        if name == CKCurrentUserDefaultName { name = try await connection.fetchCallerName() }
        let user = try await publicCloudDatabase.record(for: CKRecord.ID(recordName: name))
        return (user[KeyRecord.publicKeyField] as? Data).map { UserEncryptionKey([UInt8]($0), of: name) }
    }

    /// Trusts a user's public key for the lifetime of this process, so that the user gets zone keys again.
    ///
    /// The provided zone keys record the public key in the zone, so that other devices trust it too.
    ///
    /// - Parameter key: A key whose fingerprint has been verified.
    /// - Throws: `badContainer` if no relay is configured.
    public func trustEncryptionKey(_ key: UserEncryptionKey) throws {
        try session.connection().zoneKeys.trust(key)
    }
}
