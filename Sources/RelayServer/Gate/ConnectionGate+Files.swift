import NIOCore
import NIOPosix
import RelayAPI

/// Responses with files or many pieces, which are sent as the client accepts them.
extension ConnectionGate {
    /// Maximum number of pieces per turn of the event loop, which other connections wait for.
    private static let piecesPerTurn = 32

    /// Writes a head and then the body piece by piece; the next request waits until all is sent.
    func stream(
        _ response: APIResponse,
        after head: ByteBuffer,
        isLast: Bool,
        on context: ChannelHandlerContext
    ) {
        // The file has been removed: the head announces a body that cannot be sent, so nothing is written.
        guard let sending = FileSending(response) else { return close(context) }
        self.sending = sending
        direct = nil
        isClosing = isClosing || isLast
        stall = Stall(since: loop.now)
        context.write(wrapOutboundOut(head), promise: nil)
        if isSecure { return readMore(isLast: isLast, on: context) }
        sendMore(isLast: isLast, on: context)
    }

    /// Writes pieces until enough are in flight.
    ///
    /// A write may complete before it returns; this loop then continues instead of the callback, so that there is no
    /// recursion.
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
            // The client accepts data, if slowly.
            gate.stall = Stall(since: gate.loop.now)
            gate.sendMore(isLast: isLast, on: context)
        }
        switch piece {
        case .file(let region): context.writeAndFlush(NIOAny(IOData.fileRegion(region)), promise: written)
        case .bytes(let bytes):
            context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: written)
        }
    }

    /// Ends the body; if it is incomplete, closes the connection so that the client does not take it for complete.
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

    // MARK: With TLS

    /// Reads a piece on a thread that may block, sends it, and reads the next one when it is sent.
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

    /// Returns `nil` if the file is shorter than before.
    private func read(_ piece: FileSending.Piece, on context: ChannelHandlerContext) -> EventLoopFuture<ByteBuffer?> {
        switch piece {
        case .file(let region):
            let length = region.readableBytes
            return NonBlockingFileIO(threadPool: .singleton)
                .read(fileRegion: region, allocator: context.channel.allocator, eventLoop: context.eventLoop)
                .map { $0.readableBytes == length ? $0 : nil }
        case .bytes(let bytes):
            // In another turn of the event loop, because small pieces may complete at once, which would recurse.
            let buffer = context.channel.allocator.buffer(bytes: bytes)
            return context.eventLoop.submit { buffer }
        }
    }
}
