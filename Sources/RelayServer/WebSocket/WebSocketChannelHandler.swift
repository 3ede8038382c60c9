import NIOCore
import RelayAPI
import RelayCore

/// The application protocol on a WebSocket, above frames; confined to the socket's event loop.
protocol WebSocketDelegate: AnyObject {
    func received(text: [UInt8])
    func received(binary: [UInt8])
    func received(ping: [UInt8])
    func receivedPong()
    func writabilityChanged(_ isWritable: Bool)
    /// Called on each sweep of the event loop.
    func tick()
    /// The relay is shutting down: send a close frame.
    func stop()
    /// The socket is closed.
    func closed()
}

/// A WebSocket on its channel: decodes and encodes frames and performs the closing handshake.
///
/// The only handler of its pipeline, without a task or a timer, so that an idle socket costs only its channel and this
/// object. Confined to its event loop.
final class WebSocketChannelHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        case open
        /// The relay's close frame was sent; the client's is awaited.
        case closing(since: NIODeadline)
        /// Both close frames were exchanged, or the client violated the protocol; the client should close the
        /// connection.
        case lingering(since: NIODeadline)
        case closed
    }

    var slot = -1
    /// Set once, right after both objects are created.
    var delegate: (any WebSocketDelegate)?
    private let loop: LoopState
    private var context: ChannelHandlerContext?
    private var reader: FrameReader
    private var phase = Phase.open
    private var hasPendingRead = false
    private let isSecure: Bool
    /// Sends frames directly to the socket; `nil` after the channel has closed, and if it encrypts.
    private var direct: DirectSend?
    /// The number of frames that the channel has buffered.
    private var inChannel = 0

    /// - Parameters:
    ///   - loop: The state of the channel's event loop.
    ///   - messageLimit: The maximum bytes of a message.
    ///   - isSecure: Whether the channel encrypts.
    init(loop: LoopState, messageLimit: Int, isSecure: Bool) {
        self.loop = loop
        self.isSecure = isSecure
        reader = FrameReader(limit: messageLimit)
    }

    // MARK: Sending frames

    /// Writes an encoded frame; dropped after the closing handshake has begun.
    ///
    /// Passes the bytes directly to the system if nothing is buffered before them. The way through the channel costs as
    /// much again as the system call, which matters for a commit that notifies ten thousand sockets.
    func write(_ frame: ByteBuffer) {
        guard case .open = phase else { return }
        // Nothing else is accessed on the common path, because with ten thousand sockets little is in the processor's
        // caches.
        let taken = inChannel == 0 ? direct?.send(frame) ?? 0 : 0
        guard taken < frame.readableBytes, let context else { return }
        var rest = frame
        rest.moveReaderIndex(forwardBy: taken)
        sendThroughChannel(rest, context)
    }

    /// Writes encoded frames with one system call; dropped after the closing handshake has begun.
    func write(_ frames: [ByteBuffer]) {
        guard let context, case .open = phase else { return }
        var all = context.channel.allocator.buffer(capacity: frames.reduce(0) { $0 + $1.readableBytes })
        for frame in frames { all.writeImmutableBuffer(frame) }
        write(all)
    }

    /// Writes the bytes that the system did not accept.
    private func sendThroughChannel(_ rest: ByteBuffer, _ context: ChannelHandlerContext) {
        guard direct != nil else {
            context.writeAndFlush(wrapOutboundOut(rest), promise: nil)
            return
        }
        inChannel += 1
        let sent = context.eventLoop.makePromise(of: Void.self)
        context.writeAndFlush(wrapOutboundOut(rest), promise: sent)
        sent.futureResult.assumeIsolated().whenComplete { _ in self.inChannel -= 1 }
    }

    /// Starts the closing handshake.
    func close(code: UInt16, reason: String) {
        guard let context, case .open = phase else { return }
        context.writeAndFlush(wrapOutboundOut(FrameEncoder.close(code: code, reason: reason)), promise: nil)
        phase = .closing(since: loop.now)
        releaseRead(context)
    }

    // MARK: Receiving frames

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        while let event = reader.next(in: &bytes) { handle(event, context) }
    }

    private func handle(_ event: FrameReader.Event, _ context: ChannelHandlerContext) {
        switch (phase, event) {
        case (.open, .text(let text)): delegate?.received(text: text)
        case (.open, .binary(let bytes)): delegate?.received(binary: bytes)
        case (.open, .ping(let payload)): delegate?.received(ping: payload)
        case (.open, .pong): delegate?.receivedPong()
        case (.open, .close(let code)):
            end(FrameEncoder.close(code: code, reason: ""), context)
        case (.open, .failed(let fault)):
            end(FrameEncoder.close(code: fault.code, reason: fault.reason), context)
        case (.closing, .close), (.closing, .failed):
            linger(context)
        case (.closing, _), (.lingering, _), (.closed, _):
            break
        }
    }

    /// Sends the last frame, then waits briefly for the client to close, since closing at once could lose the frame.
    private func end(_ frame: ByteBuffer, _ context: ChannelHandlerContext) {
        leave()
        context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
        linger(context)
    }

    private func linger(_ context: ChannelHandlerContext) {
        phase = .lingering(since: loop.now)
        context.close(mode: .output, promise: nil)
        releaseRead(context)
    }

    private func leave() {
        delegate?.closed()
        delegate = nil
    }

    // MARK: Reading

    /// Stops reading while the client does not read, because answers to it would accumulate.
    func read(context: ChannelHandlerContext) {
        if !context.channel.isWritable, case .open = phase { hasPendingRead = true } else { context.read() }
    }

    private func releaseRead(_ context: ChannelHandlerContext) {
        guard hasPendingRead else { return }
        hasPendingRead = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        let isWritable = context.channel.isWritable
        delegate?.writabilityChanged(isWritable)
        if isWritable { releaseRead(context) }
    }

    // MARK: Lifecycle

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if !isSecure { direct = DirectSend(context) }
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { over() }
    func channelInactive(context: ChannelHandlerContext) { over() }

    private func over() {
        phase = .closed
        // The descriptor may be reused by another connection.
        direct = nil
        loop.remove(self)
        leave()
        context = nil
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed: context.close(promise: nil)
        case is ChannelShouldQuiesceEvent: delegate?.stop()
        default: context.fireUserInboundEventTriggered(event)
        }
    }
}

extension WebSocketChannelHandler: SweptConnection {
    func sweep(_ now: NIODeadline) {
        switch phase {
        case .open: delegate?.tick()
        case .closing(let since):
            if now - since >= loop.services.limits.closingHandshake { abort() }
        case .lingering(let since):
            if now - since >= .seconds(1) { abort() }
        case .closed: break
        }
    }

    func abort() { context?.close(promise: nil) }
}

/// Echoes every message; enabled by `ServerConfiguration.testDoor`.
///
/// See Reliability.md, "Testing".
final class EchoSocket: WebSocketDelegate {
    private unowned let socket: WebSocketChannelHandler
    private let rate: RateLimit
    private let uptime: @Sendable () -> Duration
    private var controls: TokenBucket

    init(socket: WebSocketChannelHandler, rate: RateLimit, uptime: @escaping @Sendable () -> Duration) {
        self.socket = socket
        self.rate = rate
        self.uptime = uptime
        controls = TokenBucket(rate, at: uptime())
    }

    func received(text: [UInt8]) { socket.write(FrameEncoder.frame(.text, text)) }
    func received(binary: [UInt8]) { socket.write(FrameEncoder.frame(.binary, binary)) }

    func received(ping: [UInt8]) {
        if takes() { socket.write(FrameEncoder.frame(.pong, ping)) }
    }

    func receivedPong() { _ = takes() }
    func writabilityChanged(_ isWritable: Bool) {}
    func tick() {}
    func stop() { socket.close(code: 1001, reason: "relay stopping") }
    func closed() {}

    private func takes() -> Bool {
        guard controls.take(rate, at: uptime()) != nil else { return true }
        socket.close(code: 1008, reason: "too many control frames")
        return false
    }
}
