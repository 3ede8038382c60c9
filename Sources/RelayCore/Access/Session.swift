package import Records

/// One sign-in of one person to one container.
///
/// Every web auth token belongs to a session. See Wire.md, "Web auth tokens".
package struct Session: Hashable, Sendable {
    /// 16 random bytes, read as one number.
    package struct ID: Hashable, Sendable {
        package let number: UInt128
        package init(_ number: UInt128) { self.number = number }
    }

    /// The lifetime of the session's tokens after issue, and whether the session outlives disabling the account.
    package enum Kind: Int, Hashable, Sendable, CaseIterable {
        /// 30 minutes by default.
        case brief = 0
        /// Two weeks by default: "keep me signed in".
        case kept = 1
        /// As `brief`, but also valid for a disabled user: an operator's command acts as the user and then revokes it.
        case visit = 2
    }

    package var id: ID
    /// SHA-256 of the session's secret; the secret itself is only in tokens.
    package var secretHash: [UInt8]
    package var account: Account.ID
    package var home: ContainerEnvironment
    package var kind: Kind
    package var created: Timestamp
    /// The time of the last use, to within some minutes; `nil` if never used.
    package var used: Timestamp?
    package var revoked: Timestamp?

    package init(
        id: ID,
        secretHash: [UInt8],
        account: Account.ID,
        home: ContainerEnvironment,
        kind: Kind,
        created: Timestamp,
        used: Timestamp? = nil,
        revoked: Timestamp? = nil
    ) {
        self.id = id
        self.used = used
        self.secretHash = secretHash
        self.account = account
        self.home = home
        self.kind = kind
        self.created = created
        self.revoked = revoked
    }

    /// Returns whether the session is valid for the state of its account.
    package func isValid(for account: Account?) -> Bool {
        account.map { kind == .visit || !$0.isDisabled } ?? false
    }
}

/// The public key of a server that signs requests.
///
/// See Wire.md, "Server-to-server keys".
package struct ServerKey: Hashable, Sendable {
    /// 64 lower-case hex digits, shown to the key's owner.
    package var id: String
    package var home: ContainerEnvironment
    package var name: String
    /// P-256, `-----BEGIN PUBLIC KEY-----` (SPKI).
    package var publicKeyPEM: String
    /// The key's own user, to whom the records written with it belong.
    package var user: UserID
    package var created: Timestamp
    package var revoked: Timestamp?

    package init(
        id: String,
        home: ContainerEnvironment,
        name: String,
        publicKeyPEM: String,
        user: UserID,
        created: Timestamp,
        revoked: Timestamp? = nil
    ) {
        self.id = id
        self.home = home
        self.name = name
        self.publicKeyPEM = publicKeyPEM
        self.user = user
        self.created = created
        self.revoked = revoked
    }
}

/// A record of a write's server-to-server signature, stored to prevent replay of the request.
///
/// See Reliability.md, "Tokens".
package struct UsedSignature: Hashable, Sendable {
    /// Identifies the signature among all those with the same date.
    package var fingerprint: UInt128
    /// The date that is part of the signed message.
    package var signed: Timestamp
    /// Signatures older than this date are rejected as expired and need not be stored.
    package var oldest: Timestamp

    package init(fingerprint: UInt128, signed: Timestamp, oldest: Timestamp) {
        self.fingerprint = fingerprint
        self.signed = signed
        self.oldest = oldest
    }
}
