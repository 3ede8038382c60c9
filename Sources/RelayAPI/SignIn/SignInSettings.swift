import Records
package import RelayCore

/// The operator's settings for sign-in and rates.
package struct SignInSettings: Sendable {
    /// The URL at which browsers reach the relay, with scheme and any path prefix, without a trailing slash.
    ///
    /// `nil`: the request's `Host`, with `https://` if the relay itself terminates TLS and `http://` otherwise.
    package var publicURL: String?
    /// Whether the relay itself terminates TLS.
    package var endsTLS = false
    /// Whether to accept `dev-NAME` as a web auth token and any or no API token, and to create unknown containers.
    ///
    /// Loopback only.
    package var acceptsDevTokens = false
    /// The life of a web auth token.
    ///
    /// See Wire.md, "Web auth tokens".
    package var briefLifetime = Duration.seconds(30 * 60)
    /// The life of a web auth token with "keep me signed in".
    package var keptLifetime = Duration.seconds(14 * 24 * 3600)
    /// How long a token remains valid after a new one was issued; `nil`: until it expires.
    package var grace: Duration?
    /// The rate of requests of one user, or of one address for anonymous callers; `nil`: unlimited.
    package var requestRate: RateLimit? = RateLimit(perSecond: 40, burst: 200)
    /// The rate of wrong passwords from one address; `nil`: unlimited.
    package var failedSignInRate: RateLimit? = RateLimit(perSecond: 10.0 / 60, burst: 10)
    /// The rate of wrong passwords for one account, whether or not it exists; `nil`: unlimited.
    ///
    /// Higher than per address, because strangers could lock the owner out with it, and low enough to make guessing
    /// from many addresses hopeless: 20 at once, then one per two minutes.
    package var failedSignInRatePerAccount: RateLimit? = RateLimit(perSecond: 30.0 / 3600, burst: 20)
    /// The rate of requests with invalid credentials from one address; `nil`: unlimited.
    ///
    /// Credentials cannot be guessed; the limit only reduces load. Valid requests from the same address are not
    /// affected.
    package var failedCredentialRate: RateLimit? = RateLimit(perSecond: 1, burst: 60)
    /// The rate of requests to a container's public database, shared by all callers; `nil`: unlimited.
    ///
    /// CloudKit's published 40 per second, with a burst of 15 seconds' worth because all clients fetch after a notice.
    package var publicRate: RateLimit? = RateLimit(perSecond: 40, burst: 600)
    /// The rate of each signed-in user in the public database, used before the shared rate; `nil`: none.
    ///
    /// The total therefore grows with the active users, and no user can use up the shared rate alone.
    package var publicRatePerUser: RateLimit? = RateLimit(perSecond: 1, burst: 10)
    /// Browser origins that may use every container, in addition to those of each API token.
    package var allowedOrigins: [String] = []
    /// The permitted difference between a signed request's date and the relay's clock, in either direction.
    ///
    /// See Wire.md, "Server-to-server keys".
    package var signatureWindow = Duration.seconds(600)

    package init() {}

    func lifetime(_ kind: Session.Kind) -> Duration {
        switch kind {
        case .brief, .visit: briefLifetime
        case .kept: keptLifetime
        }
    }
}
