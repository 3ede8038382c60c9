import Crypto
package import Records
package import RelayCore

/// Draws tokens, keys, codes and user names, and hashes passwords, as every directory does.
package struct CredentialSource: Sendable {
    package let time: TimeSource
    package let random: RandomSource
    /// The cost of new passwords.
    package let cost: ScryptCost

    package init(time: TimeSource, random: RandomSource, cost: ScryptCost) {
        self.time = time
        self.random = random
        self.cost = cost
    }

    /// Returns what a directory stores in place of a token's text, a link's code or a cookie: its SHA-256.
    package static func fingerprint(of text: String) -> [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }

    // MARK: New entries

    package func apiToken(
        in home: ContainerEnvironment,
        name: String,
        notes: String,
        callbackURL: String?,
        allowedOrigins: [String]
    ) -> (text: String, token: APIToken) {
        let token = APIToken(
            id: random.hex(byteCount: 8),
            home: home,
            name: name,
            notes: notes,
            callbackURL: callbackURL,
            allowedOrigins: APIToken.canonicalOrigins(allowedOrigins),
            created: time.now()
        )
        return (random.hex(byteCount: 32), token)
    }

    package func managementToken(
        for container: ContainerID,
        name: String,
        expires: Timestamp?
    ) -> (text: String, token: ManagementToken) {
        let token = ManagementToken(
            id: random.hex(byteCount: 8),
            container: container,
            name: name,
            created: time.now(),
            expires: expires
        )
        return (random.hex(byteCount: 32), token)
    }

    /// - Throws: `invalid` if the text is not a P-256 public key.
    package func serverKey(
        in home: ContainerEnvironment,
        name: String,
        publicKeyPEM: String,
        user: UserID?
    ) throws(DirectoryError) -> ServerKey {
        guard let parsed = try? P256.Signing.PublicKey(pemRepresentation: publicKeyPEM) else {
            throw .invalid(
                """
                This is not a P-256 public key in PEM form. Create one with: \
                openssl ec -in eckey.pem -pubout (it begins with -----BEGIN PUBLIC KEY-----).
                """
            )
        }
        return ServerKey(
            id: random.hex(byteCount: 32),
            home: home,
            name: name,
            publicKeyPEM: parsed.pemRepresentation,
            user: user ?? userName(),
            created: time.now()
        )
    }

    /// Returns a user's record name that no user has.
    package func userName() -> UserID { UserID("_" + random.hex(byteCount: 16)) }

    // MARK: Passwords

    /// Hashes a new password.
    ///
    /// - Throws: `invalid` if its length is wrong.
    package func hashed(_ password: String) throws(DirectoryError) -> PasswordHash {
        let allowed = AccountRules.passwordLength
        guard allowed.contains(password.utf8.count) else {
            throw .invalid(
                "A password has at least \(allowed.lowerBound) characters and at most \(allowed.upperBound) bytes."
            )
        }
        return try hashing { try PasswordHash(of: password, salt: random.bytes(16), cost: cost) }
    }

    /// Returns whether a password is the stored one.
    ///
    /// Without a stored one it is checked against a random hash: the same work, and the same time.
    package func matches(_ password: String, _ stored: PasswordHash?) throws(DirectoryError) -> Bool {
        // Truncated, not refused: the response to an oversized password must not depend on the account.
        let word = String(decoding: password.utf8.prefix(AccountRules.passwordLength.upperBound), as: UTF8.self)
        let known = stored ?? PasswordHash(cost: cost, salt: random.bytes(16), hash: random.bytes(32))
        return try hashing { try known.matches(word) } && stored != nil
    }

    private func hashing<Value>(_ body: () throws -> Value) throws(DirectoryError) -> Value {
        do { return try body() } catch { throw .unavailable("a password cannot be hashed: \(error)") }
    }
}
