package import NIOCore

/// The listening address and the transport's limits.
///
/// See Reliability.md, "Limits".
package struct ServerConfiguration: Sendable {
    /// The address to listen on: a host name or an IP address.
    package var host = "127.0.0.1"
    /// The TCP port, 0 to 65535; 0 lets the system choose one, which is passed to `onListening`.
    package var port = 8080
    /// The number of event loops (threads) that share the connections; `nil` means one per core.
    package var loops: Int?
    /// The maximum number of connections that wait to be accepted.
    ///
    /// The system limits it to `net.core.somaxconn`. 4096 suffices after a restart, when every client reconnects within
    /// a second.
    package var backlog = 4096
    package var limits = ServerLimits()
    /// Enables the WebSocket echo at `GET /__echo`, for conformance test suites.
    ///
    /// Allowed only if the listener is on a loopback address.
    package var testDoor = false
    /// Proxies whose `X-Forwarded-For`, or in its absence `Forwarded`, is trusted.
    ///
    /// Their connections are exempt from the limit per address, since each proxy represents many clients.
    package var trustedProxies: [AddressRange] = []
    /// The TLS files; `nil` for plain HTTP behind a proxy or on this machine only.
    package var tls: TLSFiles?
    /// How often the TLS files are checked for changes, which apply to new connections.
    package var tlsCheck = Duration.seconds(10)

    package init() {}
}

/// The transport's limits, with the reasons for their defaults.
///
/// See Reliability.md, "Limits".
package struct ServerLimits: Sendable {
    /// Maximum bytes of a request line without its line end; exceeding it is answered with 414.
    ///
    /// 8 KiB is what proxies pass on.
    package var requestLine = 8 * 1024
    /// Maximum bytes of one header field, name and value; exceeding it is answered with 431.
    package var headerField = 8 * 1024
    /// Maximum bytes of all header fields of a request; exceeding it is answered with 431.
    package var headerList = 32 * 1024
    /// Maximum number of header fields in a request; exceeding it is answered with 431.
    package var headerCount = 100
    /// Maximum bytes of a request body; exceeding it is answered with 413.
    ///
    /// A declared length is checked before any of the body is read.
    package var body = 4 * 1024 * 1024
    /// Maximum bytes of incomplete bodies of all connections on one event loop; exceeding it is answered with 503.
    ///
    /// Counted per event loop because the requests are not authenticated yet. Bodies of less than 16 KiB are exempt.
    package var unfinishedBodies = 128 * 1024 * 1024
    /// Maximum bytes of responses that clients have not received yet, for all connections on one event loop.
    ///
    /// If it is exceeded, the connections that have waited longest are closed.
    package var unsentAnswers = 256 * 1024 * 1024
    /// Maximum bytes of an upload's body, which is written to disk as it arrives: the largest asset plus multipart
    /// framing.
    package var upload = 50 * 1024 * 1024 + 16 * 1024
    /// The minimum average rate of an upload in bytes per second, in addition to `bodyTime`.
    ///
    /// See Reliability.md, "Limits".
    package var uploadPace = 64 * 1024

    /// Timeout from the first byte of a request, or the start of the connection, to the end of the head; then 408.
    package var headTime: TimeAmount = .seconds(10)
    /// Timeout between two pieces of a body; then 408.
    package var bodyGap: TimeAmount = .seconds(10)
    /// Timeout from the end of the head to the end of the body; then 408.
    package var bodyTime: TimeAmount = .seconds(60)
    /// Timeout of a connection without a request.
    package var keepAlive: TimeAmount = .seconds(60)
    /// Timeout of a client that accepts none of a response's bytes, so that a slow reader cannot hold memory forever.
    package var writeStall: TimeAmount = .seconds(30)
    /// Maximum number of requests on one connection, so that long-lived clients are rebalanced now and then.
    package var requestsPerConnection = 10_000
    /// How long incoming data is read and discarded after a request was rejected.
    ///
    /// Closing at once would reset the connection, and the client could lose the response.
    package var linger: TimeAmount = .seconds(2)

    /// Maximum number of connections; exceeding it is answered with 503.
    package var connections = 10_000
    /// Maximum number of connections from one address, trusted proxies excepted; exceeding it is answered with 503.
    package var connectionsPerAddress = 200

    /// Maximum bytes of a WebSocket message, and of a frame, from a client; then the socket is closed with 1009.
    ///
    /// A declared length is checked before the payload is read.
    package var socketMessage = 64 * 1024
    /// The same limit for the echo endpoint: conformance suites send up to 16 MiB.
    package var echoMessage = 16 * 1024 * 1024
    /// Bytes of notices that a slow reader's channel buffers before further notices wait, and merge, in its queue.
    package var socketBuffer = 16 * 1024

    /// Timeout from the relay's close frame to the client's; then the connection is closed.
    package var closingHandshake: TimeAmount = .seconds(3)

    /// How often deadlines are checked.
    ///
    /// One timer per event loop instead of two per request, which cost 20 % of the request rate. Deadlines are accurate
    /// to one interval.
    package var sweepInterval: TimeAmount = .seconds(1)
    /// How long a graceful shutdown waits for unfinished requests before it closes their connections.
    package var shutdown: TimeAmount = .seconds(10)

    package init() {}
}
