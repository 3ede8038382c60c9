import Crypto
import CryptoExtras
public import Foundation

/// Provides the secret with which a user's encrypted values are encrypted.
///
/// All devices of a user must provide the same 32 bytes, and no other user may have them: they are the private key of
/// an X25519 key pair. The relay only knows the public key.
public protocol EncryptionKeyProvider: Sendable {
    /// Returns the user's secret: 32 bytes.
    ///
    /// Called once per account and process, when the secret is first needed.
    ///
    /// - Throws: An error if the secret is not available. It becomes the underlying error of the call that needed the
    ///   secret.
    func userKey() async throws -> Data

    /// Returns whether the keys of shared zones may be provided to the owner of a public key.
    ///
    /// Called before a user gets a zone key for the first time, and when a user has published another public key. The
    /// default implementation trusts a user's first key; the app must confirm later ones with
    /// `CKContainer.trustEncryptionKey`.
    ///
    /// - Parameters:
    ///   - key: The public key that the relay has returned for the user.
    ///   - known: The public key with which the user got zone keys before; `nil` if none is known.
    /// - Returns: Whether to trust the key. If not, the user cannot read encrypted values.
    func trusts(_ key: UserEncryptionKey, insteadOf known: UserEncryptionKey?) async -> Bool
}

/// A secret derived from a passphrase, which the user enters on each device.
public struct PassphraseEncryptionKey: EncryptionKeyProvider {
    /// The cost of deriving the secret, and thus of each guess by an attacker.
    public enum Cost: Sendable {
        /// About 0.1 seconds and 64 MB of memory.
        case usual
        /// Almost no cost: for tests, and for relays that were started with `--dev`.
        case light
    }

    private let passphrase: String
    private let salt: String
    private let cost: Cost

    /// Creates a key provider.
    ///
    /// - Parameters:
    ///   - passphrase: The passphrase; the same on each device.
    ///   - salt: The salt; the same on each device. Preferably different for each user, such as the user's name.
    ///   - cost: The cost of deriving the secret.
    public init(_ passphrase: String, salt: String = "zonecast", cost: Cost = .usual) {
        self.passphrase = passphrase
        self.salt = salt
        self.cost = cost
    }

    /// Derives the secret from the passphrase with scrypt.
    public func userKey() async throws -> Data {
        let key = try KDF.Scrypt.deriveKey(
            from: Data(passphrase.utf8),
            salt: Data(("zonecast user key 1 " + salt).utf8),
            outputByteCount: 32,
            rounds: cost == .usual ? 65_536 : 16,
            blockSize: 8,
            parallelism: 1
        )
        return key.withUnsafeBytes { Data($0) }
    }
}

/// A secret in a file that only its owner may read.
///
/// The file is created when the secret is first needed. For servers, and for users with a single device; further
/// devices need a copy of the file.
public struct FileEncryptionKey: EncryptionKeyProvider {
    private let file: URL

    /// Creates a key provider for a file.
    public init(_ file: URL) { self.file = file }

    /// Returns the 32 bytes of the file.
    ///
    /// - Throws: An error if the file cannot be read or written, and `CKError.invalidArguments` if it does not contain
    ///   32 bytes.
    public func userKey() async throws -> Data {
        if !FileManager.default.fileExists(atPath: file.path) {
            let key = Curve25519.KeyAgreement.PrivateKey().rawRepresentation
            guard
                FileManager.default.createFile(
                    atPath: file.path,
                    contents: key,
                    attributes: [.posixPermissions: 0o600]
                )
            else { throw CKError(.internalError, "The key file \(file.lastPathComponent) cannot be written.") }
        }
        let key = try Data(contentsOf: file)
        guard key.count == 32 else {
            throw CKError(.invalidArguments, "The key file \(file.lastPathComponent) does not hold 32 bytes.")
        }
        return key
    }
}

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
