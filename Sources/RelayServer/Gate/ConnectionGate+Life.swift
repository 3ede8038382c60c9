import NIOCore
import NIOHTTP1
import RelayAPI

/// How long a client has accepted no data.
///
/// A client that accepts a little of a large response now and then is slow, not stalled.
struct Stall {
    /// The time since which data has been waiting.
    let start: NIODeadline
    private(set) var since: NIODeadline
    private var unsent = Int.max

    init(since: NIODeadline) { (start, self.since) = (since, since) }

    mutating func look(_ now: NIODeadline, unsent: Int) {
        if unsent == 0 || (unsent < self.unsent && self.unsent != Int.max) { since = now }
        self.unsent = unsent
    }
}

/// The connection's lifecycle apart from requests: activation, errors, shutdown and timeouts.
extension ConnectionGate {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        loop.remove(self)
        letGoOfBody()
        stall = nil
        direct = nil
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        if isUnwelcome { refuse(.tooManyConnections, context) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        isClosing = true
        // The descriptor may be reused by another connection.
        direct = nil
        loop.remove(self)
        ready = nil
        endServing()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if case .upgraded = phase { return context.fireErrorCaught(error) }
        guard !isClosing else { return }
        switch error {
        case let refusal as Refusal: refuse(refusal, context)
        case let error as HTTPParserError: parserFailed(error, context)
        default: close(context)
        }
    }

    private func parserFailed(_ error: HTTPParserError, _ context: ChannelHandlerContext) {
        switch error {
        case .invalidEOFState, .closedConnection:
            // Either the client has disconnected in the middle of a request, or the parser treats the previous request
            // as the last of the connection and reads no other.
            arriving = nil
            letGoOfBody()
            decoder.dropEverything()
            isClosing = true
            if isIdle { leave(context) }
        case .invalidVersion: refuse(.versionUnknown, context)
        case .headerOverflow: refuse(.headersTooLarge, context)
        default: refuse(.malformed("its framing is invalid"), context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .upgraded = phase { return context.fireUserInboundEventTriggered(event) }
        switch event {
        case ChannelEvent.inputClosed:
            inputClosed = true
            onDeparture?()
            if isLingering { close(context) } else if isIdle, !isClosing { leave(context) }
        case is ChannelShouldQuiesceEvent:
            isQuiescing = true
            if isIdle, arriving == nil, !isClosing { leave(context) }
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }
}

extension ConnectionGate: LoopResident {
    func sweep(_ now: NIODeadline) {
        guard let context else { return }
        let limits = loop.door.limits
        if let since = stalledSince(now, context), now - since > limits.writeStall { return cut() }
        switch phase {
        case .idle(let since):
            if now - since > (served == 0 ? limits.headTime : limits.keepAlive) { close(context) }
        case .head(let since):
            if now - since > limits.headTime { timeOut(context) }
        case .body(let since, let lastPiece):
            if now - since > bodyTime(limits) || now - lastPiece > limits.bodyGap { timeOut(context) }
        case .lingering(let since):
            if now - since > limits.linger { cut() }
        case .serving, .upgraded:
            break
        }
    }

    /// The timeout of a body; longer for an upload, according to its size, or the maximum size if it is unknown.
    private func bodyTime(_ limits: ServerLimits) -> TimeAmount {
        guard let plan = arriving, plan.request.intake != nil else { return limits.bodyTime }
        let bytes = plan.bodyLength ?? limits.upload
        return limits.bodyTime + .seconds(Int64(bytes / max(1, limits.uploadPace)))
    }

    /// Returns the time since which the client has accepted no data; `nil` if nothing is waiting.
    private func stalledSince(_ now: NIODeadline, _ context: ChannelHandlerContext) -> NIODeadline? {
        guard stall != nil else { return nil }
        unsentBytes = unsent(context)
        stall?.look(now, unsent: unsentBytes)
        return stall?.since
    }

    /// A connection that is already closing gets no response and is closed.
    private func timeOut(_ context: ChannelHandlerContext) {
        if isClosing { cut() } else { refuse(.timeout, context) }
    }

    /// Whether no request is waiting for its response or the rest of it.
    private var isIdle: Bool { current == nil && queue.isEmpty && sending == nil }

    /// Closes once everything written is sent: closing at once would drop what the system has not accepted.
    func leave(_ context: ChannelHandlerContext) {
        guard unsent(context) > 0 else { return close(context) }
        finish(with: ByteBuffer(), on: context)
    }

    /// The bytes that wait in the channel.
    func unsent(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    func cut() {
        unsentBytes = 0
        context?.close(promise: nil)
    }

    var unsentSince: NIODeadline? { unsentBytes > 0 ? stall?.start : nil }
}
