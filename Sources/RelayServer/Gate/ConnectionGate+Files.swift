import NIOCore
import NIOPosix
import RelayAPI

/// Answers that are files, or many pieces: sent one after the other, as the peer takes them.
extension ConnectionGate {
    /// How many pieces go in one turn of the loop, which others wait for.
    private static let piecesPerTurn = 32

    /// Writes a head and then the body, piece by piece; the next request waits until it is through.
    func stream(
        _ response: APIResponse,
        after head: ByteBuffer,
        isLast: Bool,
        on context: ChannelHandlerContext
    ) {
        // A file that went away meanwhile: the head speaks of a body that there is not, so nothing is said at all.
        guard let sending = FileSending(response) else { return close(context) }
        self.sending = sending
        direct = nil
        isClosing = isClosing || isLast
        stall = Stall(since: loop.now)
        context.write(wrapOutboundOut(head), promise: nil)
        if isSecure { return readMore(isLast: isLast, on: context) }
        sendMore(isLast: isLast, on: context)
    }

    /// Gives out pieces until enough are under way.
    ///
    /// A piece may be through before its write returns; then this loop goes on and not the callback, however many there are.
    private func sendMore(isLast: Bool, on context: ChannelHandlerContext) {
        guard let sending, !sending.isFeeding else { return }
        sending.isFeeding = true
        var count = 0
        while count < Self.piecesPerTurn, self.sending === sending, let piece = sending.next() {
            count += 1
            write(piece, isLast: isLast, on: context)
        }
        sending.isFeeding = false
        guard self.sending === sending else { return }
        if sending.isThrough || sending.isBroken { return endSending(isLast: isLast, on: context) }
        guard count == Self.piecesPerTurn else { return }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.execute {
            guard let context = bound.value.context, !bound.value.isGone else { return }
            bound.value.sendMore(isLast: isLast, on: context)
        }
    }

    private func write(_ piece: FileSending.Piece, isLast: Bool, on context: ChannelHandlerContext) {
        let written = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { result in
            let gate = bound.value
            gate.sending?.pieceHasGone()
            guard let context = gate.context, !gate.isGone else { return gate.stopSending() }
            guard case .success = result else { return gate.close(context) }
            // The peer takes what it is sent, if slowly.
            gate.stall = Stall(since: gate.loop.now)
            gate.sendMore(isLast: isLast, on: context)
        }
        switch piece {
        case .file(let region): context.writeAndFlush(NIOAny(IOData.fileRegion(region)), promise: written)
        case .bytes(let bytes):
            context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: written)
        }
    }

    /// All has gone, or what should follow is not there: then the peer must not take it for the whole.
    private func endSending(isLast: Bool, on context: ChannelHandlerContext) {
        let isBroken = sending?.isBroken ?? false
        sending = nil
        stall = nil
        if isBroken { return close(context) }
        if isLast { return finish(with: ByteBuffer(), on: context) }
        context.flush()
        pump(context)
    }

    private func stopSending() { sending = nil }

    // MARK: Below TLS

    /// Reads a piece on a thread that may block, sends it, and reads the next when it has gone.
    private func readMore(isLast: Bool, on context: ChannelHandlerContext) {
        guard let sending, let piece = sending.next() else { return endSending(isLast: isLast, on: context) }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        read(piece, on: context)
            .flatMap { bytes -> EventLoopFuture<Void> in
                guard let context = bound.value.context, let bytes else {
                    return bound.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
                }
                return context.writeAndFlush(bound.value.wrapOutboundOut(bytes))
            }
            .whenComplete { result in
                let gate = bound.value
                gate.sending?.pieceHasGone()
                guard let context = gate.context, !gate.isGone else { return gate.stopSending() }
                guard case .success = result else { return gate.close(context) }
                gate.stall = Stall(since: gate.loop.now)
                gate.readMore(isLast: isLast, on: context)
            }
    }

    /// `nil` where the file is shorter than it was.
    private func read(_ piece: FileSending.Piece, on context: ChannelHandlerContext) -> EventLoopFuture<ByteBuffer?> {
        switch piece {
        case .file(let region):
            let length = region.readableBytes
            return NonBlockingFileIO(threadPool: .singleton)
                .read(fileRegion: region, allocator: context.channel.allocator, eventLoop: context.eventLoop)
                .map { $0.readableBytes == length ? $0 : nil }
        case .bytes(let bytes):
            // In another turn of the loop: small pieces may be through at once, one within the other.
            let buffer = context.channel.allocator.buffer(bytes: bytes)
            return context.eventLoop.submit { buffer }
        }
    }
}
