import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayAPI

/// Work for the task that serves a connection.
enum GateWork {
    case request(APIRequest)
    /// A notice socket was opened: its device must be admitted, after which the task ends.
    case socket(NoticeConnection)
}

/// The HTTP handler of one connection: enforces limits, passes on one request at a time and writes responses in order.
///
/// The last handler of the pipeline, after the request decoder; confined to its event loop. While one request is being
/// answered, the next is read, and while that waits, reading pauses. This bounds the memory of a pipelining client to
/// one request, and without pipelining the socket stays registered for reading.
final class ConnectionGate: ChannelDuplexHandler, RemovableChannelHandler, RecurringRequestTaker {
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
        /// A WebSocket has taken over the connection; the gate passes on buffered data and is removed.
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
    private(set) var heldBytes = 0
    var owesContinue = false
    /// Work that the serving task has not taken yet.
    var ready: GateWork?
    /// Whether the connection has a serving task: an idle connection has none before its first request.
    private(set) var isServed = false
    private var waiter: UnsafeContinuation<Void, Never>?
    /// Called when the client closes its side or the connection ends; immediately if that has happened already.
    var onDeparture: (() -> Void)? { didSet { if inputClosed || isGone { onDeparture?() } } }
    var served = 0
    /// Whether no further request is accepted on this connection.
    var isClosing = false
    var isQuiescing = false
    var inputClosed = false
    var holdsRead = false
    private var isPumping = false
    /// Whether the last bytes have been written.
    private var isFinishing = false
    var isGone = false
    var isUnwelcome = false
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
        decoder.taker = self
    }

    /// Answers only that there are too many connections, once the channel is active.
    func turnAway() { isUnwelcome = true }

    // MARK: The serving task's side

    /// Returns the next work, or `nil` when the connection has ended; runs on the event loop.
    func next() async -> GateWork? {
        if ready == nil, !isGone { await withUnsafeContinuation { waiter = $0 } }
        return ready.take()
    }

    /// Writes the response to the request that `next` returned last, and continues with the next request.
    func answer(_ response: APIResponse) {
        guard let context, let plan = current else { return }
        answer(response, to: plan, on: context)
    }

    /// Returns whether the request needs no task, because it has been answered or will be when its write is durable.
    private func answersDirectly(_ request: APIRequest) -> Bool {
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        return loop.door.answer(request, loop.answers) { bound.value.answer($0) }
    }

    private func answer(_ response: APIResponse, to plan: RequestPlan, on context: ChannelHandlerContext) {
        current = nil
        served += 1
        let isLast =
            !plan.keepAlive || isQuiescing || served >= loop.door.limits.requestsPerConnection
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
    func hold(_ count: Int) -> Bool {
        heldBytes += count
        loop.heldBytes += count
        return heldBytes < Self.alwaysHeld || loop.heldBytes <= loop.door.limits.unfinishedBodies
    }

    /// Bodies below this size are always accepted.
    private static let alwaysHeld = 16 * 1024

    /// Releases the counted bytes of a body that is complete or abandoned.
    func letGoOfBody() {
        loop.heldBytes -= heldBytes
        heldBytes = 0
    }

    func refuse(_ refusal: Refusal, _ context: ChannelHandlerContext) {
        guard !isClosing else { return }
        isClosing = true
        let omitsBody = decoder.isHeadRequest || arriving?.request.method == .head
        arriving = nil
        letGoOfBody()
        decoder.dropEverything()
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
            if let response = ownAnswer(to: plan.request) {
                answer(response, to: plan, on: context)
            } else if !answersDirectly(plan.request) {
                hand(.request(plan.request))
            }
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
            payContinue(context)
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

    /// Answers the health and readiness endpoints.
    ///
    /// See Reliability.md, "Testing".
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

    func hand(_ work: GateWork) {
        ready = work
        guard isServed else {
            guard let channel = context?.channel else { return }
            isServed = true
            return loop.begin(serving: self, on: channel)
        }
        wakeTask()
    }

    // MARK: Reading and writing

    func read(context: ChannelHandlerContext) {
        if case .upgraded = phase { return context.read() }
        let isFull = !queue.isEmpty || intakeIsFull || !context.channel.isWritable
        if isFull, !isLingering { holdsRead = true } else { context.read() }
    }

    func releaseRead(_ context: ChannelHandlerContext) {
        guard holdsRead else { return }
        holdsRead = false
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
        decoder.dropEverything()
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

    func wakeTask() {
        waiter?.resume()
        waiter = nil
    }

    func endServing() {
        isGone = true
        onDeparture?()
        wakeTask()
    }
}

extension Optional {
    /// Returns the value and leaves `nil`, so that the value can be modified in place.
    fileprivate mutating func take() -> Wrapped? {
        defer { self = nil }
        return self
    }
}
