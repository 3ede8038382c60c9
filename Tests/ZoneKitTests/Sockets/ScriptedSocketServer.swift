import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Synchronization

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
