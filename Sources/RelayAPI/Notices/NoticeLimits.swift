package import RelayCore

/// The bounds of one notice connection.
///
/// See Reliability.md, "Limits", and Notices.md, "Keeping alive".
package struct NoticeLimits: Sendable {
    /// From the upgrade to a good hello.
    ///
    /// Beyond: close 4408.
    package var helloTime: Duration = .seconds(10)
    /// Between two pings.
    ///
    /// Proxies commonly cut at 60 s of silence.
    package var pingInterval: Duration = .seconds(30)
    /// Pings in a row without a pong before the peer counts as gone.
    package var missedPings = 2
    /// Frames from a client.
    ///
    /// It has little to say after its hello, so this counts all of them. Beyond: close 1008.
    package var frameRate = RateLimit(perSecond: 20, burst: 100)
    /// Notices waiting for a slow reader before they collapse into one for the database.
    package var queuedNotices = 256
    /// Their bytes, likewise.
    package var queuedBytes = 64 * 1024
    /// A reader that has been too slow for its queue this long.
    ///
    /// Beyond: close 1013; it reconnects and fetches.
    package var fullTime: Duration = .seconds(15)
    /// Open connections of one user.
    ///
    /// Beyond: close 4451.
    package var connectionsPerUser = 50
    /// How long before the end of a web auth token a fresh one is sent, at most; and never before nine tenths of its life.
    package var renewalMargin: Duration = .seconds(60)
    /// More changed zones than this in a catch-up are told in one notice for the database.
    package var catchUpZones = 20

    package init() {}
}
