package import Records

/// A credential that lets an application call the relay without a user.
///
/// The token itself (64 lower-case hex digits) is shown once; only its SHA-256 is stored. See Wire.md, "API tokens".
package struct APIToken: Hashable, Sendable {
    /// 16 hex digits that identify the token in lists, logs and sign-in URLs; not secret.
    package var id: String
    package var home: ContainerEnvironment
    package var name: String
    package var notes: String
    /// The URL to which the browser is redirected after sign-in; any scheme, since native clients register their own.
    package var callbackURL: String?
    /// Browser origins that may use the token, as in the `Origin` header; none if empty.
    package var allowedOrigins: [String]
    package var created: Timestamp
    package var revoked: Timestamp?

    package init(
        id: String,
        home: ContainerEnvironment,
        name: String,
        notes: String = "",
        callbackURL: String? = nil,
        allowedOrigins: [String] = [],
        created: Timestamp,
        revoked: Timestamp? = nil
    ) {
        self.id = id
        self.home = home
        self.name = name
        self.notes = notes
        self.callbackURL = callbackURL
        self.allowedOrigins = allowedOrigins
        self.created = created
        self.revoked = revoked
    }
}

extension APIToken {
    /// Origins as browsers write them, each once; what no browser sends stays as it is.
    package static func canonicalOrigins(_ origins: [String]) -> [String] {
        origins.reduce(into: []) { found, text in
            let origin = WebOrigin.canonical(text) ?? text
            if !found.contains(origin) { found.append(origin) }
        }
    }
}

/// A credential that lets a program change a container's schema remotely, as CloudKit's management tokens do for
/// `cktool`.
///
/// It gives no access to records or accounts.
package struct ManagementToken: Hashable, Sendable {
    /// 16 hex digits that identify the token in lists and the audit log; not secret.
    package var id: String
    package var container: ContainerID
    package var name: String
    package var created: Timestamp
    /// `nil` if it never expires.
    package var expires: Timestamp?
    package var revoked: Timestamp?
    /// The time of the last use, rounded to minutes.
    package var used: Timestamp?

    package init(
        id: String,
        container: ContainerID,
        name: String,
        created: Timestamp,
        expires: Timestamp? = nil,
        revoked: Timestamp? = nil,
        used: Timestamp? = nil
    ) {
        self.id = id
        self.container = container
        self.name = name
        self.created = created
        self.expires = expires
        self.revoked = revoked
        self.used = used
    }

    package func isGood(at now: Timestamp) -> Bool { revoked == nil && expires.map { now < $0 } ?? true }
}

/// Comparison of secrets in constant time, so that timing does not reveal how much of a guess is right.
package enum ConstantTime {
    /// Returns whether two byte arrays are equal, in a time that depends only on their lengths.
    package static func areEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
        guard a.count == b.count else { return false }
        var difference: UInt8 = 0
        for index in a.indices { difference |= a[index] ^ b[index] }
        return difference == 0
    }
}
