import Records
package import RelayCore

/// What the operator decides about signing in and about rates.
package struct SignInSettings: Sendable {
    /// Where browsers reach the relay, with scheme and any path prefix, no slash at the end.
    ///
    /// `nil`: the request's `Host`, with `https://` where the relay itself ends TLS and `http://` elsewhere.
    package var publicURL: String?
    /// The relay itself ends TLS.
    package var endsTLS = false
    /// Accept `dev-NAME` as a web auth token, any API token or none, and make unknown containers.
    ///
    /// Loopback only.
    package var acceptsDevTokens = false
    /// How long a web auth token lives.
    ///
    /// See Wire.md, "Web auth tokens".
    package var briefLifetime = Duration.seconds(30 * 60)
    /// The same with "keep me signed in".
    package var keptLifetime = Duration.seconds(14 * 24 * 3600)
    /// How long a token still works after its successor was handed out; `nil`: to its own end.
    package var grace: Duration?
    /// Requests of one user, or of one address that nobody has signed in at; `nil`: any number.
    package var requestRate: RateLimit? = RateLimit(perSecond: 40, burst: 200)
    /// Wrong passwords from one address; `nil`: any number.
    package var failedSignInRate: RateLimit? = RateLimit(perSecond: 10.0 / 60, burst: 10)
    /// Wrong passwords for one account, whether or not it is there; `nil`: any number.
    ///
    /// More than from one address, since a stranger could lock the owner out with it, and little enough that guessing
    /// from many addresses stays hopeless: 20 at once, then one in two minutes.
    package var failedSignInRatePerAccount: RateLimit? = RateLimit(perSecond: 30.0 / 3600, burst: 20)
    /// Requests with credentials that are none, from one address; `nil`: any number.
    ///
    /// They cannot be guessed; the limit keeps the noise down. Good ones from the same address go through all the same.
    package var failedCredentialRate: RateLimit? = RateLimit(perSecond: 1, burst: 60)
    /// Requests to a container's public database that all its callers share; `nil`: any number.
    ///
    /// CloudKit's published 40 a second, and a quarter of a minute's worth at once, for after a notice they all come.
    package var publicRate: RateLimit? = RateLimit(perSecond: 40, burst: 600)
    /// What each signed-in user has of their own in the public database before they take from the shared rate.
    ///
    /// So the whole grows with the active users, and nobody can use it up for the others; `nil`: nothing.
    package var publicRatePerUser: RateLimit? = RateLimit(perSecond: 1, burst: 10)
    /// Browser origins that may call every container, besides those of each API token.
    package var allowedOrigins: [String] = []
    /// How far the clock of an issuer of identity tokens may be from the relay's.
    ///
    /// See Reliability.md, "Tokens".
    package var issuerClockSkew = Duration.seconds(60)
    package var issuerKeys = KeyLimits()
    /// How far a signed request's date may be from the relay's clock, either way.
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
