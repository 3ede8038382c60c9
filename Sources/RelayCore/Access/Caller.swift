package import Records

/// Who makes a request, once the credentials are checked.
package struct Caller: Hashable, Sendable {
    package enum Identity: Hashable, Sendable {
        /// An API token alone: the World role, public database only.
        case anonymous
        case user(UserID)
        /// A server-to-server key, acting in the public database as a user of its own.
        case serverKey(UserID)
        /// Somebody at the console: may do all in the public database, and nothing elsewhere.
        case `operator`(UserID)
    }

    package var identity: Identity
    /// Which device it is, so that its own changes are not noticed back to it: the request's `X-Zonecast-Device-ID`,
    /// else one derived from the web auth token.
    ///
    /// See Notices.md, "Which notice".
    package var deviceID: String

    package init(_ identity: Identity, deviceID: String) {
        self.identity = identity
        self.deviceID = deviceID
    }

    /// The user that the caller acts as; `nil` for an anonymous one.
    package var user: UserID? {
        switch identity {
        case .anonymous: nil
        case .user(let user), .serverKey(let user), .operator(let user): user
        }
    }
}
