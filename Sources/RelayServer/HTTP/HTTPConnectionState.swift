import HTTPTypes
package import NIOCore
import RelayAPI

/// The state machine of one HTTP connection, without channel or clock.
///
/// Decides which request is arriving, which is being answered, what waits, and when the connection ends.
/// `HTTPConnectionHandler` reports the events and performs the effects.
///
///     idle --> head --> body --> answering --> idle ...
///       |        |       |           |
///       +--------+-------+-----------+--> finishing --> lingering --> closed
///                                    +--> opening --> upgraded
///
/// Requests are answered one at a time and in order. While one is answered, the next may arrive; while that waits, reading
/// pauses, which bounds the memory of a pipelining client to one request and what arrived with it.
package struct HTTPConnectionState {
    package enum State {
        /// There are too many connections: the client gets a refusal as soon as the channel is active.
        case rejected
        /// No byte of a request has arrived, and no request waits for its response.
        case idle(since: NIODeadline)
        case head(since: NIODeadline)
        case body(Body, Followers)
        /// A request is being answered, or the client does not read the response; further requests wait in the queue.
        case answering(Step, Input)
        /// A valid handshake may turn the connection into a WebSocket, as soon as its origin is checked.
        case opening(Input)
        /// The last bytes are being sent.
        case finishing(Stall, Ending)
        /// The last bytes were sent; incoming data is discarded until the client closes.
        case lingering(since: NIODeadline)
        /// A WebSocket has taken over the connection; the handler passes on buffered data and is removed.
        case upgraded
        case closed
    }

    /// A request whose body is arriving.
    package struct Body {
        var plan: RequestPlan
        package var flow: Flow
        /// When the head and the latest piece arrived; `nil` until the end of the read that contained the head.
        var times: (head: NIODeadline, piece: NIODeadline)?
    }

    package enum Flow {
        /// The client waits for `100 Continue`, which must follow the responses to earlier requests.
        case awaitsContinue
        case arrives
        /// The disk is slower than the client, so reading pauses.
        case paused
    }

    /// Whether the connection stays open after the request that is arriving.
    package enum Followers { case allowed, none }

    /// What the client sends while a request is answered.
    package enum Input {
        /// Nothing yet, or part of a head.
        case open
        case body(Body)
        /// No request is read any more: one was refused or opens a socket, the relay stops, or the parser has ended.
        case ended
        /// The client has closed its side.
        case closed
    }

    package enum Step {
        /// The request is being passed to the responder, which may answer before that call returns.
        case beginning(RequestPlan)
        case waiting(RequestPlan)
        /// The response has been written, during the call that passed on the request.
        case answeredAtOnce
        /// The response is being written.
        case answered
        /// The response's body is sent piece by piece.
        case streaming(Stall, Ending?)
        /// The next request waits until the client reads.
        case stalled(Stall)
    }

    package enum Waiting {
        case request(RequestPlan)
        case socket(RequestPlan, SocketPurpose)
        case refusal(Refusal, omitsBody: Bool)
    }

    /// How a connection ends after the last bytes.
    package enum Ending {
        /// Waits for the client to close its side: closing at once could reset the connection and lose the last bytes.
        case linger
        /// Closes at once, because the client has closed its side.
        case close
    }

    package enum Event {
        /// The channel is active.
        case active
        /// A head has been parsed and accepted. The body follows, then `complete`.
        case head(RequestPlan)
        /// The disk cannot take more of an upload.
        case paused
        case resumed
        case complete(body: [UInt8])
        /// All bytes of a read have been processed.
        case readComplete(isInsideHead: Bool)
        case refused(Refusal, isHeadRequest: Bool)
        /// The parser reads no more requests.
        case inputEnded
        /// The client has closed its side.
        case inputClosed
        /// The call that passed on the request has returned.
        case begun(Channel)
        /// The response is known. The effect says how to write it; then `written` follows.
        case responded(isStreamed: Bool)
        case written(Channel)
        /// Part of a streamed body has been accepted by the client.
        case progressed
        case streamed(Channel)
        case writable(isInsideHead: Bool)
        case socketOpened
        /// The handshake was refused, with a response that is the last.
        case socketRefused
        case lastBytesWritten
        /// The relay stops.
        case stopping
        /// Time has passed; `unsentBytes` is only used if there is a `stall`.
        case tick(unsentBytes: Int, isHeadRequest: Bool)
        case closed
    }

    /// The channel's state when a response has been written.
    package struct Channel {
        var isWritable: Bool
        /// Whether part of the next head has arrived.
        var isInsideHead: Bool
        /// The time of the latest sweep, which is accurate enough for the timeout of an idle connection, and free.
        var coarseNow: NIODeadline

        package init(isWritable: Bool, isInsideHead: Bool, coarseNow: NIODeadline) {
            self.isWritable = isWritable
            self.isInsideHead = isInsideHead
            self.coarseNow = coarseNow
        }
    }

    package enum Effect {
        case none
        /// Read more from the channel.
        case read
        /// Send `100 Continue`, and read the body.
        case sendContinue
        /// Pass the request to the responder, then report `begun`; `reads`: read the next request meanwhile.
        case begin(RequestPlan, reads: Bool)
        /// Write the response that was reported, then report `written`; if it is the last, nothing is to be reported.
        case respond(RequestPlan, isLast: Bool)
        /// Pass what still arrives to the socket; it opens when the requests before it are answered.
        case stopDecoder
        /// Check the handshake, then report `socketOpened` or `socketRefused`.
        case open(RequestPlan, SocketPurpose)
        /// Discard what still arrives.
        case discardInput
        /// Discard what still arrives, write the refusal as the last response, and report when it is sent.
        case refuse(Refusal, omitsBody: Bool)
        /// Close when everything written has been sent: at once, or after `lastBytesWritten`.
        case drain
        /// Report `lastBytesWritten` when everything written has been sent.
        case finish
        /// Close the client's read side and read on.
        case linger
        case close
        /// Close at once, for a client that does not read.
        case abort
    }

    package private(set) var state: State
    /// Complete requests that wait for their turn, followed by at most one refusal or handshake; empty unless `state` is
    /// `answering`.
    ///
    /// Beside `state`, whose payload could not be changed in place.
    package private(set) var queue = CircularBuffer<Waiting>(initialCapacity: 1)
    /// The number of responses.
    private(set) var served = 0

    package init(isRejected: Bool, now: NIODeadline) { state = isRejected ? .rejected : .idle(since: now) }

    /// Returns the effect of an event; events that a state does not expect have none.
    package mutating func handle(
        _ event: Event,
        limits: ServerLimits,
        now: @autoclosure () -> NIODeadline
    ) -> Effect {
        switch event {
        case .active:
            guard case .rejected = state else { return .none }
            return finish(.refuse(.tooManyConnections, omitsBody: false), now())
        case .head(let plan): return headArrived(plan)
        case .paused: return setFlow(.paused, now)
        case .resumed:
            guard case .paused = flow else { return .none }
            _ = setFlow(.arrives, now)
            return queue.isEmpty ? .read : .none
        case .complete(let body): return requestArrived(body)
        case .readComplete(let isInsideHead): return readCompleted(isInsideHead, now)
        case .refused(let refusal, let isHeadRequest): return refused(refusal, isHeadRequest, now)
        case .inputEnded: return inputEnded(now)
        case .inputClosed: return inputClosed(now)
        case .begun(let channel):
            switch state {
            case .answering(.beginning(let plan), let input):
                state = .answering(.waiting(plan), input)
            case .answering(.answeredAtOnce, _): return next(channel, now)
            default: break
            }
            return .none
        case .responded(let isStreamed): return responded(isStreamed, limits, now)
        case .written(let channel):
            guard case .answering(.answered, _) = state else { return .none }
            return next(channel, now)
        case .progressed:
            if case .answering(.streaming(_, let ending), let input) = state {
                state = .answering(.streaming(Stall(since: now()), ending), input)
            }
            return .none
        case .streamed(let channel):
            guard case .answering(.streaming(_, let ending), _) = state else { return .none }
            guard ending != nil else { return next(channel, now) }
            return finish(.finish, now())
        case .writable(let isInsideHead):
            guard case .answering(.stalled, _) = state else { return mayRead ? .read : .none }
            return next(Channel(isWritable: true, isInsideHead: isInsideHead, coarseNow: now()), now)
        case .socketOpened:
            if case .opening = state { state = .upgraded }
            return .none
        case .socketRefused:
            if case .opening = state { _ = finish(.none, now()) }
            return .none
        case .lastBytesWritten:
            guard case .finishing(_, let ending) = state else { return .none }
            guard case .linger = ending else { return close() }
            state = .lingering(since: now())
            return .linger
        case .stopping: return stop(now)
        case .tick(let unsentBytes, let isHeadRequest): return tick(now(), unsentBytes, isHeadRequest, limits)
        case .closed: return close()
        }
    }

    // MARK: Questions

    /// Whether a further request can be read.
    package var acceptsRequests: Bool {
        switch state {
        case .idle, .head, .body, .answering(_, .open), .answering(_, .body): true
        case .rejected, .answering, .opening, .finishing, .lingering, .upgraded, .closed: false
        }
    }

    /// Whether the handler may read from a writable channel.
    package var mayRead: Bool {
        switch state {
        case .answering(_, let input):
            guard queue.isEmpty else { return false }
            if case .body(let body) = input, case .paused = body.flow { return false }
            return true
        case .body(let body, _): if case .paused = body.flow { return false } else { return true }
        case .opening: return false
        case .rejected, .idle, .head, .finishing, .lingering, .upgraded, .closed: return true
        }
    }

    /// Whether data is read although the client does not read.
    var readsAlways: Bool {
        switch state {
        case .lingering, .upgraded: true
        default: false
        }
    }

    var isUpgraded: Bool { if case .upgraded = state { true } else { false } }
    var isClosed: Bool { if case .closed = state { true } else { false } }

    /// Whether the client has closed its side, or the connection has ended.
    var isClientGone: Bool {
        switch state {
        case .answering(_, .closed), .opening(.closed), .finishing(_, .close), .closed: true
        default: false
        }
    }

    /// Since when the client has not taken all bytes of a response; `nil` if none wait.
    var stall: Stall? {
        switch state {
        case .answering(.streaming(let stall, _), _), .answering(.stalled(let stall), _),
            .finishing(let stall, _):
            stall
        default: nil
        }
    }

    /// The request whose body is arriving.
    package var arriving: RequestPlan? { body?.plan }

    private var body: Body? {
        switch state {
        case .body(let body, _), .answering(_, .body(let body)): body
        default: nil
        }
    }

    private var flow: Flow? { body?.flow }

    // MARK: Requests

    private mutating func headArrived(_ plan: RequestPlan) -> Effect {
        var body = Body(plan: plan, flow: plan.expectsContinue ? .awaitsContinue : .arrives)
        switch state {
        case .idle, .head:
            guard plan.expectsContinue else {
                state = .body(body, .allowed)
                return .none
            }
            body.flow = .arrives
            state = .body(body, .allowed)
            return .sendContinue
        case .answering(let step, .open): state = .answering(step, .body(body))
        default: break
        }
        return .none
    }

    private mutating func setFlow(_ flow: Flow, _ now: () -> NIODeadline) -> Effect {
        switch state {
        case .body(var body, let followers):
            // The relay paused, not the client, so the time between pieces starts again.
            if case .paused = body.flow, let times = body.times { body.times = (times.head, now()) }
            body.flow = flow
            state = .body(body, followers)
        case .answering(let step, .body(var body)):
            body.flow = flow
            state = .answering(step, .body(body))
        default: break
        }
        return .none
    }

    private mutating func requestArrived(_ bytes: [UInt8]) -> Effect {
        switch state {
        case .body(var body, let followers):
            body.plan.request.body = bytes
            guard let purpose = body.plan.purpose else {
                let input: Input = if case .allowed = followers { .open } else { .ended }
                state = .answering(.beginning(body.plan), input)
                return .begin(body.plan, reads: false)
            }
            state = .opening(.ended)
            return .open(body.plan, purpose)
        case .answering(let step, .body(var body)):
            body.plan.request.body = bytes
            guard let purpose = body.plan.purpose else {
                queue.append(.request(body.plan))
                state = .answering(step, .open)
                return .none
            }
            queue.append(.socket(body.plan, purpose))
            state = .answering(step, .ended)
            return .stopDecoder
        default: return .none
        }
    }

    private mutating func readCompleted(_ isInsideHead: Bool, _ now: () -> NIODeadline) -> Effect {
        switch state {
        case .idle where isInsideHead: state = .head(since: now())
        case .body(var body, let followers):
            let now = now()
            body.times = (body.times?.head ?? now, now)
            state = .body(body, followers)
        default: break
        }
        return .none
    }

    private mutating func refused(
        _ refusal: Refusal,
        _ isHeadRequest: Bool,
        _ now: () -> NIODeadline
    ) -> Effect {
        let omitsBody = isHeadRequest || arriving?.request.method == .head
        switch state {
        case .idle, .head, .body: return finish(.refuse(refusal, omitsBody: omitsBody), now())
        case .answering(let step, .open), .answering(let step, .body):
            queue.append(.refusal(refusal, omitsBody: omitsBody))
            state = .answering(step, .ended)
            return .discardInput
        default: return .none
        }
    }

    // MARK: Responses

    private mutating func responded(
        _ isStreamed: Bool,
        _ limits: ServerLimits,
        _ now: () -> NIODeadline
    ) -> Effect {
        let plan: RequestPlan
        let written: Step
        guard case .answering(let step, let input) = state else { return .none }
        switch step {
        case .beginning(let request): (plan, written) = (request, .answeredAtOnce)
        case .waiting(let request): (plan, written) = (request, .answered)
        case .answeredAtOnce, .answered, .streaming, .stalled: return .none
        }
        served += 1
        var isLast = !plan.keepAlive || served >= limits.requestsPerConnection
        switch input {
        case .ended, .closed: isLast = isLast || queue.isEmpty
        case .open, .body: break
        }
        if isStreamed, plan.request.method != .head {
            let ending: Ending? = isLast ? .linger : nil
            if isLast { queue.removeAll() }
            let followers: Input = isLast && !isClientGone ? .ended : input
            state = .answering(.streaming(Stall(since: now()), ending), followers)
        } else if isLast {
            _ = finish(.none, now())
        } else {
            state = .answering(written, input)
        }
        return .respond(plan, isLast: isLast)
    }

    /// Begins the next request of the queue, or waits for one.
    private mutating func next(_ channel: Channel, _ now: () -> NIODeadline) -> Effect {
        guard case .answering(let step, let input) = state else { return .none }
        guard channel.isWritable else {
            state = .answering(.stalled(Stall(since: now())), input)
            return .none
        }
        switch queue.popFirst() {
        case .request(let plan):
            let reads = queue.isEmpty
            state = .answering(.beginning(plan), input)
            return .begin(plan, reads: reads)
        case .socket(let plan, let purpose):
            state = .opening(input)
            return .open(plan, purpose)
        case .refusal(let refusal, let omitsBody): return finish(.refuse(refusal, omitsBody: omitsBody), now())
        case nil: break
        }
        // Reading has paused only if the client did not read.
        let read: Effect = if case .stalled = step { .read } else { .none }
        switch input {
        case .ended, .closed: return finish(.drain, now())
        case .open:
            state = channel.isInsideHead ? .head(since: channel.coarseNow) : .idle(since: channel.coarseNow)
            return read
        case .body(var body):
            body.times = (channel.coarseNow, channel.coarseNow)
            guard case .awaitsContinue = body.flow else {
                state = .body(body, .allowed)
                return read
            }
            body.flow = .arrives
            state = .body(body, .allowed)
            return .sendContinue
        }
    }

    // MARK: The end

    private mutating func finish(_ effect: Effect, _ now: NIODeadline) -> Effect {
        // The stall begins even for few bytes, although the channel would accept more.
        state = .finishing(stall ?? Stall(since: now), isClientGone ? .close : .linger)
        if !queue.isEmpty { queue.removeAll() }
        return effect
    }

    private mutating func close() -> Effect {
        state = .closed
        if !queue.isEmpty { queue.removeAll() }
        return .close
    }

    private mutating func inputEnded(_ now: () -> NIODeadline) -> Effect {
        switch state {
        case .idle, .head, .body: return finish(.drain, now())
        case .answering(let step, .open), .answering(let step, .body):
            state = .answering(step, .ended)
            guard case .stalled = step, queue.isEmpty else { return .discardInput }
            return finish(.drain, now())
        default: return .none
        }
    }

    private mutating func inputClosed(_ now: () -> NIODeadline) -> Effect {
        switch state {
        case .idle, .head, .body:
            state = .finishing(Stall(since: now()), .close)
            return .drain
        case .answering(let step, _):
            state = .answering(step, .closed)
            guard case .stalled = step, queue.isEmpty else { return .none }
            return finish(.drain, now())
        case .opening: return close()
        case .finishing(let stall, _):
            state = .finishing(stall, .close)
        case .lingering: return close()
        case .rejected, .upgraded, .closed: break
        }
        return .none
    }

    private mutating func stop(_ now: () -> NIODeadline) -> Effect {
        switch state {
        case .idle, .head: return finish(.drain, now())
        case .body(let body, _): state = .body(body, .none)
        case .answering(.stalled, _): return finish(.drain, now())
        case .answering(.streaming(let stall, _), let input):
            queue.removeAll()
            state = .answering(.streaming(stall, .linger), isClientGone ? input : .ended)
            return .discardInput
        case .answering(let step, let input):
            // The client has to send the requests again that wait for this one.
            queue.removeAll()
            state = .answering(step, isClientGone ? input : .ended)
            return .discardInput
        case .opening: return close()
        case .rejected, .finishing, .lingering, .upgraded, .closed: break
        }
        return .none
    }

    private mutating func tick(
        _ now: NIODeadline,
        _ unsentBytes: Int,
        _ isHeadRequest: Bool,
        _ limits: ServerLimits
    ) -> Effect {
        if isStalled(now, unsentBytes, limits) { return .abort }
        switch state {
        case .idle(let since): return now - since > (served == 0 ? limits.headTime : limits.keepAlive) ? close() : .none
        case .head(let since):
            return now - since > limits.headTime ? refused(.timeout, isHeadRequest, { now }) : .none
        case .body(let body, _):
            guard let times = body.times,
                now - times.head > Self.time(for: body.plan, limits) || now - times.piece > limits.bodyGap
            else { return .none }
            return refused(.timeout, isHeadRequest, { now })
        case .lingering(let since): return now - since > limits.linger ? .abort : .none
        case .rejected, .answering, .opening, .finishing, .upgraded, .closed: return .none
        }
    }

    /// Notes how much the client has not taken; returns whether it has taken nothing for too long.
    private mutating func isStalled(_ now: NIODeadline, _ unsentBytes: Int, _ limits: ServerLimits) -> Bool {
        guard var stall else { return false }
        stall.look(now, unsent: unsentBytes)
        switch state {
        case .answering(.streaming(_, let ending), let input):
            state = .answering(.streaming(stall, ending), input)
        case .answering(.stalled, let input): state = .answering(.stalled(stall), input)
        case .finishing(_, let ending): state = .finishing(stall, ending)
        default: break
        }
        return now - stall.since > limits.writeStall
    }

    /// The timeout of a body; longer for an upload, according to its size, or the maximum size if it is unknown.
    private static func time(for plan: RequestPlan, _ limits: ServerLimits) -> TimeAmount {
        guard plan.isUpload else { return limits.bodyTime }
        let bytes = plan.bodyLength ?? limits.upload
        return limits.bodyTime + .seconds(Int64(bytes / max(1, limits.uploadPace)))
    }
}

/// How long a client has accepted no data.
///
/// A client that accepts a little of a large response now and then is slow, not stalled.
package struct Stall {
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
