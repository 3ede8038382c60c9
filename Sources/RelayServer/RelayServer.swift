package import Logging
package import NIOCore
import NIOExtras
import NIOPosix
package import RelayAPI
import RelayStore
import ServiceLifecycle

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The relay's port: HTTP and WebSocket on one socket, with every limit of Reliability.md, "Limits".
///
/// Holds no state of the relay's own: what a request means is for the responder.
package struct RelayServer: Service {
    package typealias Responder = @Sendable (APIRequest) async -> APIResponse
    package typealias DirectResponder =
        @Sendable (APIRequest, any AnswerLane, @escaping @Sendable (APIResponse) -> Void) -> Bool

    private let configuration: ServerConfiguration
    private let answer: DirectResponder
    private let respond: Responder
    private let intake: @Sendable (APIRequest) -> (any BodyIntake)?
    private let isReady: @Sendable () -> Bool
    private let onListening: @Sendable (ListeningAddress) async -> Void
    private let onShortage: @Sendable () -> Void
    private let onRefusal: @Sendable (RefusedRequest) -> Void
    private let notices: NoticeService?
    private let now: @Sendable () -> NIODeadline
    private let logger: Logger
    private let counts: ConnectionCounts

    /// Makes a server that listens once it runs.
    ///
    /// - Parameters:
    ///   - configuration: Where to listen, and the limits.
    ///   - logger: For what an operator should know. Never gets query strings.
    ///   - notices: The hub and the admission behind `/push/1/…`; without it such sockets are closed at once.
    ///   - now: The clock by which every deadline is kept; never goes back.
    ///   - isReady: What `GET /readyz` tells; called on a loop, so it must not block.
    ///   - onListening: Called once, when the port accepts connections.
    ///   - onShortage: Called on a loop when the system has no descriptor for one more connection.
    ///   - onRefusal: Called on a loop for each request that is answered before anybody behind the port sees it.
    ///   - intake: Who takes a body that is too large to be held, while it arrives. Runs on the connection's loop.
    ///   - answer: Answers a request without a task, at once or later on the lane; false, and nothing done, for a request
    ///     that is for `respond`. Runs on the connection's loop, as that does.
    ///   - respond: Answers a request. Runs on the connection's loop: a call that blocks or computes for more than about
    ///     a millisecond holds up every connection of that loop, so it should await another executor.
    package init(
        configuration: ServerConfiguration,
        logger: Logger,
        notices: NoticeService? = nil,
        now: @escaping @Sendable () -> NIODeadline = { .now() },
        isReady: @escaping @Sendable () -> Bool = { true },
        onListening: @escaping @Sendable (ListeningAddress) async -> Void = { _ in },
        onShortage: @escaping @Sendable () -> Void = {},
        onRefusal: @escaping @Sendable (RefusedRequest) -> Void = { _ in },
        intake: @escaping @Sendable (APIRequest) -> (any BodyIntake)? = { _ in nil },
        answer: @escaping DirectResponder = { _, _, _ in false },
        respond: @escaping Responder
    ) {
        self.configuration = configuration
        var limits = configuration.limits
        limits.connections = min(limits.connections, DescriptorShares(descriptors: Descriptors.limit).connections)
        if limits.connections < configuration.limits.connections {
            logger.warning(
                "Fewer connections are taken than limits.connections allows. For more, raise the limit of open files.",
                metadata: ["connections": .stringConvertible(limits.connections)]
            )
        }
        counts = ConnectionCounts(limits: limits, trustedProxies: configuration.trustedProxies)
        self.logger = logger
        self.notices = notices
        self.now = now
        self.isReady = isReady
        self.onListening = onListening
        self.onShortage = onShortage
        self.onRefusal = onRefusal
        self.answer = answer
        self.respond = respond
        self.intake = intake
    }

    /// How many connections are open, of requests and of sockets.
    package var openConnections: @Sendable () -> Int { { [counts] in counts.total } }

    /// Serves until the service group shuts down gracefully or the task is cancelled; then stops accepting, lets
    /// requests end, and returns within `limits.shutdown`.
    ///
    /// Throws `ListenError` where the address cannot be had, `TLSFault` where the TLS files cannot be used.
    package func run() async throws {
        if configuration.testDoor, !configuration.isLoopback { throw ListenError.testDoorBeyondLoopback }
        let tls = try configuration.tls.map { try ServerTLS($0) }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: configuration.loops ?? System.coreCount)
        do {
            try await serve(on: group, tls: tls)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
        try await group.shutdownGracefully()
    }

    private func serve(on group: MultiThreadedEventLoopGroup, tls: ServerTLS?) async throws {
        let door = makeDoor()
        let (connections, arrivals) = AsyncStream.makeStream(of: GatedConnection.self)
        let loops = try await makeLoops(group, door: door, arrivals: arrivals)
        var failure: (any Error)?
        do {
            let gates = GateChannel(loops: loops, door: door, tls: tls)
            let quiescing = ServerQuiescingHelper(group: group)
            let channel = try await listen(on: group, gates: gates, quiescing: quiescing)
            await withDiscardingTaskGroup { tasks in
                tasks.addTask { await stop(channel, quiescing, Array(loops.values), then: arrivals) }
                if let tls { tasks.addTask { await tls.watch(every: configuration.tlsCheck, logger) } }
                await onListening(ListeningAddress(host: configuration.host, port: channel.localAddress?.port ?? 0))
                for await connection in connections { tasks.addTask { await gates.serve(connection) } }
                tasks.cancelAll()
            }
        } catch {
            failure = ListenError(error, configuration: configuration) ?? error
        }
        // However it ended: the loops' own timers must be gone before the loops are.
        for loop in loops.values { try? await loop.eventLoop.submit { loop.value.end() }.get() }
        if let failure { throw failure }
    }

    /// The listening channel, which brings each connection up on one of the group's loops.
    ///
    /// Plain NIO: Hummingbird's server hands every connection through a task of its own before it takes the next one, and
    /// so accepts a third as many a second.
    private func listen(
        on group: MultiThreadedEventLoopGroup,
        gates: GateChannel,
        quiescing: ServerQuiescingHelper
    ) async throws -> any Channel {
        try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: numericCast(configuration.backlog))
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.maxMessagesPerRead, value: 16)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = quiescing.makeServerChannelHandler(channel: channel)
                    try channel.pipeline.syncOperations.addHandler(handler)
                    try channel.pipeline.syncOperations.addHandler(AcceptPause(logger, onShortage: onShortage))
                }
            }
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try gates.setUp(channel) }
            }
            .bind(host: configuration.host, port: configuration.port).get()
    }

    /// Waits for the end: on a graceful stop takes no more connections and lets requests end for a while, on a
    /// cancellation cuts at once.
    private func stop(
        _ channel: any Channel,
        _ quiescing: ServerQuiescingHelper,
        _ loops: [NIOLoopBound<LoopState>],
        then arrivals: AsyncStream<GatedConnection>.Continuation
    ) async {
        let cutAll: @Sendable () -> Void = {
            for loop in loops { loop.eventLoop.execute { loop.value.cutAll() } }
        }
        do {
            try await gracefulShutdown()
            let closed = channel.eventLoop.makePromise(of: Void.self)
            quiescing.initiateShutdown(promise: closed)
            // What is cut has an end of its own to come to, and then the stores close: that has to fit in the time, too.
            let patience = TimeAmount.nanoseconds(configuration.limits.shutdown.nanoseconds / 5 * 4)
            let late = channel.eventLoop.scheduleTask(in: patience) { cutAll() }
            try? await closed.futureResult.get()
            late.cancel()
        } catch {
            try? await channel.close()
            cutAll()
        }
        arrivals.finish()
    }

    private func makeDoor() -> GateDoor {
        GateDoor(
            limits: configuration.limits,
            rules: RequestRules(
                limits: configuration.limits,
                trustedProxies: configuration.trustedProxies,
                testDoor: configuration.testDoor
            ),
            counts: counts,
            isReady: isReady,
            intake: intake,
            respond: respond,
            answer: answer,
            notices: notices,
            socketFrames: (notices?.hub.limits ?? NoticeLimits()).frameRate,
            now: now,
            uptime: uptime(),
            wallClock: { Int64(time(nil)) },
            requestID: { RequestID.random() },
            onRefusal: onRefusal,
            logger: logger
        )
    }

    /// Time since now.
    private func uptime() -> @Sendable () -> Duration {
        let (now, start) = (now, now())
        return { .nanoseconds((now() - start).nanoseconds) }
    }

    private func makeLoops(
        _ group: MultiThreadedEventLoopGroup,
        door: GateDoor,
        arrivals: AsyncStream<GatedConnection>.Continuation
    ) async throws -> [ObjectIdentifier: NIOLoopBound<LoopState>] {
        var loops: [ObjectIdentifier: NIOLoopBound<LoopState>] = [:]
        for eventLoop in group.makeIterator() {
            loops[ObjectIdentifier(eventLoop)] =
                try await eventLoop.submit {
                    let state = LoopState(eventLoop, door: door, arrivals: arrivals)
                    state.begin()
                    return NIOLoopBound(state, eventLoop: eventLoop)
                }.get()
        }
        return loops
    }
}

/// Where a server listens, once it does.
package struct ListeningAddress: Hashable, Sendable, CustomStringConvertible {
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// `host:port`, an IPv6 address in brackets: what goes behind `http://`.
    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
