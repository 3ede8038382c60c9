import Logging
import NIOCore
import NIOHTTP1
import RelayAPI
import RelayCore

/// A connection whose notice socket waits for its admission, and the executor of its event loop.
struct ActiveConnection: Sendable {
    let channel: any Channel
    let connectionHandler: NIOLoopBound<HTTPConnectionHandler>
    let executor: EventLoopExecutor
}

/// Configures new connections and admits the devices of notice sockets.
struct HTTPConnectionServer: Sendable {
    /// By the identity of the event loop.
    let loops: [ObjectIdentifier: NIOLoopBound<LoopState>]
    let services: HTTPServices
    /// `nil` for plain HTTP.
    let tls: ServerTLS?

    /// Configures a connection, on its event loop; throws if there are too many connections even for a 503 response.
    func setUp(_ channel: any Channel) throws {
        guard let loop = loops[ObjectIdentifier(channel.eventLoop)]?.value else {
            preconditionFailure("A connection came up on a loop that is not the server's.")
        }
        let peer = Self.peer(channel.remoteAddress)
        let verdict = services.counts.joined(peer)
        let counts = services.counts
        channel.closeFuture.whenComplete { _ in counts.left(peer) }
        if verdict == .farTooMany { throw Refusal.tooManyConnections }
        // Not set by the bootstrap, which allocates an iterator and futures for a single option.
        try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
        try Self.useSmallReadBuffers(channel)
        let decoder = RequestDecoder(limits: services.limits, heads: loop.heads, peer: peer)
        let handler = ByteToMessageHandler(decoder)
        try tls?.secure(channel)
        let connectionHandler = HTTPConnectionHandler(
            loop: loop,
            peer: peer,
            decoder: decoder,
            handler: handler,
            isSecure: tls != nil,
            isRejected: verdict == .tooMany
        )
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(handler)
        try pipeline.addHandler(connectionHandler)
    }

    private static func peer(_ address: SocketAddress?) -> String {
        guard let address, let text = address.ipAddress else { return "unknown" }
        // A listener for both families tells an IPv4 address as one of IPv6.
        if case .v6 = address { return IPAddress(text)?.description ?? text }
        return text
    }

    /// Limits a channel's read buffers to a single small one, which is enough for an idle socket.
    ///
    /// The buffer grows with the reads of a busy connection.
    static func useSmallReadBuffers(_ channel: any Channel) throws {
        guard let options = channel.syncOptions else { return }
        try options.setOption(.maxMessagesPerRead, value: 1)
        try options.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 512, maximum: 65_536)
        )
    }

    /// Uses large read buffers while a large body arrives, since each piece costs a turn of the event loop and two
    /// thread switches.
    static func useLargeReadBuffers(_ channel: any Channel) {
        let allocator = AdaptiveRecvByteBufferAllocator(minimum: 65_536, initial: 262_144, maximum: 524_288)
        try? channel.syncOptions?.setOption(.recvAllocator, value: allocator)
    }

    /// Admits the device of a notice socket.
    func serve(_ connection: ActiveConnection) async {
        await withTaskExecutorPreference(connection.executor) {
            await withTaskCancellationHandler {
                await connection.connectionHandler.value.admission?.admit()
            } onCancel: {
                connection.channel.close(promise: nil)
            }
        }
    }
}

/// The services behind the HTTP layer, the same for every connection of a server.
struct HTTPServices: Sendable {
    let limits: ServerLimits
    let rules: RequestRules
    let counts: ConnectionCounts
    /// How many request heads were recognized.
    let headLookups: CacheLookups
    /// Returns the handler of an upload's body; `nil` for bodies that are buffered.
    let intake: @Sendable (APIRequest) -> (any BodyIntake)?
    let respond: RelayServer.Responder
    /// `nil` if notices are not served.
    let notices: NoticeService?
    /// The rate limit of control frames on an echo socket.
    let socketFrames: RateLimit
    /// The time for deadlines.
    let now: @Sendable () -> NIODeadline
    /// The time since a fixed moment, by the same clock.
    let uptime: @Sendable () -> Duration
    /// Whole seconds since 1970-01-01 UTC; only for the `Date` field.
    let wallClock: @Sendable () -> Int64
    /// Returns a new request ID for a response of the HTTP layer.
    let requestID: @Sendable () -> String
    /// Called for each rejected request.
    let onRefusal: @Sendable (RefusedRequest) -> Void
    let logger: Logger
}
