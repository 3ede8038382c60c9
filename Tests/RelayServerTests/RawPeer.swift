import NIOCore
import NIOPosix
import RelayServer
import Synchronization

/// A plain TCP peer that sends given bytes and keeps all bytes it receives.
final class RawPeer: Sendable {
    struct TimedOut: Error, CustomStringConvertible {
        var description: String
    }

    private let channel: any Channel
    private let inbox: Inbox

    private init(channel: any Channel, inbox: Inbox) {
        self.channel = channel
        self.inbox = inbox
    }

    /// Connects to a port of this machine.
    ///
    /// With `reads: false`, the peer does not read by itself. The event loop sends `text` as soon as the connection is
    /// open, so that a deadline does not depend on this test's turn on a busy machine.
    static func connect(port: Int, reads: Bool = true, sending text: String = "") async throws -> RawPeer {
        try await connect(port: port, reads: reads, sending: Array(text.utf8))
    }

    static func connect(port: Int, reads: Bool = true, sending opening: [UInt8]) async throws -> RawPeer {
        let inbox = Inbox()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.autoRead, value: reads)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(InboxHandler(inbox: inbox))
                    if !opening.isEmpty { try channel.pipeline.syncOperations.addHandler(Opening(bytes: opening)) }
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return RawPeer(channel: channel, inbox: inbox)
    }

    func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) async throws {
        try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
    }

    /// Returns the bytes received so far, once `isEnough` holds or the peer has closed.
    func received(
        within seconds: Int64 = 300,
        waitingFor what: String,
        until isEnough: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws -> [UInt8] {
        let promise = channel.eventLoop.makePromise(of: [UInt8].self)
        let timer = channel.eventLoop.scheduleTask(in: .seconds(seconds)) {
            promise.fail(TimedOut(description: "waited \(seconds) s for \(what)"))
        }
        inbox.wait(isEnough) { promise.succeed($0) }
        defer { timer.cancel() }
        return try await promise.futureResult.get()
    }

    /// Returns all bytes until the relay closes the connection.
    func untilClosed(within seconds: Int64 = 300) async throws -> String {
        let bytes = try await received(within: seconds, waitingFor: "the relay to close") { _ in false }
        return String(decoding: bytes, as: UTF8.self)
    }

    func text(containing part: String) async throws -> String {
        let bytes = try await received(waitingFor: part) { String(decoding: $0, as: UTF8.self).contains(part) }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Receives about `count` more bytes; for a peer that does not read by itself.
    func take(_ count: Int) async throws {
        let goal = inbox.count + count
        while inbox.count < goal {
            let before = inbox.count
            channel.read()
            _ = try await received(waitingFor: "more") { $0.count > before }
        }
    }

    func stopReading() async throws { try await channel.setOption(.autoRead, value: false).get() }

    func startReading() async throws { try await channel.setOption(.autoRead, value: true).get() }

    func finishSending() async throws { try await channel.close(mode: .output).get() }

    func close() async { try? await channel.close().get() }
}

/// The bytes received, and the tasks that wait for them.
private final class Inbox: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var isClosed = false
        var isEnough: (@Sendable ([UInt8]) -> Bool)?
        var deliver: (@Sendable ([UInt8]) -> Void)?
    }

    private let state = Mutex(State())

    func wait(_ isEnough: @escaping @Sendable ([UInt8]) -> Bool, deliver: @escaping @Sendable ([UInt8]) -> Void) {
        update {
            $0.isEnough = isEnough
            $0.deliver = deliver
        }
    }

    var count: Int { state.withLock { $0.bytes.count } }

    func append(_ bytes: [UInt8]) { update { $0.bytes += bytes } }
    func close() { update { $0.isClosed = true } }

    private func update(_ change: @Sendable (inout State) -> Void) {
        let due: (@Sendable () -> Void)? = state.withLock { state in
            change(&state)
            guard let isEnough = state.isEnough, let deliver = state.deliver else { return nil }
            let bytes = state.bytes
            guard state.isClosed || isEnough(bytes) else { return nil }
            state.isEnough = nil
            state.deliver = nil
            return { deliver(bytes) }
        }
        due?()
    }
}

private final class InboxHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let inbox: Inbox

    init(inbox: Inbox) { self.inbox = inbox }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        inbox.append(Array(unwrapInboundIn(data).readableBytesView))
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { inbox.close() }
    }

    func channelInactive(context: ChannelHandlerContext) { inbox.close() }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        inbox.close()
        context.close(promise: nil)
    }
}

/// Sends its bytes as soon as the connection is open.
private final class Opening: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
        context.fireChannelActive()
    }
}
