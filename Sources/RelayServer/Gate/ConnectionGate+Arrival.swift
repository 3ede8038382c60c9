import NIOCore
import NIOHTTP1
import RelayAPI

/// Reading of requests: assembles heads and bodies and adds complete requests to the queue.
extension ConnectionGate {
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .upgraded = phase { return context.fireChannelRead(data) }
        let part = unwrapInboundIn(data)
        guard !isClosing else { return }
        switch part {
        case .head(let head): headArrived(head, context)
        case .body(let piece): bodyArrived(piece.readableBytesView, context)
        case .end: requestArrived(context)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if case .upgraded = phase { return context.fireChannelReadComplete() }
        guard !isClosing, current == nil, queue.isEmpty else { return }
        if arriving != nil {
            let now = loop.now
            if case .body(let since, _) = phase {
                phase = .body(since: since, lastPiece: now)
            } else {
                phase = .body(since: now, lastPiece: now)
            }
        } else if decoder.isInsideHead, case .idle = phase {
            phase = .head(since: loop.now)
        }
    }

    private func headArrived(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        do throws(Refusal) {
            var plan = try loop.door.rules.plan(head, peer: peer)
            try prepareBody(&plan)
            if plan.request.intake != nil { GateChannel.widen(context.channel) }
            decoder.headEnded(plan)
            arriving = plan
            owesContinue = plan.expectsContinue
            payContinue(context)
        } catch {
            refuse(error, context)
        }
    }

    /// Reserves memory for a body, or finds a handler that processes it piece by piece.
    private func prepareBody(_ plan: inout RequestPlan) throws(Refusal) {
        if plan.bodyLength != 0, loop.door.rules.isUpload(plan.request.path) {
            plan.request.intake = loop.door.intake(plan.request)
        }
        guard plan.request.intake == nil, let length = plan.bodyLength, length > 0 else { return }
        guard length <= loop.door.limits.body else { throw .bodyTooLarge }
        plan.request.body.reserveCapacity(length)
    }

    /// Passes a piece to the upload's handler; pauses reading if the disk is slower than the client.
    private func pass(_ piece: ByteBufferView, to intake: any BodyIntake, _ context: ChannelHandlerContext) {
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let loop = context.eventLoop
        let verdict = intake.take(Array(piece)) {
            loop.execute { bound.value.intakeIsReady() }
        }
        switch verdict {
        case .goOn: break
        case .wait: intakeIsFull = true
        case .tooLarge: refuse(.bodyTooLarge, context)
        }
    }

    private func intakeIsReady() {
        intakeIsFull = false
        guard let context, !isGone else { return }
        // The relay paused, not the client, so the time between pieces starts again.
        if case .body(let since, _) = phase { phase = .body(since: since, lastPiece: loop.now) }
        releaseRead(context)
    }

    private func bodyArrived(_ piece: ByteBufferView, _ context: ChannelHandlerContext) {
        if let intake = arriving?.request.intake {
            owesContinue = false
            return pass(piece, to: intake, context)
        }
        // Moved out and back, so that the bytes are appended in place.
        guard var plan = arriving.take() else { return }
        plan.request.body.append(contentsOf: piece)
        owesContinue = false
        if plan.request.body.count > loop.door.limits.body { return refuse(.bodyTooLarge, context) }
        guard hold(piece.count) else { return refuse(.tooManyBodies, context) }
        arriving = plan
    }

    private func requestArrived(_ context: ChannelHandlerContext) {
        decoder.requestEnded()
        owesContinue = false
        letGoOfBody()
        guard let plan = arriving.take() else { return }
        if plan.request.intake != nil { try? GateChannel.spareMemory(context.channel) }
        if let purpose = plan.purpose {
            // Subsequent bytes belong to the socket, or are discarded.
            isClosing = true
            decoder.stop()
            queue.append(.socket(plan, purpose))
        } else {
            queue.append(.request(plan))
        }
        pump(context)
    }

    func begin(_ plan: RequestPlan, bodyLength: Int) -> Bool {
        guard !isClosing, bodyLength <= loop.door.limits.body else { return false }
        var plan = plan
        plan.bodyLength = bodyLength
        plan.request.body.reserveCapacity(bodyLength)
        arriving = plan
        return true
    }

    func bodyArrived(_ piece: ByteBufferView) {
        if let context { bodyArrived(piece, context) }
    }

    func requestArrived() {
        if let context { requestArrived(context) }
    }

    /// Sends `100 Continue` once the preceding responses are sent.
    func payContinue(_ context: ChannelHandlerContext) {
        guard owesContinue, current == nil, queue.isEmpty else { return }
        owesContinue = false
        direct = nil
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")), promise: nil)
    }
}
