import HTTPTypes
package import Logging
package import NIOCore
import NIOExtras
import NIOPosix
package import RelayAPI
import RelayCore
import RelaySystem
import ServiceLifecycle
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The relay's listener: HTTP and WebSocket on one port, with the limits of Reliability.md, "Limits".
///
/// Contains no application state: the responder processes the requests.
package struct RelayServer: Service {
    /// Answers a request: see `Relay.respond(to:on:then:)`.
    package typealias Responder =
        @Sendable (APIRequest, any ResponseExecutor, @escaping @Sendable (APIResponse) -> Void) -> Task<Void, Never>?

    private let configuration: ServerConfiguration
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
    private let isStopping = Flag()
    /// How many request heads were recognized, and how many had to be parsed.
    package let headLookups = CacheLookups()

    /// Creates a server that starts listening in `run()`.
    ///
    /// - Parameters:
    ///   - configuration: The listening address and the limits.
    ///   - logger: For messages to operators; never receives query strings.
    ///   - notices: The notice hub and the admission for `/push/1/…`; without it, such sockets are closed at once.
    ///   - now: The clock for deadlines; must never go back.
    ///   - isReady: The result of `GET /readyz`. Must not block.
    ///   - onListening: Called once, when the port accepts connections.
    ///   - onShortage: Called on an event loop when the system has no descriptor for another connection.
    ///   - onRefusal: Called on an event loop for each request that is rejected before it is routed.
    ///   - intake: Returns the handler of a body that is too large to be buffered. Called on the connection's event
    ///     loop.
    ///   - respond: Answers a request. Called on the connection's event loop, and so is the task that it returns: blocking
    ///     or computing for more than about 1 ms delays every connection of that loop, so such work should move to
    ///     another executor.
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
        respond: @escaping Responder
    ) {
        self.configuration = configuration
        var limits = configuration.limits
        limits.connections = min(limits.connections, DescriptorShares(descriptors: Descriptors.limit).connections)
        if limits.connections < configuration.limits.connections {
            logger.warning(
                "The limit of open files allows fewer connections than limits.connections. Raise it to accept more.",
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
        self.respond = respond
        self.intake = intake
    }

    /// The health and readiness endpoints; a server that stops is not ready.
    ///
    /// See Reliability.md, "Testing".
    package var entries: [RouteEntry] {
        let name = notices.map { $0.hub.relayName + "\n" } ?? ""
        return [
            .page("healthz", .whole("/healthz"), .reading, isMonitored: false) { _, _ in
                Self.state(isUp: true, name)
            },
            .page("readyz", .whole("/readyz"), .reading, isMonitored: false) { [isReady, isStopping] _, _ in
                Self.state(isUp: isReady() && !isStopping.isSet)
            },
        ]
    }

    private static func state(isUp: Bool, _ name: String = "") -> APIResponse {
        APIResponse(
            status: isUp ? .ok : .serviceUnavailable,
            headers: [.contentType: "text/plain", .cacheControl: "no-store"],
            body: Array(((isUp ? "up\n" : "down\n") + name).utf8)
        )
    }

    /// Returns the number of open connections, including sockets.
    package var openConnections: @Sendable () -> Int { { [counts] in counts.total } }

    /// Serves until the service group shuts down gracefully or the task is cancelled.
    ///
    /// Then stops accepting connections, completes requests in progress, and returns within `limits.shutdown`. Throws
    /// `ListenError` if the address is not available, and `TLSFault` if the TLS files cannot be used.
    package func run() async throws {
        if configuration.testDoor, !configuration.isLoopback { throw ListenError.echoBeyondLoopback }
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
        let services = makeServices()
        let (connections, arrivals) = AsyncStream.makeStream(of: ActiveConnection.self)
        let loops = try await makeLoops(group, services: services, arrivals: arrivals)
        var failure: (any Error)?
        do {
            let connectionHandlers = HTTPConnectionServer(loops: loops, services: services, tls: tls)
            let quiescing = ServerQuiescingHelper(group: group)
            let channel = try await listen(on: group, connectionHandlers: connectionHandlers, quiescing: quiescing)
            await withDiscardingTaskGroup { tasks in
                tasks.addTask { await stop(channel, quiescing, Array(loops.values), then: arrivals) }
                if let tls { tasks.addTask { await tls.watch(every: configuration.tlsCheck, logger) } }
                await onListening(ListeningAddress(host: configuration.host, port: channel.localAddress?.port ?? 0))
                for await connection in connections { tasks.addTask { await connectionHandlers.serve(connection) } }
                tasks.cancelAll()
            }
        } catch {
            failure = ListenError(error, configuration: configuration) ?? error
        }
        // In every case, the timers and tasks of the event loops must end before the loops do.
        for loop in loops.values { try? await loop.eventLoop.flatSubmit { loop.value.end() }.get() }
        if let failure { throw failure }
    }

    /// Returns the listening channel, which assigns each connection to one of the group's event loops.
    ///
    /// Uses NIO directly: Hummingbird's server passes every connection through a task before it accepts the next one,
    /// and accepts only a third as many per second.
    private func listen(
        on group: MultiThreadedEventLoopGroup,
        connectionHandlers: HTTPConnectionServer,
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
                channel.eventLoop.makeCompletedFuture { try connectionHandlers.setUp(channel) }
            }
            .bind(host: configuration.host, port: configuration.port).get()
    }

    /// Waits for the end of the service.
    ///
    /// A graceful shutdown accepts no more connections and gives requests time to complete; a cancellation closes all
    /// connections at once.
    private func stop(
        _ channel: any Channel,
        _ quiescing: ServerQuiescingHelper,
        _ loops: [NIOLoopBound<LoopState>],
        then arrivals: AsyncStream<ActiveConnection>.Continuation
    ) async {
        let abortAll: @Sendable () -> Void = {
            for loop in loops { loop.eventLoop.execute { loop.value.abortAll() } }
        }
        do {
            try await gracefulShutdown()
            isStopping.set()
            let closed = channel.eventLoop.makePromise(of: Void.self)
            quiescing.initiateShutdown(promise: closed)
            // Closing the remaining connections and then the stores takes time too, which must fit into the limit.
            let patience = TimeAmount.nanoseconds(configuration.limits.shutdown.nanoseconds / 5 * 4)
            let late = channel.eventLoop.scheduleTask(in: patience) { abortAll() }
            try? await closed.futureResult.get()
            late.cancel()
        } catch {
            try? await channel.close()
            abortAll()
        }
        arrivals.finish()
    }

    private func makeServices() -> HTTPServices {
        HTTPServices(
            limits: configuration.limits,
            rules: RequestRules(
                limits: configuration.limits,
                trustedProxies: configuration.trustedProxies,
                testDoor: configuration.testDoor
            ),
            counts: counts,
            headLookups: headLookups,
            intake: intake,
            respond: respond,
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

    /// Returns a function for the time since this call.
    private func uptime() -> @Sendable () -> Duration {
        let (now, start) = (now, now())
        return { .nanoseconds((now() - start).nanoseconds) }
    }

    private func makeLoops(
        _ group: MultiThreadedEventLoopGroup,
        services: HTTPServices,
        arrivals: AsyncStream<ActiveConnection>.Continuation
    ) async throws -> [ObjectIdentifier: NIOLoopBound<LoopState>] {
        var loops: [ObjectIdentifier: NIOLoopBound<LoopState>] = [:]
        for eventLoop in group.makeIterator() {
            loops[ObjectIdentifier(eventLoop)] =
                try await eventLoop.submit {
                    let state = LoopState(eventLoop, services: services, arrivals: arrivals)
                    state.begin()
                    return NIOLoopBound(state, eventLoop: eventLoop)
                }.get()
        }
        return loops
    }
}

/// A state that begins once.
private final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .relaxed) }

    func set() { value.store(true, ordering: .relaxed) }
}

/// The address of a listening server.
package struct ListeningAddress: Hashable, Sendable, CustomStringConvertible {
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// `host:port`, with an IPv6 address in brackets, as in URLs.
    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
