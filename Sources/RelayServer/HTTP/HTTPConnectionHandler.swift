import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayAPI

/// The HTTP handler of one connection: enforces limits, passes on one request at a time and writes responses in order.
///
/// The last handler of the pipeline, after the request decoder; confined to its event loop. While one request is being
/// answered, the next is read, and while that waits, reading pauses. This bounds the memory of a pipelining client to
/// one request, and without pipelining the socket stays registered for reading.
final class HTTPConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler, CachedRequestHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The state in which the sweep measures timeouts.
    enum Phase {
        /// No byte of a request has arrived.
        case idle(since: NIODeadline)
        case head(since: NIODeadline)
        case body(since: NIODeadline, lastPiece: NIODeadline)
        case serving
        /// The last response was sent; incoming data is discarded until the client closes.
        case lingering(since: NIODeadline)
        /// A WebSocket has taken over the connection; this handler passes on buffered data and is removed.
        case upgraded
    }

    enum Waiting {
        case request(RequestPlan)
        case socket(RequestPlan, SocketPurpose)
        case refusal(Refusal, omitsBody: Bool)
    }

    var slot = -1
    let loop: LoopState
    let peer: String
    let decoder: RequestDecoder
    let decoderHandler: ByteToMessageHandler<RequestDecoder>
    var context: ChannelHandlerContext?
    var phase: Phase
    /// Complete requests that wait for their turn, followed by at most one refusal.
    var queue = CircularBuffer<Waiting>(initialCapacity: 2)
    /// The request being answered.
    var current: RequestPlan?
    /// The request whose body is arriving.
    var arriving: RequestPlan?
    /// Bytes received of that body, which count towards the event loop's limit.
    private(set) var bufferedBytes = 0
    var mustSendContinue = false
    /// The task that answers `current`; `nil` if it is answered without one.
    private var task: Task<Void, Never>?
    /// A notice socket was opened, and its device must be admitted.
    var admission: NoticeConnection?
    /// Called when the client closes its side or the connection ends; immediately if that has happened already.
    var onDisconnect: (() -> Void)? { didSet { if inputClosed || isGone { onDisconnect?() } } }
    var served = 0
    /// Whether no further request is accepted on this connection.
    var isClosing = false
    var isQuiescing = false
    var inputClosed = false
    var hasPendingRead = false
    private var isPumping = false
    /// Whether the last bytes have been written.
    private var isFinishing = false
    var isGone = false
    var isRejected = false
    /// Set while unsent bytes wait for the client.
    var stall: Stall? { didSet { if stall == nil { unsentBytes = 0 } } }
    /// Unsent bytes, which count towards the event loop's limit.
    var unsentBytes = 0 { didSet { loop.unsentBytes += unsentBytes - oldValue } }
    /// Whether pieces of an upload wait to be written to disk.
    var intakeIsFull = false
    /// The file being sent as a response's body.
    var sending: FileSending?
    /// Sends responses directly to the socket; `nil` while the channel may have unsent bytes, and after it has closed.
    var direct: DirectSend?

    /// Whether TLS is used, so that files must be read in order to be sent.
    let isSecure: Bool

    init(
        loop: LoopState,
        peer: String,
        decoder: RequestDecoder,
        handler: ByteToMessageHandler<RequestDecoder>,
        isSecure: Bool = false
    ) {
        self.isSecure = isSecure
        self.loop = loop
        self.peer = peer
        self.decoder = decoder
        decoderHandler = handler
        phase = .idle(since: loop.now)
        decoder.cachedRequestHandler = self
    }

    /// Answers only that there are too many connections, once the channel is active.
    func reject() { isRejected = true }

    // MARK: Answers

    /// Passes a request on; the response may arrive before this returns.
    private func respond(to request: APIRequest) {
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        guard let task = loop.services.respond(request, loop.executor, { bound.value.answer($0) }) else { return }
        self.task = task
        loop.began(task, of: self)
        // A notice that arrived after its client had disconnected would be lost.
        if request.isPoll { onDisconnect = { task.cancel() } }
    }

    /// Writes the response to the current request, and continues with the next request.
    private func answer(_ response: APIResponse) {
        if task != nil {
            task = nil
            onDisconnect = nil
            loop.taskEnded(of: self)
        }
        guard let context, let plan = current else { return }
        answer(response, to: plan, on: context)
    }

    private func answer(_ response: APIResponse, to plan: RequestPlan, on context: ChannelHandlerContext) {
        current = nil
        served += 1
        let isLast =
            !plan.keepAlive || isQuiescing || served >= loop.services.limits.requestsPerConnection
            || ((inputClosed || isClosing) && queue.isEmpty)
        let isHead = plan.request.method == .head
        let answer = Answer(
            response: Gzip.encoded(response, for: plan.request),
            persistence: isLast ? .close : plan.isHTTP10 ? .keepAliveHTTP10 : .keepAlive,
            omitsBody: isHead
        )
        if response.isStreamed, !isHead {
            return stream(response, after: bytes(of: answer, context), isLast: isLast, on: context)
        }
        if isLast { return finish(with: bytes(of: answer, context), on: context) }
        send(answer, on: context)
        pump(context)
    }

    // MARK: The queue

    /// Counts a piece of an incoming body; returns whether the event loop's limit allows it.
    func reserve(_ count: Int) -> Bool {
        bufferedBytes += count
        loop.bufferedBytes += count
        return bufferedBytes < Self.alwaysBuffered || loop.bufferedBytes <= loop.services.limits.unfinishedBodies
    }

    /// Bodies below this size are always accepted.
    private static let alwaysBuffered = 16 * 1024

    /// Releases the counted bytes of a body that is complete or abandoned.
    func releaseBody() {
        loop.bufferedBytes -= bufferedBytes
        bufferedBytes = 0
    }

    func refuse(_ refusal: Refusal, _ context: ChannelHandlerContext) {
        guard !isClosing else { return }
        isClosing = true
        let omitsBody = decoder.isHeadRequest || arriving?.request.method == .head
        arriving = nil
        releaseBody()
        decoder.discardInput()
        queue.append(.refusal(refusal, omitsBody: omitsBody))
        pump(context)
    }

    /// Starts the next request in the queue if nothing blocks it, and continues while requests are answered
    /// immediately.
    ///
    /// A loop instead of recursion: a response also triggers the next request, and a long pipeline must not overflow
    /// the stack.
    func pump(_ context: ChannelHandlerContext) {
        guard !isPumping else { return }
        isPumping = true
        defer { isPumping = false }
        while beginNext(context) {}
    }

    /// Returns whether the request has been answered already.
    private func beginNext(_ context: ChannelHandlerContext) -> Bool {
        guard current == nil, sending == nil, !isGone, !isFinishing, context.channel.isWritable else { return false }
        switch queue.popFirst() {
        case .request(let plan):
            phase = .serving
            current = plan
            if queue.isEmpty { releaseRead(context) }
            respond(to: plan.request)
            return current == nil
        case .socket(let plan, let purpose):
            open(purpose, for: plan, context)
        case .refusal(let refusal, let omitsBody):
            finish(with: bytes(of: refusal, omitsBody: omitsBody, context), on: context)
        case nil:
            if isQuiescing || inputClosed || isClosing {
                leave(context)
                return false
            }
            if case .serving = phase { phase = nextPhase }
            sendContinueIfNeeded(context)
            releaseRead(context)
        }
        return false
    }

    /// The phase after all complete requests have been answered: the next request may have begun to arrive.
    private var nextPhase: Phase {
        let now = loop.coarseNow
        if arriving != nil { return .body(since: now, lastPiece: now) }
        return decoder.isInsideHead ? .head(since: now) : .idle(since: now)
    }

    // MARK: Reading and writing

    func read(context: ChannelHandlerContext) {
        if case .upgraded = phase { return context.read() }
        let isFull = !queue.isEmpty || intakeIsFull || !context.channel.isWritable
        if isFull, !isLingering { hasPendingRead = true } else { context.read() }
    }

    func releaseRead(_ context: ChannelHandlerContext) {
        guard hasPendingRead else { return }
        hasPendingRead = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if case .upgraded = phase { return context.fireChannelWritabilityChanged() }
        if context.channel.isWritable {
            if !isFinishing, sending == nil { stall = nil }
            pump(context)
        } else {
            stall = Stall(since: loop.now)
            unsentBytes = unsent(context)
            loop.makeRoom()
        }
    }

    var isLingering: Bool {
        if case .lingering = phase { true } else { false }
    }

    /// Writes the last bytes of this connection; closes it once they are sent and the client has closed its side.
    func finish(with buffer: ByteBuffer, on context: ChannelHandlerContext) {
        isClosing = true
        isFinishing = true
        decoder.discardInput()
        queue.removeAll()
        phase = .serving
        // Set even for few bytes, although the channel would accept more.
        if stall == nil { stall = Stall(since: loop.now) }
        let written = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in bound.value.lastBytesWritten() }
        context.writeAndFlush(wrapOutboundOut(buffer), promise: written)
    }

    private func lastBytesWritten() {
        guard let context, !isGone else { return }
        stall = nil
        guard !inputClosed else { return close(context) }
        phase = .lingering(since: loop.now)
        context.close(mode: .output, promise: nil)
        releaseRead(context)
    }

    func close(_ context: ChannelHandlerContext) {
        isClosing = true
        sending = nil
        context.close(promise: nil)
    }

    func connectionEnded() {
        isGone = true
        onDisconnect?()
    }
}

extension Optional {
    /// Returns the value and leaves `nil`, so that the value can be modified in place.
    fileprivate mutating func take() -> Wrapped? {
        defer { self = nil }
        return self
    }
}

/// Reading of requests: assembles heads and bodies and adds complete requests to the queue.
extension HTTPConnectionHandler {
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
            var plan = try loop.services.rules.plan(head, peer: peer)
            try prepareBody(&plan)
            if plan.request.intake != nil { HTTPConnectionServer.useLargeReadBuffers(context.channel) }
            decoder.headEnded(plan)
            arriving = plan
            mustSendContinue = plan.expectsContinue
            sendContinueIfNeeded(context)
        } catch {
            refuse(error, context)
        }
    }

    /// Reserves memory for a body, or finds a handler that processes it piece by piece.
    private func prepareBody(_ plan: inout RequestPlan) throws(Refusal) {
        if plan.bodyLength != 0, loop.services.rules.isUpload(plan.request.path) {
            plan.request.intake = loop.services.intake(plan.request)
        }
        guard plan.request.intake == nil, let length = plan.bodyLength, length > 0 else { return }
        guard length <= loop.services.limits.body else { throw .bodyTooLarge }
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
        case .proceed: break
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
            mustSendContinue = false
            return pass(piece, to: intake, context)
        }
        // Moved out and back, so that the bytes are appended in place.
        guard var plan = arriving.take() else { return }
        plan.request.body.append(contentsOf: piece)
        mustSendContinue = false
        if plan.request.body.count > loop.services.limits.body { return refuse(.bodyTooLarge, context) }
        guard reserve(piece.count) else { return refuse(.tooManyBodies, context) }
        arriving = plan
    }

    private func requestArrived(_ context: ChannelHandlerContext) {
        decoder.requestEnded()
        mustSendContinue = false
        releaseBody()
        guard let plan = arriving.take() else { return }
        if plan.request.intake != nil { try? HTTPConnectionServer.useSmallReadBuffers(context.channel) }
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
        guard !isClosing, bodyLength <= loop.services.limits.body else { return false }
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
    func sendContinueIfNeeded(_ context: ChannelHandlerContext) {
        guard mustSendContinue, current == nil, queue.isEmpty else { return }
        mustSendContinue = false
        direct = nil
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")), promise: nil)
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

        /// Passes the bytes that follow the head to `body`.
        func withSentBody<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
            guard !omitsBody, ResponseBytes.hasBody(response) else {
                return body(UnsafeRawBufferPointer(start: nil, count: 0))
            }
            return response.withBody(body)
        }
    }

    /// Writes a complete response on a connection that stays open.
    ///
    /// Head and body are passed to the system from their own memory in one call. The way through the channel copies
    /// both, and for a small response takes 50 % longer than the call itself.
    func send(_ answer: Answer, on context: ChannelHandlerContext) {
        if direct == nil, !isSecure { direct = DirectSend(context) }
        guard let direct else {
            context.writeAndFlush(wrapOutboundOut(bytes(of: answer, context)), promise: nil)
            return
        }
        loop.headBytes.clear()
        ResponseBytes.writeHead(
            answer.response,
            persistence: answer.persistence,
            date: loop.dateText,
            into: &loop.headBytes
        )
        let rest = loop.headBytes.withUnsafeReadableBytes { head in
            answer.withSentBody { body in unsent(head, body, after: direct.send(head, then: body)) }
        }
        guard let rest else { return }
        self.direct = nil
        context.writeAndFlush(wrapOutboundOut(rest), promise: nil)
    }

    /// Returns the bytes that the system has not accepted; `nil` if it accepted all.
    private func unsent(
        _ head: UnsafeRawBufferPointer,
        _ body: UnsafeRawBufferPointer,
        after taken: Int
    ) -> ByteBuffer? {
        let left = head.count + body.count - taken
        guard left > 0 else { return nil }
        var rest = ByteBuffer()
        rest.reserveCapacity(left)
        rest.writeBytes(head.dropFirst(taken))
        rest.writeBytes(body.dropFirst(max(0, taken - head.count)))
        return rest
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
extension HTTPConnectionHandler {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        loop.remove(self)
        releaseBody()
        stall = nil
        direct = nil
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        if isRejected { refuse(.tooManyConnections, context) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        isClosing = true
        // The descriptor may be reused by another connection.
        direct = nil
        loop.remove(self)
        admission = nil
        connectionEnded()
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
            releaseBody()
            decoder.discardInput()
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
            onDisconnect?()
            if isLingering { close(context) } else if isIdle, !isClosing { leave(context) }
        case is ChannelShouldQuiesceEvent:
            isQuiescing = true
            if isIdle, arriving == nil, !isClosing { leave(context) }
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }
}

extension HTTPConnectionHandler: SweptConnection {
    func sweep(_ now: NIODeadline) {
        guard let context else { return }
        let limits = loop.services.limits
        if let since = stalledSince(now, context), now - since > limits.writeStall { return abort() }
        switch phase {
        case .idle(let since):
            if now - since > (served == 0 ? limits.headTime : limits.keepAlive) { close(context) }
        case .head(let since):
            if now - since > limits.headTime { timeOut(context) }
        case .body(let since, let lastPiece):
            if now - since > bodyTime(limits) || now - lastPiece > limits.bodyGap { timeOut(context) }
        case .lingering(let since):
            if now - since > limits.linger { abort() }
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
        if isClosing { abort() } else { refuse(.timeout, context) }
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

    func abort() {
        unsentBytes = 0
        context?.close(promise: nil)
    }

    var unsentSince: NIODeadline? { unsentBytes > 0 ? stall?.start : nil }
}
