import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayAPI

/// The HTTP handler of one connection: enforces limits, passes on one request at a time and writes responses in order.
///
/// The last handler of the pipeline, after the request decoder; confined to its event loop. `HTTPConnectionState` decides
/// what happens on each event; this type translates the channel's events and performs the effects.
final class HTTPConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler, CachedRequestHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    var slot = -1
    let loop: LoopState
    let peer: String
    let decoder: RequestDecoder
    let decoderHandler: ByteToMessageHandler<RequestDecoder>
    /// Whether TLS is used, so that files must be read in order to be sent.
    let isSecure: Bool
    private(set) var context: ChannelHandlerContext?
    private(set) var state: HTTPConnectionState
    /// The task that answers a request; `nil` if it is answered without one.
    private var task: Task<Void, Never>?
    /// A notice socket was opened, and its device must be admitted.
    var admission: NoticeConnection?
    private var body = ArrivingBody()
    /// Called when the client closes its side or the connection ends; immediately if that has happened already.
    var onDisconnect: (() -> Void)? { didSet { if state.isClientGone { onDisconnect?() } } }
    /// Unsent bytes, which count towards the event loop's limit.
    private var unsentBytes = 0 { didSet { loop.unsentBytes += unsentBytes - oldValue } }
    /// The file being sent as a response's body.
    var sending: FileSending?

    /// With `isRejected`, answers only that there are too many connections, once the channel is active.
    init(
        loop: LoopState,
        peer: String,
        decoder: RequestDecoder,
        handler: ByteToMessageHandler<RequestDecoder>,
        isSecure: Bool,
        isRejected: Bool
    ) {
        self.isSecure = isSecure
        self.loop = loop
        self.peer = peer
        self.decoder = decoder
        decoderHandler = handler
        state = HTTPConnectionState(isRejected: isRejected, now: loop.now)
    }

    // MARK: Events and effects

    /// Reports an event to the state machine and performs the effects.
    ///
    /// A loop instead of recursion, since an effect may cause the next event: a long pipeline must not overflow the stack.
    func process(_ event: HTTPConnectionState.Event, _ context: ChannelHandlerContext) {
        var next: HTTPConnectionState.Event? = event
        while let event = next { next = perform(handle(event), context) }
        if unsentBytes != 0, state.stall == nil { unsentBytes = 0 }
    }

    private func handle(_ event: HTTPConnectionState.Event) -> HTTPConnectionState.Effect {
        state.handle(event, limits: loop.services.limits, now: loop.now)
    }

    /// Performs an effect; returns the event that it causes.
    private func perform(
        _ effect: HTTPConnectionState.Effect,
        _ context: ChannelHandlerContext
    ) -> HTTPConnectionState.Event? {
        switch effect {
        // Responses are written by `answer`, which has them.
        case .none, .respond: break
        case .read: context.read()
        case .sendContinue:
            context.writeAndFlush(
                wrapOutboundOut(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")),
                promise: nil
            )
            context.read()
        case .begin(let plan, let reads):
            if reads { context.read() }
            pass(plan.request)
            return .begun(channelState(context))
        case .stopDecoder: decoder.stop()
        case .open(let plan, let purpose):
            // Subsequent bytes belong to the socket, or are discarded.
            decoder.stop()
            open(purpose, for: plan, context)
        case .discardInput: discardInput()
        case .refuse(let refusal, let omitsBody):
            finish(with: bytes(of: refusal, omitsBody: omitsBody, context), on: context)
        case .drain:
            // Closing at once would drop what the system has not accepted.
            if unsent(context) > 0 { finish(with: ByteBuffer(), on: context) } else { return .closed }
        case .finish: finish(with: ByteBuffer(), on: context)
        case .linger:
            context.close(mode: .output, promise: nil)
            context.read()
        case .close:
            sending = nil
            context.close(promise: nil)
        case .abort: abort()
        }
        return nil
    }

    func channelState(_ context: ChannelHandlerContext) -> HTTPConnectionState.Channel {
        .init(isWritable: context.channel.isWritable, isInsideHead: decoder.isInsideHead, coarseNow: loop.coarseNow)
    }

    // MARK: The relay's side

    /// Passes a request to the relay; the response may arrive before this returns.
    private func pass(_ request: APIRequest) {
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        guard let task = loop.services.respond(request, loop.executor, { bound.value.answer($0) }) else { return }
        self.task = task
        loop.began(task, of: self)
        // A notice that arrived after its client had disconnected would be lost.
        if request.isPoll { onDisconnect = { task.cancel() } }
    }

    /// Writes the response to the request that is being answered, and continues with the next request.
    private func answer(_ response: APIResponse) {
        if task != nil {
            task = nil
            onDisconnect = nil
            loop.taskEnded(of: self)
        }
        guard let context,
            case .respond(let plan, let isLast) = handle(.responded(isStreamed: response.isStreamed))
        else { return }
        write(response, to: plan, isLast: isLast, on: context)
        process(.written(channelState(context)), context)
    }

    private func write(
        _ response: APIResponse,
        to plan: RequestPlan,
        isLast: Bool,
        on context: ChannelHandlerContext
    ) {
        let isHead = plan.request.method == .head
        let answer = Answer(
            response: Gzip.encoded(response, for: plan.request),
            persistence: isLast ? .close : plan.isHTTP10 ? .keepAliveHTTP10 : .keepAlive,
            omitsBody: isHead
        )
        if response.isStreamed, !isHead {
            stream(response, after: bytes(of: answer, context), on: context)
        } else if isLast {
            finish(with: bytes(of: answer, context), on: context)
        } else {
            context.writeAndFlush(wrapOutboundOut(bytes(of: answer, context)), promise: nil)
        }
    }

    /// Writes the last bytes of this connection, and reports when they are sent.
    func finish(with buffer: ByteBuffer, on context: ChannelHandlerContext) {
        discardInput()
        let written = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in
            if let context = bound.value.context { bound.value.process(.lastBytesWritten, context) }
        }
        context.writeAndFlush(wrapOutboundOut(buffer), promise: written)
    }

    private func discardInput() {
        decoder.discardInput()
        body.release(loop)
    }

    func refuse(_ refusal: Refusal, _ context: ChannelHandlerContext) {
        process(.refused(refusal, isHeadRequest: decoder.isHeadRequest), context)
    }

    // MARK: Reading and writing

    func read(context: ChannelHandlerContext) {
        if state.readsAlways || (state.mayRead && context.channel.isWritable) { context.read() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if state.isUpgraded { return context.fireChannelWritabilityChanged() }
        if context.channel.isWritable {
            process(.writable(isInsideHead: decoder.isInsideHead), context)
        } else {
            unsentBytes = unsent(context)
            loop.makeRoom()
        }
    }
}

/// The body that is arriving.
private struct ArrivingBody {
    /// Bodies below this size are always accepted.
    private static let alwaysBuffered = 16 * 1024

    private(set) var bytes: [UInt8] = []
    /// Takes the body in place of `bytes`.
    private(set) var intake: (any BodyIntake)?
    /// The part of the event loop's count of buffered bytes.
    private var counted = 0

    mutating func begin(_ plan: RequestPlan) {
        intake = plan.request.intake
        if intake == nil, let length = plan.bodyLength, length > 0 { bytes.reserveCapacity(length) }
    }

    /// Appends a piece; throws if the body or all bodies of the event loop are too large.
    mutating func append(_ piece: ByteBufferView, _ loop: LoopState) throws(Refusal) {
        bytes.append(contentsOf: piece)
        counted += piece.count
        loop.bufferedBytes += piece.count
        let limits = loop.services.limits
        if bytes.count > limits.body { throw .bodyTooLarge }
        if counted >= Self.alwaysBuffered, loop.bufferedBytes > limits.unfinishedBodies { throw .tooManyBodies }
    }

    /// Returns the body, which is complete.
    mutating func take(_ loop: LoopState) -> [UInt8] {
        let complete = bytes
        release(loop)
        return complete
    }

    /// Releases the counted bytes of a body that is complete or abandoned.
    mutating func release(_ loop: LoopState) {
        loop.bufferedBytes -= counted
        counted = 0
        bytes = []
        intake = nil
    }
}

/// Reading of requests: assembles heads and bodies.
extension HTTPConnectionHandler {
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if state.isUpgraded { return context.fireChannelRead(data) }
        let part = unwrapInboundIn(data)
        guard state.acceptsRequests else { return }
        switch part {
        case .head(let head): headArrived(head, context)
        case .body(let piece): bodyArrived(piece.readableBytesView, context)
        case .end: requestArrived(context)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if state.isUpgraded { return context.fireChannelReadComplete() }
        process(.readComplete(isInsideHead: decoder.isInsideHead), context)
    }

    private func headArrived(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        do throws(Refusal) {
            var plan = try loop.services.rules.plan(head, peer: peer)
            try prepareBody(&plan)
            if plan.isUpload { HTTPConnectionServer.useLargeReadBuffers(context.channel) }
            decoder.headEnded(plan)
            body.begin(plan)
            process(.head(plan), context)
        } catch {
            refuse(error, context)
        }
    }

    /// Checks the length of a body, or finds a handler that processes it piece by piece.
    private func prepareBody(_ plan: inout RequestPlan) throws(Refusal) {
        if plan.bodyLength != 0, loop.services.rules.isUpload(plan.request.path) {
            plan.request.intake = loop.services.intake(plan.request)
        }
        guard !plan.isUpload, let length = plan.bodyLength, length > loop.services.limits.body else { return }
        throw .bodyTooLarge
    }

    private func bodyArrived(_ piece: ByteBufferView, _ context: ChannelHandlerContext) {
        if let intake = body.intake { return pass(piece, to: intake, context) }
        do throws(Refusal) {
            try body.append(piece, loop)
        } catch {
            refuse(error, context)
        }
    }

    /// Passes a piece to the upload's handler; pauses reading if the disk is slower than the client.
    private func pass(_ piece: ByteBufferView, to intake: any BodyIntake, _ context: ChannelHandlerContext) {
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let loop = context.eventLoop
        let verdict = intake.take(Array(piece)) {
            loop.execute {
                if let context = bound.value.context { bound.value.process(.resumed, context) }
            }
        }
        switch verdict {
        case .proceed: break
        case .wait: process(.paused, context)
        case .tooLarge: refuse(.bodyTooLarge, context)
        }
    }

    private func requestArrived(_ context: ChannelHandlerContext) {
        decoder.requestEnded()
        if body.intake != nil { try? HTTPConnectionServer.useSmallReadBuffers(context.channel) }
        process(.complete(body: body.take(loop)), context)
    }

    func begin(_ plan: RequestPlan, _ match: CachedRequestHead.Match) -> Bool {
        guard let context, state.acceptsRequests, match.bodyLength <= loop.services.limits.body else { return false }
        var plan = plan
        plan.bodyLength = match.bodyLength
        plan.webSocketKey = match.webSocketKey
        body.begin(plan)
        process(.head(plan), context)
        return true
    }

    func bodyArrived(_ piece: ByteBufferView) {
        if let context, state.acceptsRequests { bodyArrived(piece, context) }
    }

    func requestArrived() {
        if let context, state.acceptsRequests { requestArrived(context) }
    }
}

/// Writing of responses.
extension HTTPConnectionHandler {
    /// A response, and what happens to the connection after it.
    struct Answer {
        var response: APIResponse
        var persistence: ResponseBytes.Persistence
        /// Whether the request's method was HEAD.
        var omitsBody: Bool
    }

    /// Returns the complete response in one buffer.
    func bytes(of answer: Answer, _ context: ChannelHandlerContext) -> ByteBuffer {
        ResponseBytes.write(
            answer.response,
            persistence: answer.persistence,
            date: loop.dateText,
            omitsBody: answer.omitsBody,
            allocator: context.channel.allocator
        )
    }

    /// Returns the response to a rejected request, and reports the rejection.
    func bytes(of refusal: Refusal, omitsBody: Bool, _ context: ChannelHandlerContext) -> ByteBuffer {
        let id = loop.services.requestID()
        loop.services.onRefusal(refusal.refusedRequest(as: id))
        var headers: HTTPFields = [.contentType: "application/json; charset=UTF-8", .requestUUID: id]
        if let seconds = refusal.retryAfter { headers[.retryAfter] = String(seconds) }
        if refusal == .methodNotServed { headers[.allow] = "GET, POST, OPTIONS" }
        return ResponseBytes.write(
            APIResponse(
                status: .init(code: refusal.status),
                headers: headers,
                body: Array(refusal.body(requestID: id).utf8)
            ),
            persistence: .close,
            date: loop.dateText,
            omitsBody: omitsBody,
            allocator: context.channel.allocator
        )
    }
}

/// The connection's lifecycle apart from requests: activation, errors, shutdown and timeouts.
extension HTTPConnectionHandler {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        decoder.cachedRequestHandler = self
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        loop.remove(self)
        body.release(loop)
        unsentBytes = 0
        decoder.cachedRequestHandler = nil
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        process(.active, context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        _ = handle(.closed)
        loop.remove(self)
        admission = nil
        onDisconnect?()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if state.isUpgraded { return context.fireErrorCaught(error) }
        guard state.acceptsRequests else { return }
        switch error {
        case let refusal as Refusal: refuse(refusal, context)
        case let error as HTTPParserError: parserFailed(error, context)
        default: process(.closed, context)
        }
    }

    private func parserFailed(_ error: HTTPParserError, _ context: ChannelHandlerContext) {
        switch error {
        // Either the client has disconnected in the middle of a request, or the parser treats the previous request as the
        // last of the connection and reads no other.
        case .invalidEOFState, .closedConnection: process(.inputEnded, context)
        case .invalidVersion: refuse(.versionUnknown, context)
        case .headerOverflow: refuse(.headersTooLarge, context)
        default: refuse(.malformed("its framing is invalid"), context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if state.isUpgraded { return context.fireUserInboundEventTriggered(event) }
        switch event {
        case ChannelEvent.inputClosed:
            process(.inputClosed, context)
            onDisconnect?()
        case is ChannelShouldQuiesceEvent: process(.stopping, context)
        default: context.fireUserInboundEventTriggered(event)
        }
    }
}

extension HTTPConnectionHandler: SweptConnection {
    func sweep(_ now: NIODeadline) {
        guard let context else { return }
        if state.stall != nil { unsentBytes = unsent(context) }
        process(.tick(unsentBytes: unsentBytes, isHeadRequest: decoder.isHeadRequest), context)
    }

    /// The bytes that wait in the channel.
    private func unsent(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    func abort() {
        unsentBytes = 0
        context?.close(promise: nil)
    }

    var unsentSince: NIODeadline? { unsentBytes > 0 ? state.stall?.start ?? loop.now : nil }
}
