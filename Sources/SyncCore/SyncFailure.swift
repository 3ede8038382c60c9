/// The reason why a request failed, as far as the next step depends on it.
///
/// See Errors.md, "Client reactions", and Sync.md, "Retrying".
package struct SyncFailure: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The relay was unreachable or its response was lost: the outcome is unknown, and a retry is safe.
        case network
        /// The relay asks to wait: throttled or out of service.
        case busy
        /// One zone is busy; others are not affected.
        case zoneBusy
        /// Not signed in, or the account is unavailable for now.
        case account
        /// The change token has expired: fetch everything again.
        case tokenExpired
        /// The zone does not exist, or the user has lost access.
        case zoneNotFound
        /// The request was too large: send half as much.
        case limitExceeded
        /// The relay violates the protocol, for example by repeating a token with more to come.
        case protocolViolation
        /// Rejected permanently; a retry is useless.
        case refused
        /// Cancelled by this client; says nothing about the relay or the network.
        case cancelled
    }

    package var kind: Kind
    /// The time that the relay asks to wait.
    ///
    /// Observed exactly, for the whole database.
    package var retryAfter: Duration?

    package init(_ kind: Kind, retryAfter: Duration? = nil) {
        self.kind = kind
        self.retryAfter = retryAfter
    }

    /// Whether the engine retries without help from the application.
    package var isRetriedAutomatically: Bool {
        switch kind {
        case .network, .busy, .zoneBusy, .account, .cancelled: true
        case .tokenExpired, .zoneNotFound, .limitExceeded, .protocolViolation, .refused: false
        }
    }
}
