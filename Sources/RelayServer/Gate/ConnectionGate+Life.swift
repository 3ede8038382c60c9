import NIOCore
import NIOHTTP1
import RelayAPI

/// What happens to a connection beside its requests: it comes up, fails, is told to end, runs out of time.
extension ConnectionGate {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        loop.remove(self)
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
            // The peer left in the middle of a request: nobody is there to be told.
            arriving = nil
            isClosing = current != nil || !queue.isEmpty
            if !isClosing { close(context) }
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
            let isIdle = current == nil && queue.isEmpty
            if isLingering || (isIdle && !isClosing) { close(context) }
        case is ChannelShouldQuiesceEvent:
            isQuiescing = true
            if current == nil, queue.isEmpty, arriving == nil, !isClosing { close(context) }
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }
}

extension ConnectionGate: LoopResident {
    func sweep(_ now: NIODeadline) {
        guard let context else { return }
        let limits = loop.door.limits
        if let unwritableSince, now - unwritableSince > limits.writeStall { return cut() }
        switch phase {
        case .idle(let since):
            if now - since > (served == 0 ? limits.headTime : limits.keepAlive) { close(context) }
        case .head(let since):
            if now - since > limits.headTime { refuse(.timeout, context) }
        case .body(let since, let lastPiece):
            if now - since > bodyTime(limits) || now - lastPiece > limits.bodyGap { refuse(.timeout, context) }
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

    func cut() {
        context?.close(promise: nil)
    }
}
