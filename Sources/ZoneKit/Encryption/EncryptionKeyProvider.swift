import Crypto
import CryptoExtras
public import Foundation

/// Gives the secret by which a user's encrypted values are read and written.
///
/// All devices of one user must give the same 32 bytes, and nobody else may have them: they are the private key of an
/// X25519 pair. The relay is told the public key alone.
public protocol EncryptionKeyProvider: Sendable {
    /// The user's secret: 32 bytes.
    ///
    /// Asked for once per account and process, when it is first needed.
    ///
    /// - Throws: Whatever keeps it from being had; the call that needed it fails with that as its cause.
    func userKey() async throws -> Data

    /// Whether the keys of shared zones may be given to whoever holds a public key.
    ///
    /// Asked when somebody is to be given a zone's key for the first time, or has published another key since. Where this is not
    /// implemented a user's first key is trusted, and no other until the program says so (`CKContainer.trustEncryptionKey`).
    ///
    /// - Parameters:
    ///   - key: The key that the relay tells.
    ///   - known: The key by which the user was given something before; `nil` when nobody remembers one.
    /// - Returns: Whether to trust it. If not, the user reads nothing that is encrypted.
    func trusts(_ key: UserEncryptionKey, insteadOf known: UserEncryptionKey?) async -> Bool
}

/// A secret made of a passphrase, which the user types on each device.
public struct PassphraseEncryptionKey: EncryptionKeyProvider {
    /// How much work one guess costs an attacker.
    public enum Cost: Sendable {
        /// About a tenth of a second and 64 MB.
        case usual
        /// Next to nothing: for tests, and for relays that take anybody at their word.
        case light
    }

    private let passphrase: String
    private let salt: String
    private let cost: Cost

    /// A secret made of a passphrase.
    ///
    /// - Parameters:
    ///   - passphrase: What the user types; the same on each device.
    ///   - salt: What the application adds; the same on each device, best the user's own name.
    ///   - cost: How much work one guess costs.
    public init(_ passphrase: String, salt: String = "zonecast", cost: Cost = .usual) {
        self.passphrase = passphrase
        self.salt = salt
        self.cost = cost
    }

    /// The passphrase, put through scrypt.
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

/// A secret kept in a file that only its owner may read; made when it is first needed.
///
/// For servers, and for programs whose user has one device; more devices need a copy of the file.
public struct FileEncryptionKey: EncryptionKeyProvider {
    private let file: URL

    /// A secret in a file.
    public init(_ file: URL) { self.file = file }

    /// The file's 32 bytes.
    ///
    /// - Throws: What reading or writing throws; `CKError.invalidArguments` when the file holds something else.
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
