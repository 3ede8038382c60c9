import NIOCore
import NIOHTTP1
import RelayAPI

/// How long a peer has taken nothing.
///
/// One that takes a little of a large answer now and then is slow, and no more than that.
struct Stall {
    /// Since when something has waited for it.
    let start: NIODeadline
    private(set) var since: NIODeadline
    private var unsent = Int.max

    init(since: NIODeadline) { (start, self.since) = (since, since) }

    mutating func look(_ now: NIODeadline, unsent: Int) {
        if unsent == 0 || (unsent < self.unsent && self.unsent != Int.max) { since = now }
        self.unsent = unsent
    }
}

/// What happens to a connection beside its requests: it comes up, fails, is told to end, runs out of time.
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
        // Its number may be another connection's from now on.
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
            // The peer left in the middle of a request, and nobody is there to be told; or the parser takes the request
            // before this one for the connection's last, and then so must we: it would read no other.
            arriving = nil
            letGoOfBody()
            decoder.dropEverything()
            isClosing = true
            if isIdle { leave(context) }
        case .invalidVersion: refuse(.versionUnknown, context)
        case .headerOverflow: refuse(.headersTooLarge, context)
        default: refuse(.malformed("its framing is broken"), context)
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

    /// An upload has longer, by its size; one that does not say its size, by the greatest.
    private func bodyTime(_ limits: ServerLimits) -> TimeAmount {
        guard let plan = arriving, plan.request.intake != nil else { return limits.bodyTime }
        let bytes = plan.bodyLength ?? limits.upload
        return limits.bodyTime + .seconds(Int64(bytes / max(1, limits.uploadPace)))
    }

    /// Since when the peer has taken nothing of what waits for it; `nil` where nothing does.
    private func stalledSince(_ now: NIODeadline, _ context: ChannelHandlerContext) -> NIODeadline? {
        guard stall != nil else { return nil }
        unsentBytes = unsent(context)
        stall?.look(now, unsent: unsentBytes)
        return stall?.since
    }

    /// One that is closing is told nothing more, and must not stay for that.
    private func timeOut(_ context: ChannelHandlerContext) {
        if isClosing { cut() } else { refuse(.timeout, context) }
    }

    /// No request waits for its answer, or for the rest of it.
    private var isIdle: Bool { current == nil && queue.isEmpty && sending == nil }

    /// Closes once what has been written is out: closing at once would drop what the system has not taken.
    func leave(_ context: ChannelHandlerContext) {
        guard unsent(context) > 0 else { return close(context) }
        finish(with: ByteBuffer(), on: context)
    }

    /// Bytes that wait for the peer to take those before them.
    func unsent(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    func cut() {
        unsentBytes = 0
        context?.close(promise: nil)
    }

    var unsentSince: NIODeadline? { unsentBytes > 0 ? stall?.start : nil }
}
