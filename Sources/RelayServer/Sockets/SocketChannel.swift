import NIOCore
import RelayAPI
import RelayCore

/// What is spoken on a socket, above frames.
///
/// Confined to the socket's loop.
protocol SocketRole: AnyObject {
    func received(text: [UInt8])
    func received(binary: [UInt8])
    func received(ping: [UInt8])
    func receivedPong()
    func writabilityChanged(_ isWritable: Bool)
    /// Called on each sweep.
    func tick()
    /// The relay is stopping: say so and close.
    func stop()
    /// Nothing more comes or goes.
    func closed()
}

/// One WebSocket on its channel: frames in and out, the closing handshake, and nothing else.
///
/// A plain handler, the only one of its pipeline, with no task and no timer of its own: an idle socket costs its channel
/// and this object. Confined to its loop.
final class SocketChannel: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        case open
        /// Our close frame is out, the peer's has yet to come.
        case closing(since: NIODeadline)
        /// Both are through, or the peer has broken the rules: its side is left to close.
        case lingering(since: NIODeadline)
        case closed
    }

    var slot = -1
    /// Set once, right after both are made.
    var role: (any SocketRole)?
    private let loop: LoopState
    private var context: ChannelHandlerContext?
    private var reader: FrameReader
    private var phase = Phase.open
    private var holdsRead = false
    private let isSecure: Bool
    /// Where frames can go without a way through the channel; `nil` once that is closed, and where it changes bytes.
    private var direct: DirectSend?
    /// Frames that the channel has and has not sent yet.
    private var inChannel = 0

    /// - Parameters:
    ///   - loop: that of its channel.
    ///   - messageLimit: bytes of a message.
    ///   - isSecure: whether the channel encrypts what it sends.
    init(loop: LoopState, messageLimit: Int, isSecure: Bool) {
        self.loop = loop
        self.isSecure = isSecure
        reader = FrameReader(limit: messageLimit)
    }

    // MARK: Frames out

    /// Writes a finished frame; dropped once closing.
    ///
    /// Hands the bytes to the system at once where nothing is before them. The way through the channel costs as much again
    /// as the system call: of a commit that ten thousand sockets hear of that is the most we can save.
    func write(_ frame: ByteBuffer) {
        guard case .open = phase else { return }
        // Nothing else is looked at on the way of most: of ten thousand sockets little is in the processor's caches.
        let taken = inChannel == 0 ? direct?.send(frame) ?? 0 : 0
        guard taken < frame.readableBytes, let context else { return }
        var rest = frame
        rest.moveReaderIndex(forwardBy: taken)
        sendThroughChannel(rest, context)
    }

    /// Writes finished frames with one system call; dropped once closing.
    func write(_ frames: [ByteBuffer]) {
        guard let context, case .open = phase else { return }
        var all = context.channel.allocator.buffer(capacity: frames.reduce(0) { $0 + $1.readableBytes })
        for frame in frames { all.writeImmutableBuffer(frame) }
        write(all)
    }

    /// Hands the channel what the system would not take.
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

    /// Begins the closing handshake.
    func close(code: UInt16, reason: String) {
        guard let context, case .open = phase else { return }
        context.writeAndFlush(wrapOutboundOut(FrameBytes.close(code: code, reason: reason)), promise: nil)
        phase = .closing(since: loop.now)
        releaseRead(context)
    }

    // MARK: Frames in

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        while let event = reader.next(in: &bytes) { handle(event, context) }
    }

    private func handle(_ event: FrameReader.Event, _ context: ChannelHandlerContext) {
        switch (phase, event) {
        case (.open, .text(let text)): role?.received(text: text)
        case (.open, .binary(let bytes)): role?.received(binary: bytes)
        case (.open, .ping(let payload)): role?.received(ping: payload)
        case (.open, .pong): role?.receivedPong()
        case (.open, .close(let code)):
            end(FrameBytes.close(code: code, reason: ""), context)
        case (.open, .failed(let fault)):
            end(FrameBytes.close(code: fault.code, reason: fault.reason), context)
        case (.closing, .close), (.closing, .failed):
            linger(context)
        case (.closing, _), (.lingering, _), (.closed, _):
            break
        }
    }

    /// The last frame we send; then the peer has a moment to close, since closing at once could lose it the frame.
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
        role?.closed()
        role = nil
    }

    // MARK: Reading

    /// A peer that does not read is not read from either: what we answer it would pile up.
    func read(context: ChannelHandlerContext) {
        if !context.channel.isWritable, case .open = phase { holdsRead = true } else { context.read() }
    }

    private func releaseRead(_ context: ChannelHandlerContext) {
        guard holdsRead else { return }
        holdsRead = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        let isWritable = context.channel.isWritable
        role?.writabilityChanged(isWritable)
        if isWritable { releaseRead(context) }
    }

    // MARK: Life

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if !isSecure { direct = DirectSend(context) }
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { over() }
    func channelInactive(context: ChannelHandlerContext) { over() }

    private func over() {
        phase = .closed
        // Its number may be another connection's from now on.
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
        case is ChannelShouldQuiesceEvent: role?.stop()
        default: context.fireUserInboundEventTriggered(event)
        }
    }
}

extension SocketChannel: LoopResident {
    func sweep(_ now: NIODeadline) {
        switch phase {
        case .open: role?.tick()
        case .closing(let since):
            if now - since >= loop.door.limits.closingHandshake { cut() }
        case .lingering(let since):
            if now - since >= .seconds(1) { cut() }
        case .closed: break
        }
    }

    func cut() { context?.close(promise: nil) }
}
