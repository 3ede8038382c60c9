import NIOCore
import NIOPosix
import RelayAPI

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A response body of files and bytes on the way to a client.
///
/// A piece is returned when an earlier one has been sent, so that a slow reader can be distinguished from a stalled
/// one, and so that the system sends files without copying them.
final class FileSending {
    enum Piece {
        case file(FileRegion)
        case bytes([UInt8])
    }

    /// Maximum bytes of a piece.
    private static let piece = 512 * 1024
    /// Two, so that the next piece is available when one has been sent.
    private static let inFlightLimit = 2

    private var handle: NIOFileHandle?
    private var offset = 0
    private var end = 0
    private let parts: (any BodyParts)?
    /// The number of bytes that `parts` must still provide.
    private var remainingBytes: Int64
    /// The number of pieces returned and not sent.
    private var inFlight = 0
    /// Whether the content differs from what the head announced.
    private(set) var isBroken = false
    /// Whether the next part is not there yet.
    private(set) var isWaiting = false
    /// Whether a caller is requesting pieces in a loop, so that callbacks need not.
    var isFeeding = false

    /// Returns `nil` if the file cannot be opened.
    init?(_ response: APIResponse) {
        parts = response.file == nil ? response.parts : nil
        remainingBytes = parts?.length ?? 0
        if let file = response.file, !begin(file) { return nil }
    }

    /// Returns the next piece; `nil` if too many are in flight, all were returned, or the body is broken.
    func next() -> Piece? {
        guard inFlight < Self.inFlightLimit, !isBroken, !isWaiting else { return nil }
        if offset >= end {
            // The pieces in flight may still be read from the open file.
            guard remainingBytes > 0, inFlight == 0 else { return nil }
            if let bytes = nextPart() {
                inFlight += 1
                return .bytes(bytes)
            }
        }
        guard !isBroken, offset < end, let handle else { return nil }
        inFlight += 1
        let upper = min(end, offset + Self.piece)
        defer { offset = upper }
        return .file(FileRegion(fileHandle: handle, readerIndex: offset, endIndex: upper))
    }

    /// Returns bytes, or `nil` if a file was opened or nothing more follows.
    private func nextPart() -> [UInt8]? {
        switch try? parts?.next() {
        case .bytes(let bytes) where !bytes.isEmpty && bytes.count <= remainingBytes:
            remainingBytes -= Int64(bytes.count)
            return bytes
        case .file(let file) where file.length > 0 && file.length <= remainingBytes && begin(file):
            remainingBytes -= file.length
        case .later: isWaiting = true
        default: isBroken = true
        }
        return nil
    }

    /// Calls `body` once, from any thread, when the next part is there.
    func whenReady(_ body: @escaping @Sendable () -> Void) { parts?.whenReady(body) }

    /// Returns whether the body waited for its next part.
    func partIsReady() -> Bool {
        defer { isWaiting = false }
        return isWaiting
    }

    private func begin(_ file: FileBody) -> Bool {
        try? handle?.close()
        handle = nil
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        handle = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
        offset = Int(file.offset)
        end = Int(file.offset + file.length)
        return true
    }

    func pieceWritten() { inFlight -= 1 }

    /// Whether everything has been returned and sent.
    var isFinished: Bool { offset >= end && remainingBytes == 0 && inFlight == 0 && !isBroken }

    deinit { try? handle?.close() }
}

/// Responses with files or many pieces, which are sent as the client accepts them.
extension HTTPConnectionHandler {
    /// Maximum number of pieces per turn of the event loop, which other connections wait for.
    private static let piecesPerTurn = 32

    /// Writes a head and then the body piece by piece; the next request waits until all is sent.
    func stream(_ response: APIResponse, after head: ByteBuffer, on context: ChannelHandlerContext) {
        // The file has been removed: the head announces a body that cannot be sent, so nothing is written.
        guard let sending = FileSending(response) else { return process(.closed, context) }
        self.sending = sending
        context.write(wrapOutboundOut(head), promise: nil)
        if isSecure { return readMore(on: context) }
        sendMore(on: context)
    }

    /// Writes pieces until enough are in flight.
    ///
    /// A write may complete before it returns; this loop then continues instead of the callback, so that there is no
    /// recursion.
    private func sendMore(on context: ChannelHandlerContext) {
        guard let sending, !sending.isFeeding else { return }
        sending.isFeeding = true
        var count = 0
        while count < Self.piecesPerTurn, self.sending === sending, let piece = sending.next() {
            count += 1
            write(piece, on: context)
        }
        sending.isFeeding = false
        guard self.sending === sending else { return }
        if sending.isFinished || sending.isBroken { return endSending(on: context) }
        if sending.isWaiting { return waitForPart(of: sending, on: context) }
        guard count == Self.piecesPerTurn else { return }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.execute {
            guard let context = bound.value.context, !bound.value.state.isClosed else { return }
            bound.value.sendMore(on: context)
        }
    }

    /// Continues when the next part is there.
    private func waitForPart(of sending: FileSending, on context: ChannelHandlerContext) {
        let (bound, loop) = (NIOLoopBound(self, eventLoop: context.eventLoop), context.eventLoop)
        sending.whenReady {
            // In another turn of the event loop, since parts that are always there would recurse.
            loop.execute {
                let handler = bound.value
                guard handler.sending?.partIsReady() == true, let context = handler.context, !handler.state.isClosed
                else { return }
                if handler.isSecure { handler.readMore(on: context) } else { handler.sendMore(on: context) }
            }
        }
    }

    private func write(_ piece: FileSending.Piece, on context: ChannelHandlerContext) {
        let written = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { result in
            if let context = bound.value.pieceWritten(result) { bound.value.sendMore(on: context) }
        }
        switch piece {
        case .file(let region): context.writeAndFlush(NIOAny(IOData.fileRegion(region)), promise: written)
        case .bytes(let bytes):
            context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: written)
        }
    }

    /// Returns the context if more can be sent.
    private func pieceWritten(_ result: Result<Void, any Error>) -> ChannelHandlerContext? {
        sending?.pieceWritten()
        guard let context, !state.isClosed else {
            sending = nil
            return nil
        }
        guard case .success = result else {
            process(.closed, context)
            return nil
        }
        // The client accepts data, if slowly.
        process(.progressed, context)
        return context
    }

    /// Ends the body; if it is incomplete, closes the connection so that the client does not take it for complete.
    private func endSending(on context: ChannelHandlerContext) {
        let isBroken = sending?.isBroken ?? false
        sending = nil
        if !isBroken { context.flush() }
        process(isBroken ? .closed : .streamed(channelState(context)), context)
    }

    // MARK: With TLS

    /// Reads a piece on a thread that may block, sends it, and reads the next one when it is sent.
    private func readMore(on context: ChannelHandlerContext) {
        guard let sending else { return endSending(on: context) }
        guard let piece = sending.next() else {
            return sending.isWaiting ? waitForPart(of: sending, on: context) : endSending(on: context)
        }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        read(piece, on: context)
            .flatMap { bytes -> EventLoopFuture<Void> in
                guard let context = bound.value.context, let bytes else {
                    return bound.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
                }
                return context.writeAndFlush(bound.value.wrapOutboundOut(bytes))
            }
            .whenComplete { result in
                if let context = bound.value.pieceWritten(result) { bound.value.readMore(on: context) }
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
