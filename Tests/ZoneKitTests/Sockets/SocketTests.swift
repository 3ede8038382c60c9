import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Records
import SyncCore
import Synchronization
import TestSupport
import Testing
import Wire
import ZoneKit
import ZoneTesting

/// The system's sockets and the notice client, with an independent server implementation.
@Suite(.timeLimit(.minutes(15))) struct SocketTests {
    private let stream: AsyncStream<SocketEvent>
    private let continuation: AsyncStream<SocketEvent>.Continuation

    init() { (stream, continuation) = AsyncStream<SocketEvent>.makeStream() }

    private func connect(to server: ScriptedSocketServer) -> any Socket { connect(to: server.port) }

    private func connect(to port: Int) -> any Socket {
        SystemSockets.connector.connect(
            to: SocketAddress(host: "127.0.0.1", port: port, path: "/push/1/c/development", isSecure: false),
            subprotocol: NoticeClient.subprotocol
        ) { [continuation] in continuation.yield($0) }
    }

    @Test func aSocketExchangesMessagesAndPingsAndReportsItsCloseCode() async throws {
        let server = try await ScriptedSocketServer()
        let events = TimedStream(server.events)
        let clientEvents = TimedStream(stream)
        let socket = connect(to: server)
        let peer = try await events.next("the connection") { if case .connected(let peer) = $0 { peer } else { nil } }
        try await clientEvents.next("opened") { $0 == .opened ? () : nil }
        let long = String(repeating: "ü€", count: 20_000)
        socket.send(text: Array("one".utf8))
        socket.send(text: Array(long.utf8))
        for expected in ["one", long] {
            let text = try await events.next("a text") { if case .text(_, let text) = $0 { text } else { nil } }
            #expect(text == expected)
        }
        peer.send("two")
        peer.send(fragments: ["th", "r", "ee"])
        peer.send(long)
        for expected in ["two", "three", long] {
            let bytes = try await clientEvents.next("a text") { if case .text(let bytes) = $0 { bytes } else { nil } }
            #expect(bytes == Array(expected.utf8))
        }
        socket.ping()
        try await clientEvents.next("a pong") { $0 == .pong ? () : nil }
        peer.ping()
        try await events.next("a pong") { if case .ponged = $0 { () } else { nil } }
        peer.close(4409)
        let code = try await clientEvents.next("the end") { if case .closed(let code) = $0 { code } else { nil } }
        #expect(code == 4409)
        try await server.stop()
    }

    /// libwebsockets gives up after five seconds.
    ///
    /// Calls on the socket after that must not access freed memory.
    @Test func aServerThatNeverAnswersFailsTheConnection() async throws {
        let server = try await ListeningServer()
        let socket = connect(to: server.port)
        let end = try await TimedStream(stream).next("the end") { $0 }
        #expect(end == .closed(code: nil))
        socket.ping()
        socket.drop()
        try await server.stop()
    }

    @Test func aCutConnectionEndsWithoutACode() async throws {
        let server = try await ScriptedSocketServer()
        _ = connect(to: server)
        let peer = try await TimedStream(server.events).next("the connection") {
            if case .connected(let peer) = $0 { peer } else { nil }
        }
        peer.cut()
        let end = try await TimedStream(stream).next("the end") { $0 == .opened ? nil : $0 }
        #expect(end == .closed(code: nil))
        try await server.stop()
    }

    @Test func aRefusedUpgradeReportsItsStatus() async throws {
        let server = try await ScriptedSocketServer()
        server.refuse(with: .unauthorized)
        _ = connect(to: server)
        let end = try await TimedStream(stream).next("the end") { $0 }
        #expect(end == .refused(status: 401))
        try await server.stop()
    }

    @Test func aPortWithoutAServerClosesTheSocket() async throws {
        let port = try UnservedPort()
        _ = connect(to: port.number)
        let end = try await TimedStream(stream).next("the end") { $0 }
        #expect(end == .closed(code: nil))
    }

    @Test func aDroppedSocketSendsACloseFrameAndReportsNothing() async throws {
        let server = try await ScriptedSocketServer()
        let socket = connect(to: server)
        try await TimedStream(stream).next("opened") { $0 == .opened ? () : nil }
        socket.drop()
        let code = try await TimedStream(server.events).next("the end events") {
            if case .closed(_, let code) = $0 { code } else { nil }
        }
        #expect(code == 1001)
        continuation.finish()
        for await event in stream { Issue.record("after drop: \(event)") }
        try await server.stop()
    }

    @Test func fiftySocketsShareOneThread() async throws {
        let server = try await ScriptedSocketServer()
        let sockets = (0..<50).map { _ in connect(to: server) }
        let events = TimedStream(server.events)
        for _ in 0..<50 {
            let peer = try await events.next("a connection") { if case .connected(let peer) = $0 { peer } else { nil } }
            peer.send("hello")
        }
        let clientEvents = TimedStream(stream)
        for _ in 0..<50 { try await clientEvents.next("a text") { $0 == .text(Array("hello".utf8)) ? () : nil } }
        sockets.forEach { $0.drop() }
        for _ in 0..<50 { try await events.next("an end") { if case .closed = $0 { () } else { nil } } }
        try await server.stop()
    }
}

@Suite(.timeLimit(.minutes(15))) struct NoticeClientTests {
    /// The client's clock, so that a slow machine causes no time-out.
    ///
    /// Only short intended waits advance it.
    private let clock = TestClock()

    private func client(
        _ server: ScriptedSocketServer,
        _ continuation: AsyncStream<NoticeClient.Event>.Continuation
    ) -> NoticeClient {
        NoticeClient(
            address: SocketAddress(
                host: "127.0.0.1",
                port: server.port,
                path: "/push/1/c/development",
                isSecure: false
            ),
            connector: SystemSockets.connector,
            time: Scheduler(clock),
            // No randomness: every back-off has its shortest duration.
            random: RandomGenerator { 0 },
            hello: { NoticeHello(deviceID: "phone", apiToken: "api", webAuthToken: "web", since: [.private: "T"]) },
            deliver: { continuation.yield($0) }
        )
    }

    /// Runs the client and advances its clock over waits of less than a second.
    private func run(_ client: NoticeClient) -> Task<Void, Never> {
        let clock = clock
        return Task {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    while !Task.isCancelled {
                        let wait = clock.nextDeadline.map { clock.now.duration(to: $0) }
                        if let wait, wait < .seconds(1) { clock.advance(by: wait) }
                        await Task.yield()
                    }
                }
                group.addTask { await client.run() }
                await group.waitForAll()
            }
        }
    }

    private static let ready = ServerFrame.ready(
        NoticeReady(userRecordName: "_u", subscriptions: ["private-changes"], pingInterval: 30, relay: "test")
    )

    private static func text(_ frame: ServerFrame) -> String { String(decoding: frame.encoded, as: UTF8.self) }

    @Test func theClientReceivesNoticesAndReconnectsAfterARestart() async throws {
        let server = try await ScriptedSocketServer()
        let (stream, continuation) = AsyncStream<NoticeClient.Event>.makeStream()
        let running = run(client(server, continuation))
        let events = TimedStream(server.events)
        let clientEvents = TimedStream(stream)
        for round in 0..<2 {
            let (peer, hello) = try await events.next("a hello") { event -> (ScriptedSocketServer.Peer, String)? in
                if case .text(let peer, let text) = event { (peer, text) } else { nil }
            }
            let expected = NoticeHello(deviceID: "phone", apiToken: "api", webAuthToken: "web", since: [.private: "T"])
            #expect(try ClientFrame(decoding: Array(hello.utf8)) == .hello(expected))
            peer.send(Self.text(Self.ready))
            let user = try await clientEvents.next("live, round \(round)") {
                if case .live(let ready) = $0 { ready.userRecordName } else { nil }
            }
            #expect(user == "_u")
            peer.send("{\"ghost\":{}}")
            peer.send("not even JSON")
            let notice = Notice(
                kind: .database,
                container: "c",
                environment: .development,
                noticeID: "n",
                user: UserID("_u"),
                scope: .private,
                subscriptionID: "private-changes",
                zone: ZoneID("Notes", owner: UserID("_u")),
                syncToken: "T\(round)"
            )
            peer.send(Self.text(.notice(notice)))
            let received = try await clientEvents.next("a notice") {
                if case .notice(let notice) = $0 { notice } else { nil }
            }
            #expect(received == notice)
            peer.send(Self.text(.goodbye(reason: "relay restarting", retryAfter: 0.05)))
            peer.close(1012)
            try await clientEvents.next("lost") { if case .lost = $0 { () } else { nil } }
        }
        running.cancel()
        try await within(.seconds(120), "the client's end") { await running.value }
        try await server.stop()
    }

    @Test func theClientStaysDisconnectedUntilTheCredentialsChange() async throws {
        let server = try await ScriptedSocketServer()
        let (stream, continuation) = AsyncStream<NoticeClient.Event>.makeStream()
        let client = client(server, continuation)
        let running = run(client)
        let events = TimedStream(server.events)
        let peer = try await events.next("a hello") { if case .text(let peer, _) = $0 { peer } else { nil } }
        peer.close(4401)
        let isRenewable = try await TimedStream(stream).next("a call for credentials") {
            if case .needsCredentials(let isRenewable) = $0 { isRenewable } else { nil }
        }
        #expect(!isRenewable)
        client.credentialsChanged()
        try await events.next("a second hello") { if case .text = $0 { () } else { nil } }
        running.cancel()
        try await within(.seconds(120), "the client's end") { await running.value }
        try await server.stop()
    }
}

/// A WebSocket server on its own port.
///
/// A test controls its behaviour and receives the clients' actions as events.
final class ScriptedSocketServer: Sendable {
    enum Event: Sendable {
        case connected(Peer)
        case text(Peer, String)
        case ponged(Peer)
        case pinged(Peer)
        case closed(Peer, code: UInt16?)
    }

    /// A connected client.
    struct Peer: Sendable, Equatable {
        let channel: any Channel

        static func == (a: Peer, b: Peer) -> Bool { a.channel === b.channel }

        func send(_ text: String) { write(.text, ByteBuffer(string: text)) }

        /// Sends one message in several frames.
        func send(fragments: [String]) {
            for (number, part) in fragments.enumerated() {
                let isLast = number == fragments.count - 1
                let frame = WebSocketFrame(
                    fin: isLast,
                    opcode: number == 0 ? .text : .continuation,
                    data: ByteBuffer(string: part)
                )
                channel.writeAndFlush(frame, promise: nil)
            }
        }

        func ping() { write(.ping, ByteBuffer(string: "are you there")) }

        func close(_ code: UInt16) {
            var buffer = ByteBuffer()
            buffer.writeInteger(code)
            write(.connectionClose, buffer)
        }

        func cut() { channel.close(promise: nil) }

        private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer) {
            channel.writeAndFlush(WebSocketFrame(fin: true, opcode: opcode, data: data), promise: nil)
        }
    }

    let events: AsyncStream<Event>
    let port: Int
    private let channel: any Channel

    private final class Refusal: Sendable {
        let status = Mutex<HTTPResponseStatus?>(nil)
    }
    private let refusalBox: Refusal

    init() async throws {
        let (events, continuation) = AsyncStream<Event>.makeStream()
        self.events = events
        let refusal = Refusal()
        refusalBox = refusal
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                let upgrader = NIOWebSocketServerUpgrader(
                    maxFrameSize: 1 << 20,
                    shouldUpgrade: { channel, head in
                        guard refusal.status.withLock({ $0 }) == nil else {
                            return channel.eventLoop.makeSucceededFuture(nil)
                        }
                        var headers = HTTPHeaders()
                        head.headers["Sec-WebSocket-Protocol"].first.map {
                            headers.add(name: "Sec-WebSocket-Protocol", value: $0)
                        }
                        return channel.eventLoop.makeSucceededFuture(headers)
                    },
                    upgradePipelineHandler: { channel, _ in
                        channel.eventLoop.makeCompletedFuture {
                            try channel.pipeline.syncOperations.addHandler(FrameHandler(events: continuation))
                        }
                    }
                )
                let refuser = RefusingHandler { refusal.status.withLock { $0 } ?? .badRequest }
                return channel.pipeline.configureHTTPServerPipeline(
                    withServerUpgrade: (
                        upgraders: [upgrader],
                        completionHandler: { context in
                            context.pipeline.syncOperations.removeHandler(refuser, promise: nil)
                        }
                    )
                ).flatMap { channel.pipeline.addHandler(refuser) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    func refuse(with status: HTTPResponseStatus?) { refusalBox.status.withLock { $0 = status } }

    func stop() async throws { try await channel.close() }
}

private final class FrameHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let events: AsyncStream<ScriptedSocketServer.Event>.Continuation
    private var code: UInt16?

    init(events: AsyncStream<ScriptedSocketServer.Event>.Continuation) { self.events = events }

    func handlerAdded(context: ChannelHandlerContext) { events.yield(.connected(.init(channel: context.channel))) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        let peer = ScriptedSocketServer.Peer(channel: context.channel)
        var payload = frame.unmaskedData
        switch frame.opcode {
        case .text: events.yield(.text(peer, String(buffer: payload)))
        case .pong: events.yield(.ponged(peer))
        case .ping:
            events.yield(.pinged(peer))
            context.writeAndFlush(
                wrapOutboundOut(WebSocketFrame(fin: true, opcode: .pong, data: frame.unmaskedData)),
                promise: nil
            )
        case .connectionClose:
            code = payload.readInteger(as: UInt16.self)
            context.close(promise: nil)
        default: break
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        events.yield(.closed(.init(channel: context.channel), code: code))
    }
}

/// Answers requests that were not upgraded.
private final class RefusingHandler: ChannelInboundHandler, RemovableChannelHandler, Sendable {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let status: @Sendable () -> HTTPResponseStatus

    init(status: @escaping @Sendable () -> HTTPResponseStatus) { self.status = status }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .end = unwrapInboundIn(data) else { return }
        let head = HTTPResponseHead(version: .http1_1, status: status(), headers: ["Content-Length": "0"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}
