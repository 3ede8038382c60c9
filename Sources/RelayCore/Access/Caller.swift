package import Records

/// The authenticated sender of a request.
package struct Caller: Hashable, Sendable {
    package enum Identity: Hashable, Sendable {
        /// An API token alone: the World role, public database only.
        case anonymous
        case user(UserID)
        /// A server-to-server key, acting in the public database as a user of its own.
        case serverKey(UserID)
        /// An operator in the console: full access to the public database, none to other databases.
        case `operator`(UserID)
    }

    package var identity: Identity
    /// Identifies the calling device, so that the relay does not send it notices of its own changes.
    ///
    /// The value of the request's `X-Zonecast-Device-ID`, or one derived from the web auth token. See Notices.md,
    /// "Which notice".
    package var deviceID: String

    package init(_ identity: Identity, deviceID: String) {
        self.identity = identity
        self.deviceID = deviceID
    }

    /// The user as whom the caller acts; `nil` for an anonymous caller.
    package var user: UserID? {
        switch identity {
        case .anonymous: nil
        case .user(let user), .serverKey(let user), .operator(let user): user
        }
    }
}
