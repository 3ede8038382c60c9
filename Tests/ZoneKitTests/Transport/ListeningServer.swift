import Foundation
import NIOCore
import NIOPosix

/// A server that reports received bytes and closed connections, and answers only as far as a test wants.
final class ListeningServer: Sendable {
    enum Event: Sendable, Equatable {
        case connected
        /// Bytes were received; `beginsRequest` is true if they start a request.
        case bytes(beginsRequest: Bool)
        case closed
    }

    let events: TimedStream<Event>
    let port: Int
    private let channel: any Channel

    /// Writes `answer` to each complete request, or nothing if it is empty.
    ///
    /// If `reads` is false, the server reads slowly in small parts.
    init(answer: String = "", reads: Bool = true) async throws {
        let (events, continuation) = AsyncStream<Event>.makeStream()
        self.events = TimedStream(events)
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // Without `reads` the system must not buffer much either.
            .serverChannelOption(.socketOption(.so_rcvbuf), value: reads ? 1 << 20 : 1 << 16)
            .childChannelOption(.autoRead, value: reads)
            .childChannelOption(.allowRemoteHalfClosure, value: false)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let listener = Listener(answer: answer, isSlow: !reads, events: continuation)
                    try channel.pipeline.syncOperations.addHandler(listener)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    func stop() async throws { try await channel.close() }
}

private final class Listener: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: String
    private let isSlow: Bool
    private let events: AsyncStream<ListeningServer.Event>.Continuation
    /// The incomplete request, if it is to be answered.
    private var request = ""

    init(answer: String, isSlow: Bool, events: AsyncStream<ListeningServer.Event>.Continuation) {
        self.answer = answer
        self.isSlow = isSlow
        self.events = events
    }

    func channelActive(context: ChannelHandlerContext) {
        events.yield(.connected)
        if isSlow { context.read() }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        guard isSlow else { return }
        let channel = context.channel
        context.eventLoop.scheduleTask(in: .milliseconds(20)) { channel.read() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let text = String(buffer: unwrapInboundIn(data))
        let begins = text.hasPrefix("GET ") || text.hasPrefix("POST ")
        events.yield(.bytes(beginsRequest: begins))
        guard !answer.isEmpty else { return }
        request += text
        guard isWhole else { return }
        request = ""
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
    }

    private var isWhole: Bool {
        guard let end = request.range(of: "\r\n\r\n") else { return false }
        let lines = request[..<end.lowerBound].lowercased().split(separator: "\r\n")
        let length = lines.first { $0.hasPrefix("content-length:") }?.dropFirst(15).trimmingCharacters(in: .whitespaces)
        return request[end.upperBound...].utf8.count >= length.flatMap { Int($0) } ?? 0
    }

    func channelInactive(context: ChannelHandlerContext) { events.yield(.closed) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
