package import RelayCore

/// The limits of one notice connection.
///
/// See Reliability.md, "Limits", and Notices.md, "Keeping alive".
package struct NoticeLimits: Sendable {
    /// The time from the upgrade to a valid hello.
    ///
    /// When exceeded: close 4408.
    package var helloTime: Duration = .seconds(10)
    /// The time between two pings.
    ///
    /// Proxies commonly close connections after 60 s of silence.
    package var pingInterval: Duration = .seconds(30)
    /// The number of consecutive pings without a pong after which the peer counts as disconnected.
    package var missedPings = 2
    /// The rate of frames from a client.
    ///
    /// Counts all frames, since a client sends few after its hello. When exceeded: close 1008.
    package var frameRate = RateLimit(perSecond: 20, burst: 100)
    /// The number of notices queued for a slow reader before they collapse into one for the database.
    package var queuedNotices = 256
    /// The number of bytes of queued notices, with the same effect.
    package var queuedBytes = 64 * 1024
    /// How long the queue of a slow reader may stay over its limit.
    ///
    /// When exceeded: close 1013; the client reconnects and fetches.
    package var fullTime: Duration = .seconds(15)
    /// The number of open connections of one user.
    ///
    /// When exceeded: close 4451.
    package var connectionsPerUser = 50
    /// A new web auth token is sent at most this long before the old one expires, and not before 90 % of its life.
    package var renewalMargin: Duration = .seconds(60)
    /// If more zones than this have changed since a device disconnected, it gets one notice for the database instead.
    package var catchUpZones = 20

    package init() {}
}
