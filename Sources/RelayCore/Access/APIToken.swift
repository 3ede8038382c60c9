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
