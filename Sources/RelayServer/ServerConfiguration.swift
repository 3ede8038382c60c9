package import NIOCore

/// Where the relay listens and what it bears from its peers.
///
/// See Reliability.md, "Limits".
package struct ServerConfiguration: Sendable {
    /// The address to listen on: a host name or an IP address.
    package var host = "127.0.0.1"
    /// The TCP port, 0 to 65535.
    ///
    /// 0 lets the system choose; the ready callback says which.
    package var port = 8080
    /// How many event loops (threads) share the connections.
    ///
    /// `nil`: one for each core.
    package var loops: Int?
    /// How many connections may wait to be accepted.
    ///
    /// The system caps it by `net.core.somaxconn`; 4096 rides out a restart, when every client comes back within a
    /// second.
    package var backlog = 4096
    package var limits = ServerLimits()
    /// Opens `GET /__echo`, for conformance suites.
    ///
    /// Refused unless the listener is on loopback.
    package var testDoor = false
    /// Proxies whose `X-Forwarded-For` is believed.
    ///
    /// Their own connections do not count by address, since each of them stands for many clients.
    package var trustedProxies: [AddressRange] = []
    /// TLS in the relay itself; `nil`: none, for a proxy in front or for this machine alone.
    package var tls: TLSFiles?
    /// How often the TLS files are looked at; what is new serves the next connections.
    package var tlsCheck = Duration.seconds(10)

    package init() {}
}

/// Every bound the transport keeps, with the reason for its default.
///
/// See Reliability.md, "Limits".
package struct ServerLimits: Sendable {
    /// Bytes of a request line, without its line end.
    ///
    /// Beyond: 414. 8 KiB is what proxies pass on.
    package var requestLine = 8 * 1024
    /// Bytes of one header field, name and value.
    ///
    /// Beyond: 431.
    package var headerField = 8 * 1024
    /// Bytes of all header fields of one request.
    ///
    /// Beyond: 431.
    package var headerList = 32 * 1024
    /// Header fields in one request.
    ///
    /// Beyond: 431.
    package var headerCount = 100
    /// Bytes of a request body.
    ///
    /// Beyond: 413, from the declared length before any of it is read.
    package var body = 4 * 1024 * 1024
    /// Bytes of bodies that have not come to their end, of all connections that share a loop; nobody is known yet whom they
    /// are from.
    ///
    /// Beyond: 503, but for bodies of less than 16 KiB.
    package var unfinishedBodies = 128 * 1024 * 1024
    /// Bytes of answers that wait for their peers to take them, of all connections that share a loop.
    ///
    /// Beyond: those that have waited longest are cut off.
    package var unsentAnswers = 256 * 1024 * 1024
    /// Bytes of an upload's body, which is written to disk while it arrives: the largest asset and what a multipart body
    /// has around it.
    package var upload = 50 * 1024 * 1024 + 16 * 1024
    /// Bytes a second that an upload must bring on average, beyond `bodyTime`.
    ///
    /// See Reliability.md, "Limits".
    package var uploadPace = 64 * 1024

    /// From the first byte of a request, or from the connection's start, to the end of its head.
    ///
    /// Beyond: 408.
    package var headTime: TimeAmount = .seconds(10)
    /// Between two pieces of a body.
    ///
    /// Beyond: 408.
    package var bodyGap: TimeAmount = .seconds(10)
    /// From the end of the head to the end of the body.
    ///
    /// Beyond: 408.
    package var bodyTime: TimeAmount = .seconds(60)
    /// A connection without a request is closed after this.
    package var keepAlive: TimeAmount = .seconds(60)
    /// A peer that takes nothing of an answer for this long is cut off, so that a slow reader holds no memory for ever.
    package var writeStall: TimeAmount = .seconds(30)
    /// Requests served on one connection before it is closed, so that a long-lived client moves on now and then.
    package var requestsPerConnection = 10_000
    /// After a refusal the rest of what the peer sends is read and dropped for this long: closing at once resets the
    /// connection, and the peer may lose the answer.
    package var linger: TimeAmount = .seconds(2)

    /// Connections in all.
    ///
    /// Beyond: 503.
    package var connections = 10_000
    /// Connections from one address, proxies excepted.
    ///
    /// Beyond: 503.
    package var connectionsPerAddress = 200

    /// Bytes of a WebSocket message, and of a frame, from a client.
    ///
    /// Beyond: close 1009, from the declared length.
    package var socketMessage = 64 * 1024
    /// The same for the echo of the test door: conformance suites send up to 16 MiB.
    package var echoMessage = 16 * 1024 * 1024
    /// Bytes of notices that a slow reader's channel takes before they wait, and merge, in its queue.
    package var socketBuffer = 16 * 1024

    /// From our close frame to the peer's.
    ///
    /// Beyond: the connection is cut.
    package var closingHandshake: TimeAmount = .seconds(3)

    /// How often deadlines are looked at.
    ///
    /// One timer for each loop instead of two for each request: those cost a fifth of the request rate. A deadline is
    /// kept to within one interval.
    package var sweepInterval: TimeAmount = .seconds(1)
    /// On a graceful stop, what is still unfinished after this is cut.
    package var shutdown: TimeAmount = .seconds(10)

    package init() {}
}
