package import Records

/// What lets an application call the relay at all, on behalf of nobody.
///
/// See Wire.md, "API tokens".
///
/// The token itself (64 lower-case hex digits) is shown once and kept only as its SHA-256.
package struct APIToken: Hashable, Sendable {
    /// 16 hex digits naming the token in lists, logs and sign-in addresses; no secret.
    package var id: String
    package var home: ContainerEnvironment
    package var name: String
    package var notes: String
    /// Where the browser goes after sign-in; any scheme, since native clients watch for one of their own.
    package var callbackURL: String?
    /// Browser origins that may use it, as they stand in an `Origin` header.
    ///
    /// Empty: none.
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
    /// Whether a text can be an `Origin`: scheme and host, and nothing behind them.
    package static func isOrigin(_ text: String) -> Bool {
        let parts = text.split(separator: "://", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.count == 2 && !parts[0].isEmpty && !parts[1].isEmpty
            && !parts[1].contains { $0 == "/" || $0 == "?" || $0 == "#" || $0 == "*" || $0.isWhitespace }
    }
}
