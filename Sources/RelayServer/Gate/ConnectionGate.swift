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
/// Stands behind the request decoder and before nothing. Confined to its loop. While one request is being answered the next
/// is read, and while that waits nothing is: so what a client may pile up in a pipeline is bounded by one request, and one
/// that sends no pipeline is answered without its socket's leaving the loop's set of readable ones.
final class ConnectionGate: ChannelDuplexHandler, RemovableChannelHandler, RecurringRequestTaker {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// What the sweep measures.
    enum Phase {
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
    /// Whole requests, and at most one refusal as the last, that wait for their turn.
    var queue = CircularBuffer<Waiting>(initialCapacity: 2)
    /// The request being answered.
    var current: RequestPlan?
    /// The request whose body is arriving.
    var arriving: RequestPlan?
    /// Bytes of its body so far, as they are counted among all of the loop.
    private(set) var heldBytes = 0
    var owesContinue = false
    /// A request that its task has not taken yet.
    var ready: GateWork?
    /// Whether there is a task for it: an idle connection has none until its first request.
    private(set) var isServed = false
    private var waiter: UnsafeContinuation<Void, Never>?
    /// Called when the peer says that it sends nothing more, or is gone; at once where it has.
    var onDeparture: (() -> Void)? { didSet { if inputClosed || isGone { onDeparture?() } } }
    var served = 0
    /// No further request is taken from this connection.
    var isClosing = false
    var isQuiescing = false
    var inputClosed = false
    var holdsRead = false
    private var isPumping = false
    /// The last bytes are on their way.
    private var isFinishing = false
    var isGone = false
    var isUnwelcome = false
    /// Set while bytes wait for the peer.
    var stall: Stall? { didSet { if stall == nil { unsentBytes = 0 } } }
    /// Bytes that wait for the peer, as they are counted among all of the loop.
    var unsentBytes = 0 { didSet { loop.unsentBytes += unsentBytes - oldValue } }
    /// Pieces of an upload wait to be written to disk.
    var intakeIsFull = false
    /// The file that is being sent as an answer's body.
    var sending: FileSending?
    /// Where answers can go without a way through the channel; `nil` while that may have unsent bytes, and once it is closed.
    var direct: DirectSend?

    /// TLS is below: files have to be read to be sent.
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

    /// Whether the request needs no task: then it has been answered, or will be when its write is on disk.
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

    /// Counts a piece of a body that is arriving; whether there is room for it.
    func hold(_ count: Int) -> Bool {
        heldBytes += count
        loop.heldBytes += count
        return heldBytes < Self.alwaysHeld || loop.heldBytes <= loop.door.limits.unfinishedBodies
    }

    /// Small requests pass however much arrives.
    private static let alwaysHeld = 16 * 1024

    /// The body is whole, or given up.
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

    /// Begins the next request in the queue if nothing is in its way, and the ones after those that are answered at once.
    ///
    /// In a loop of its own: an answer asks for the next request too, and a long pipeline must not make a deep stack.
    func pump(_ context: ChannelHandlerContext) {
        guard !isPumping else { return }
        isPumping = true
        defer { isPumping = false }
        while beginNext(context) {}
    }

    /// Whether it has been answered already.
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

    /// What is measured once all that had come whole is answered: the next request may have begun to arrive.
    private var nextPhase: Phase {
        let now = loop.coarseNow
        if arriving != nil { return .body(since: now, lastPiece: now) }
        return decoder.isInsideHead ? .head(since: now) : .idle(since: now)
    }

    /// Health and readiness: up or not, and nothing more.
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

    /// Writes the last bytes of this connection and closes once they and what the peer still sends are through.
    func finish(with buffer: ByteBuffer, on context: ChannelHandlerContext) {
        isClosing = true
        isFinishing = true
        decoder.dropEverything()
        queue.removeAll()
        phase = .serving
        // However few bytes they are, and so even where the channel would take more.
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
    /// The value, leaving `nil`; so that what it holds can be changed in place.
    fileprivate mutating func take() -> Wrapped? {
        defer { self = nil }
        return self
    }
}
