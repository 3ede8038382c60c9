import Crypto
import CryptoExtras
import Foundation
import RelayCore

/// The cost of a password hash, stored with each hash so that the default can be raised later.
package struct ScryptCost: Hashable, Sendable {
    /// A power of two; memory is 128 bytes times this times `blockSize`.
    package var rounds: Int
    package var blockSize: Int
    package var parallelism: Int

    package init(rounds: Int, blockSize: Int, parallelism: Int) {
        self.rounds = rounds
        self.blockSize = blockSize
        self.parallelism = parallelism
    }

    /// Three times 32 MiB, as OWASP's page on password storage recommends.
    package static let standard = ScryptCost(rounds: 32_768, blockSize: 8, parallelism: 3)

    /// The cost for new passwords: the standard, except in programs that tests start.
    ///
    /// Cryptography in a debug build is ten times slower, which is two seconds for each of dozens of accounts. A
    /// release build ignores the variable.
    package static var usual: ScryptCost {
        #if DEBUG
            if getenv("ZONECAST_QUICK_PASSWORDS") != nil { return ScryptCost(rounds: 16, blockSize: 8, parallelism: 1) }
        #endif
        return .standard
    }
}

/// A stored password: its scrypt hash, with the salt and cost.
package struct PasswordHash: Hashable, Sendable {
    package var cost: ScryptCost
    package var salt: [UInt8]
    package var hash: [UInt8]

    package init(cost: ScryptCost, salt: [UInt8], hash: [UInt8]) {
        self.cost = cost
        self.salt = salt
        self.hash = hash
    }

    package init(of password: String, salt: [UInt8], cost: ScryptCost) throws {
        self.init(cost: cost, salt: salt, hash: try Self.derive(password, salt: salt, cost: cost))
    }

    /// Compares in constant time.
    package func matches(_ password: String) throws -> Bool {
        ConstantTime.areEqual(try Self.derive(password, salt: salt, cost: cost), hash)
    }

    private static func derive(_ password: String, salt: [UInt8], cost: ScryptCost) throws -> [UInt8] {
        // Normalized, so that equal text has an equal hash, whichever keyboard it was typed on.
        let key = try KDF.Scrypt.deriveKey(
            from: Array(password.precomposedStringWithCanonicalMapping.utf8),
            salt: salt,
            outputByteCount: 32,
            rounds: cost.rounds,
            blockSize: cost.blockSize,
            parallelism: cost.parallelism
        )
        return key.withUnsafeBytes { Array($0) }
    }
}
