import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayAPI

/// What a connection asks of the task that serves it.
enum GateWork {
    case request(APIRequest)
    /// A notice socket has been opened: its device is to be let in, and then the task is over.
    case socket(NoticeConnection)
}

/// One connection's HTTP: holds requests to the limits, hands them on one at a time, writes the answers in turn.
///
/// Stands behind the request decoder and before nothing. Confined to its loop. While a request is being answered nothing
/// is read, so what a client may pile up in a pipeline is bounded by one read of the socket.
final class ConnectionGate: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// What the sweep measures.
    private enum Phase {
        /// Nothing of a request has come yet.
        case idle(since: NIODeadline)
        case head(since: NIODeadline)
        case body(since: NIODeadline, lastPiece: NIODeadline)
        case serving
        /// The last answer has gone; what still comes is dropped until the peer closes.
        case lingering(since: NIODeadline)
        /// A socket has the connection; the gate only passes on what it holds and goes.
        case upgraded
    }

    private enum Waiting {
        case request(RequestPlan)
        case socket(RequestPlan, SocketPurpose)
        case refusal(Refusal)
    }

    var slot = -1
    private let loop: LoopState
    private let peer: String
    private let decoder: RequestDecoder
    private let decoderHandler: ByteToMessageHandler<RequestDecoder>
    private var context: ChannelHandlerContext?
    private var phase: Phase
    /// Whole requests, and at most one refusal as the last, that wait for their turn.
    private var queue = CircularBuffer<Waiting>(initialCapacity: 1)
    /// The request being answered.
    private var current: RequestPlan?
    /// The request whose body is arriving.
    private var arriving: RequestPlan?
    private var owesContinue = false
    /// A request that its task has not taken yet.
    private var ready: GateWork?
    private var waiter: UnsafeContinuation<Void, Never>?
    private var served = 0
    /// No further request is taken from this connection.
    private var isClosing = false
    private var isQuiescing = false
    private var inputClosed = false
    private var holdsRead = false
    private var isGone = false
    private var isUnwelcome = false
    private var unwritableSince: NIODeadline?

    init(loop: LoopState, peer: String, decoder: RequestDecoder, handler: ByteToMessageHandler<RequestDecoder>) {
        self.loop = loop
        self.peer = peer
        self.decoder = decoder
        decoderHandler = handler
        phase = .idle(since: .now())
    }

    /// Answers nothing but that there are too many connections, once the channel is up.
    func turnAway() { isUnwelcome = true }

    // MARK: The serving task's side

    /// The next thing to do, or `nil` when the connection is over.
    ///
    /// Runs on the loop.
    func next() async -> GateWork? {
        if ready == nil, !isGone { await withUnsafeContinuation { waiter = $0 } }
        return ready.take()
    }

    /// Writes the answer to the request that `next` gave last, and goes on to the one after it.
    func answer(_ response: APIResponse) {
        guard let context, let plan = current else { return }
        answer(response, to: plan, on: context)
    }

    private func answer(_ response: APIResponse, to plan: RequestPlan, on context: ChannelHandlerContext) {
        current = nil
        served += 1
        let isLast =
            !plan.keepAlive || isQuiescing || served >= loop.door.limits.requestsPerConnection
            || (inputClosed && queue.isEmpty)
        let buffer = ResponseBytes.write(
            response,
            persistence: isLast ? .close : plan.isHTTP10 ? .keepAliveHTTP10 : .keepAlive,
            date: loop.dateText,
            omitsBody: plan.request.method == .head,
            allocator: context.channel.allocator
        )
        if isLast { return finish(with: buffer, on: context) }
        context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
        pump(context)
    }

    // MARK: Requests arriving

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .upgraded = phase { return context.fireChannelRead(data) }
        let part = unwrapInboundIn(data)
        guard !isClosing else { return }
        switch part {
        case .head(let head): headArrived(head, context)
        case .body(let piece): bodyArrived(piece, context)
        case .end: requestArrived(context)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if case .upgraded = phase { return context.fireChannelReadComplete() }
        guard !isClosing, current == nil, queue.isEmpty else { return }
        if arriving != nil {
            let now = NIODeadline.now()
            if case .body(let since, _) = phase {
                phase = .body(since: since, lastPiece: now)
            } else {
                phase = .body(since: now, lastPiece: now)
            }
        } else if decoder.isInsideHead, case .idle = phase {
            phase = .head(since: .now())
        }
    }

    private func headArrived(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        do throws(Refusal) {
            var plan = try loop.door.rules.plan(head, peer: peer)
            if let length = plan.bodyLength, length > 0 { plan.request.body.reserveCapacity(length) }
            decoder.headEnded(bodyLength: plan.bodyLength)
            arriving = plan
            owesContinue = plan.expectsContinue
            payContinue(context)
        } catch {
            refuse(error, context)
        }
    }

    private func bodyArrived(_ piece: ByteBuffer, _ context: ChannelHandlerContext) {
        // Taken out and put back so that the bytes are appended in place.
        guard var plan = arriving.take() else { return }
        plan.request.body.append(contentsOf: piece.readableBytesView)
        owesContinue = false
        if plan.request.body.count > loop.door.limits.body { return refuse(.bodyTooLarge, context) }
        arriving = plan
    }

    private func requestArrived(_ context: ChannelHandlerContext) {
        decoder.requestEnded()
        owesContinue = false
        guard let plan = arriving.take() else { return }
        if let purpose = SocketPurpose.of(path: plan.request.path, testDoor: loop.door.testDoor) {
            // What follows belongs to the socket, or to nobody.
            isClosing = true
            decoder.stop()
            queue.append(.socket(plan, purpose))
        } else {
            queue.append(.request(plan))
        }
        pump(context)
    }

    /// Sends `100 Continue` once the answers before it are out.
    private func payContinue(_ context: ChannelHandlerContext) {
        guard owesContinue, current == nil, queue.isEmpty else { return }
        owesContinue = false
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")), promise: nil)
    }

    private func refuse(_ refusal: Refusal, _ context: ChannelHandlerContext) {
        guard !isClosing else { return }
        isClosing = true
        arriving = nil
        decoder.dropEverything()
        queue.append(.refusal(refusal))
        pump(context)
    }

    /// Begins the next request in the queue if nothing is in its way.
    private func pump(_ context: ChannelHandlerContext) {
        guard current == nil, !isGone else { return }
        guard context.channel.isWritable else { return }
        switch queue.popFirst() {
        case .request(let plan):
            phase = .serving
            current = plan
            if let response = ownAnswer(to: plan.request) { return answer(response, to: plan, on: context) }
            hand(.request(plan.request))
        case .socket(let plan, let purpose):
            open(purpose, for: plan, context)
        case .refusal(let refusal):
            finish(with: bytes(of: refusal, context), on: context)
        case nil:
            if isQuiescing || inputClosed { return close(context) }
            if case .serving = phase { phase = .idle(since: loop.coarseNow) }
            payContinue(context)
            releaseRead(context)
        }
    }

    /// Health and readiness: up or not, and nothing more.
    ///
    /// Reliability reference 6, item 9.
    private func ownAnswer(to request: APIRequest) -> APIResponse? {
        guard request.path == "/healthz" || request.path == "/readyz" else { return nil }
        guard request.method == .get || request.method == .head else {
            return APIResponse(status: .methodNotAllowed, headers: [.allow: "GET, HEAD"])
        }
        let isUp = request.path == "/healthz" || (loop.door.isReady() && !isQuiescing)
        return APIResponse(
            status: isUp ? .ok : .serviceUnavailable,
            headers: [.contentType: "text/plain", .cacheControl: "no-store"],
            body: Array((isUp ? "up\n" : "down\n").utf8)
        )
    }

    private func hand(_ work: GateWork) {
        ready = work
        wakeTask()
    }

    private func bytes(of refusal: Refusal, _ context: ChannelHandlerContext) -> ByteBuffer {
        var headers: HTTPFields = [.contentType: "application/json; charset=UTF-8"]
        if let seconds = refusal.retryAfter { headers[.retryAfter] = String(seconds) }
        if refusal == .methodNotServed { headers[.allow] = "GET, POST, OPTIONS" }
        return ResponseBytes.write(
            APIResponse(
                status: .init(code: refusal.status),
                headers: headers,
                body: Array(refusal.body(requestID: loop.door.requestID()).utf8)
            ),
            persistence: .close,
            date: loop.dateText,
            omitsBody: false,
            allocator: context.channel.allocator
        )
    }

    // MARK: Reading and writing

    func read(context: ChannelHandlerContext) {
        if case .upgraded = phase { return context.read() }
        let isBusy = current != nil || !queue.isEmpty || !context.channel.isWritable
        if isBusy, !isLingering { holdsRead = true } else { context.read() }
    }

    private func releaseRead(_ context: ChannelHandlerContext) {
        guard holdsRead else { return }
        holdsRead = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if case .upgraded = phase { return context.fireChannelWritabilityChanged() }
        if context.channel.isWritable {
            unwritableSince = nil
            pump(context)
        } else {
            unwritableSince = .now()
        }
    }

    private var isLingering: Bool {
        if case .lingering = phase { true } else { false }
    }

    /// Writes the last bytes of this connection and closes once they and what the peer still sends are through.
    private func finish(with buffer: ByteBuffer, on context: ChannelHandlerContext) {
        isClosing = true
        decoder.dropEverything()
        queue.removeAll()
        phase = .serving
        let written = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in bound.value.lastBytesWritten() }
        context.writeAndFlush(wrapOutboundOut(buffer), promise: written)
    }

    private func lastBytesWritten() {
        guard let context, !isGone else { return }
        guard !inputClosed else { return close(context) }
        phase = .lingering(since: .now())
        context.close(mode: .output, promise: nil)
        releaseRead(context)
    }

    private func close(_ context: ChannelHandlerContext) {
        isClosing = true
        context.close(promise: nil)
    }

    // MARK: Sockets

    private func open(_ purpose: SocketPurpose, for plan: RequestPlan, _ context: ChannelHandlerContext) {
        switch Handshake.judge(plan, for: purpose) {
        case .refused(let response):
            refuseSocket(response, plan, context)
        case .accepted where !isWelcome(plan.request, purpose):
            refuseSocket(Handshake.originRefused, plan, context)
        case .accepted(let fields):
            phase = .upgraded
            context.writeAndFlush(wrapOutboundOut(ResponseBytes.switching(fields)), promise: nil)
            giveUp(to: purpose, for: plan.request, context)
        }
    }

    /// Judges a browser's origin; other clients send none.
    private func isWelcome(_ request: APIRequest, _ purpose: SocketPurpose) -> Bool {
        guard let origin = request.headers[.origin] else { return true }
        switch purpose {
        case .notices: return loop.door.notices?.admission.allowsUpgrade(request, origin: origin) ?? false
        case .echo: return Handshake.isOwn(origin: origin, host: request.headers[.hostField] ?? "")
        }
    }

    private func refuseSocket(_ response: APIResponse, _ plan: RequestPlan, _ context: ChannelHandlerContext) {
        let buffer = ResponseBytes.write(
            response,
            persistence: response.status.code == 426 ? .closeUpgradeRequired : .close,
            date: loop.dateText,
            omitsBody: plan.request.method == .head,
            allocator: context.channel.allocator
        )
        finish(with: buffer, on: context)
    }

    /// Puts the socket behind the gate, then takes decoder and gate out; bytes that came early go on to the socket.
    private func giveUp(to purpose: SocketPurpose, for request: APIRequest, _ context: ChannelHandlerContext) {
        let limits = loop.door.limits
        let socket = SocketChannel(
            loop: loop,
            messageLimit: purpose == .echo ? limits.echoMessage : limits.socketMessage
        )
        loop.remove(self)
        let pipeline = context.pipeline.syncOperations
        do {
            try pipeline.addHandler(socket, position: .after(self))
            if purpose == .notices {
                // A slow reader's notices wait where they can still be merged, not in the channel.
                try context.channel.syncOptions?.setOption(
                    .writeBufferWaterMark,
                    value: .init(low: limits.socketBuffer / 2, high: limits.socketBuffer)
                )
            }
        } catch {
            return close(context)
        }
        switch (purpose, loop.lane) {
        case (.notices, let lane?):
            hand(.socket(NoticeRole.make(for: request, on: socket, lane: lane)))
        case (.notices, nil):
            socket.close(code: 1013, reason: "notices are not served here")
            endServing()
        case (.echo, _):
            socket.role = EchoRole(socket: socket, rate: loop.door.socketFrames, uptime: loop.door.uptime)
            endServing()
        }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let boundContext = NIOLoopBound(context, eventLoop: context.eventLoop)
        pipeline.removeHandler(decoderHandler).whenComplete { _ in
            bound.value.holdsRead = false
            boundContext.value.fireChannelReadComplete()
            boundContext.value.pipeline.syncOperations.removeHandler(bound.value, promise: nil)
            boundContext.value.channel.read()
        }
    }

    private func wakeTask() {
        waiter?.resume()
        waiter = nil
    }

    private func endServing() {
        isGone = true
        wakeTask()
    }

    // MARK: Life

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        loop.remove(self)
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        if isUnwelcome { refuse(.tooManyConnections, context) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        isClosing = true
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
            if now - since > limits.bodyTime || now - lastPiece > limits.bodyGap { refuse(.timeout, context) }
        case .lingering(let since):
            if now - since > limits.linger { cut() }
        case .serving, .upgraded:
            break
        }
    }

    func cut() {
        context?.close(promise: nil)
    }
}

extension Optional {
    /// The value, leaving `nil`; so that what it holds can be changed in place.
    fileprivate mutating func take() -> Wrapped? {
        defer { self = nil }
        return self
    }
}
