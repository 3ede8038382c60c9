/// What went wrong with a request, as far as the next step depends on it.
///
/// See Errors.md, "Client reactions", and Sync.md, "Retrying".
package struct Trouble: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// Never reached the relay, or its answer was lost: the outcome is unknown and sending again is safe.
        case network
        /// The relay asks for patience: throttled, or out of service.
        case busy
        /// One zone is busy; the others are not.
        case zoneBusy
        /// Not signed in, or the account is unavailable for now.
        case account
        /// The change token is no longer served: start over from nothing.
        case tokenExpired
        /// The zone does not exist, or no longer for this user.
        case zoneGone
        /// The request held too much: halve it.
        case limitExceeded
        /// The relay contradicts itself, for example by the same token and more to come, again and again.
        case protocolBroken
        /// Refused for good; sending the same again is of no use.
        case refused
        /// Ended from this side: it says nothing of the relay or the way to it.
        case cancelled
    }

    package var kind: Kind
    /// How long the relay asks to wait.
    ///
    /// Kept exactly, for the whole database.
    package var retryAfter: Duration?

    package init(_ kind: Kind, retryAfter: Duration? = nil) {
        self.kind = kind
        self.retryAfter = retryAfter
    }

    /// The engine tries again by itself, with no help from the application.
    package var isRetriedAutomatically: Bool {
        switch kind {
        case .network, .busy, .zoneBusy, .account, .cancelled: true
        case .tokenExpired, .zoneGone, .limitExceeded, .protocolBroken, .refused: false
        }
    }
}
