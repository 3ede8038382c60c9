import NIOCore
import NIOPosix
import RelayAPI

/// Answers that are files: sent piece by piece, as the peer takes them.
extension ConnectionGate {
    /// Writes a head and then the file, piece by piece; the next request waits until it is through.
    func send(
        _ file: FileBody,
        after head: ByteBuffer,
        isLast: Bool,
        on context: ChannelHandlerContext
    ) {
        // A file that went away meanwhile: the head speaks of a body that there is not, so nothing is said at all.
        guard let sending = FileSending(file) else { return close(context) }
        self.sending = sending
        direct = nil
        isClosing = isClosing || isLast
        context.write(wrapOutboundOut(head), promise: nil)
        if isSecure { return readMore(isLast: isLast, on: context) }
        // Two pieces at a time, so that the next is there when one has gone.
        sendMore(isLast: isLast, on: context)
        if self.sending != nil { sendMore(isLast: isLast, on: context) }
    }

    private func sendMore(isLast: Bool, on context: ChannelHandlerContext) {
        guard let piece = sending?.next() else {
            guard sending?.isThrough ?? false else { return }
            sending = nil
            if isLast { return finish(with: ByteBuffer(), on: context) }
            context.flush()
            return pump(context)
        }
        let written = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { result in
            let gate = bound.value
            gate.sending?.pieceHasGone()
            guard let context = gate.context, !gate.isGone else { return gate.stopSending() }
            guard case .success = result else { return gate.close(context) }
            // The peer takes what it is sent, if slowly.
            if gate.unwritableSince != nil { gate.unwritableSince = gate.loop.now }
            gate.sendMore(isLast: isLast, on: context)
        }
        context.writeAndFlush(NIOAny(IOData.fileRegion(piece)), promise: written)
    }

    private func stopSending() { sending = nil }

    // MARK: Below TLS

    /// Reads a piece on a thread that may block, sends it, and reads the next when it has gone.
    private func readMore(isLast: Bool, on context: ChannelHandlerContext) {
        guard let sending, let piece = sending.next() else {
            self.sending = nil
            if isLast { return finish(with: ByteBuffer(), on: context) }
            context.flush()
            return pump(context)
        }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let length = piece.readableBytes
        NonBlockingFileIO(threadPool: .singleton)
            .read(fileRegion: piece, allocator: context.channel.allocator, eventLoop: context.eventLoop)
            .flatMap { bytes -> EventLoopFuture<Void> in
                guard let context = bound.value.context, bytes.readableBytes == length else {
                    return bound.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
                }
                return context.writeAndFlush(bound.value.wrapOutboundOut(bytes))
            }
            .whenComplete { result in
                let gate = bound.value
                gate.sending?.pieceHasGone()
                guard let context = gate.context, !gate.isGone else { return gate.stopSending() }
                guard case .success = result else { return gate.close(context) }
                if gate.unwritableSince != nil { gate.unwritableSince = gate.loop.now }
                gate.readMore(isLast: isLast, on: context)
            }
    }
}
