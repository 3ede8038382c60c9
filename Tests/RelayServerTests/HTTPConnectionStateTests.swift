import HTTPTypes
import NIOCore
import RelayAPI
import RelayServer
import Testing

/// The state machine of an HTTP connection, without a socket.
@Suite struct HTTPConnectionStateTests {
    typealias Event = HTTPConnectionState.Event
    typealias Effect = HTTPConnectionState.Effect

    // MARK: Transitions

    /// One line of the table: a way to a state, an event there, and what follows.
    struct Row: Sendable, CustomTestStringConvertible {
        var way: [Event]
        var state: String
        var event: Event
        var next: String
        var effect: String
        var testDescription: String

        init(_ way: [Event], _ state: String, _ event: Event, _ next: String, _ effect: String = "none") {
            (self.way, self.state, self.event, self.next, self.effect) = (way, state, event, next, effect)
            testDescription = "\(state): \(Machine.name(event)) -> \(next), \(effect)"
        }
    }

    private static let partHead: [Event] = [.readComplete(isInsideHead: true)]
    private static let upload: [Event] = [.head(plan("/u", bodyLength: 9)), .readComplete(isInsideHead: false)]
    private static let waiting: [Event] = [.head(plan("/1")), .complete(body: []), .begun(writable)]
    private static let queued: [Event] = waiting + [.head(plan("/2")), .complete(body: [])]
    private static let stalled: [Event] = waiting + [.responded(isStreamed: false), .written(unwritable)]
    private static let streaming: [Event] = waiting + [.responded(isStreamed: true)]
    private static let finishing: [Event] = [.refused(.timeout, isHeadRequest: false)]
    private static let lingering: [Event] = finishing + [.lastBytesWritten]
    private static let opening: [Event] = [.head(plan("/s", purpose: .notices)), .complete(body: [])]

    static let rows: [Row] = [
        Row([], "idle", .readComplete(isInsideHead: false), "idle"),
        Row([], "idle", .readComplete(isInsideHead: true), "head"),
        Row([], "idle", .head(plan("/")), "body"),
        Row([], "idle", .head(plan("/", expectsContinue: true)), "body", "sendContinue"),
        Row([], "idle", .refused(.timeout, isHeadRequest: true), "finishing linger", "refuse without body"),
        Row([], "idle", .inputEnded, "finishing linger", "drain"),
        Row([], "idle", .inputClosed, "finishing close", "drain"),
        Row([], "idle", .stopping, "finishing linger", "drain"),
        Row([], "idle", .closed, "closed", "close"),
        Row([], "idle", .complete(body: []), "idle"),
        Row([], "idle", .responded(isStreamed: false), "idle"),
        Row(partHead, "head", .head(plan("/")), "body"),
        Row(partHead, "head", .stopping, "finishing linger", "drain"),
        Row(partHead, "head", .inputEnded, "finishing linger", "drain"),
        Row(upload, "body", .paused, "body paused"),
        Row(upload + [.paused], "body paused", .resumed, "body", "read"),
        Row(upload, "body", .resumed, "body"),
        Row(upload, "body", .complete(body: [1]), "beginning /u", "begin /u"),
        Row(upload, "body", .inputEnded, "finishing linger", "drain"),
        Row(upload, "body", .refused(.bodyTooLarge, isHeadRequest: false), "finishing linger", "refuse"),
        Row(upload, "body", .stopping, "body last"),
        Row(upload + [.stopping], "body last", .complete(body: []), "beginning /u ended", "begin /u"),
        Row(upload, "body", .head(plan("/2")), "body"),
        Row(waiting, "waiting /1", .head(plan("/2", expectsContinue: true)), "waiting /1 body"),
        Row(waiting, "waiting /1", .responded(isStreamed: false), "answered", "respond"),
        Row(waiting, "waiting /1", .responded(isStreamed: true), "streaming", "respond"),
        Row(waiting, "waiting /1", .refused(.timeout, isHeadRequest: false), "waiting /1 +1 ended", "discardInput"),
        Row(waiting, "waiting /1", .inputEnded, "waiting /1 ended", "discardInput"),
        Row(waiting, "waiting /1", .inputClosed, "waiting /1 closed"),
        Row(waiting, "waiting /1", .stopping, "waiting /1 ended", "discardInput"),
        Row(waiting, "waiting /1", .writable(isInsideHead: false), "waiting /1", "read"),
        Row(
            waiting + [.inputClosed],
            "waiting /1 closed",
            .responded(isStreamed: false),
            "finishing close",
            "respond last"
        ),
        Row(
            waiting + [.inputEnded],
            "waiting /1 ended",
            .responded(isStreamed: false),
            "finishing linger",
            "respond last"
        ),
        Row(
            waiting + [.inputEnded],
            "waiting /1 ended",
            .responded(isStreamed: true),
            "streaming last ended",
            "respond last"
        ),
        Row(queued, "waiting /1 +1", .writable(isInsideHead: false), "waiting /1 +1"),
        Row(
            queued + [.inputClosed],
            "waiting /1 +1 closed",
            .responded(isStreamed: false),
            "answered +1 closed",
            "respond"
        ),
        Row(queued, "waiting /1 +1", .stopping, "waiting /1 ended", "discardInput"),
        Row(
            queued + [.responded(isStreamed: false)],
            "answered +1",
            .written(writable),
            "beginning /2",
            "begin /2 reads"
        ),
        Row(queued + [.responded(isStreamed: false)], "answered +1", .written(unwritable), "stalled +1"),
        Row(waiting + [.responded(isStreamed: false)], "answered", .written(writable), "idle"),
        Row(waiting + [.responded(isStreamed: false)], "answered", .written(insideHead), "head"),
        Row(
            waiting + [.head(plan("/2", expectsContinue: true)), .responded(isStreamed: false)],
            "answered body",
            .written(writable),
            "body",
            "sendContinue"
        ),
        Row(stalled, "stalled", .writable(isInsideHead: false), "idle", "read"),
        Row(stalled, "stalled", .inputClosed, "finishing close", "drain"),
        Row(stalled, "stalled", .inputEnded, "finishing linger", "drain"),
        Row(stalled, "stalled", .stopping, "finishing linger", "drain"),
        Row(streaming, "streaming", .streamed(writable), "idle"),
        Row(streaming, "streaming", .stopping, "streaming last ended", "discardInput"),
        Row(streaming + [.stopping], "streaming last ended", .streamed(writable), "finishing linger", "finish"),
        Row(streaming, "streaming", .closed, "closed", "close"),
        Row(opening, "opening", .socketOpened, "upgraded"),
        Row(opening, "opening", .socketRefused, "finishing linger"),
        Row(opening, "opening", .inputClosed, "closed", "close"),
        Row(opening, "opening", .stopping, "closed", "close"),
        Row(opening + [.stopping], "closed", .socketOpened, "closed"),
        Row(finishing, "finishing linger", .lastBytesWritten, "lingering", "linger"),
        Row(finishing, "finishing linger", .inputClosed, "finishing close"),
        Row(finishing + [.inputClosed], "finishing close", .lastBytesWritten, "closed", "close"),
        Row(finishing, "finishing linger", .head(plan("/")), "finishing linger"),
        Row(lingering, "lingering", .inputClosed, "closed", "close"),
        Row(lingering, "lingering", .stopping, "lingering"),
    ]

    @Test(arguments: rows) func transitionsAreThoseOfTheTable(_ row: Row) {
        var machine = Machine()
        for event in row.way { machine.handle(event) }
        #expect(machine.name == row.state)
        #expect(Machine.name(machine.handle(row.event)) == row.effect)
        #expect(machine.name == row.next)
    }

    @Test func aConnectionOverTheLimitIsRefusedOnceItIsActive() {
        var machine = Machine(isRejected: true)
        #expect(Machine.name(machine.handle(.active)) == "refuse")
        #expect(machine.name == "finishing linger")
    }

    @Test func aResponseThatComesAtOnceIsFollowedByTheNextRequestOnlyAfterTheCall() {
        var machine = Machine()
        for event in [Event.head(Self.plan("/1")), .complete(body: [])] { machine.handle(event) }
        #expect(Machine.name(machine.handle(.responded(isStreamed: false))) == "respond")
        #expect(Machine.name(machine.handle(.written(Self.writable))) == "none")
        #expect(machine.name == "answered at once")
        #expect(Machine.name(machine.handle(.begun(Self.writable))) == "none")
        #expect(machine.name == "idle")
    }

    @Test func theLastResponseIsTheOneThatReachesTheLimit() {
        var machine = Machine()
        machine.limits.requestsPerConnection = 2
        for expected in ["respond", "respond last"] {
            for event in Self.waiting { machine.handle(event) }
            #expect(Machine.name(machine.handle(.responded(isStreamed: false))) == expected)
            machine.handle(.written(Self.writable))
        }
        #expect(machine.name == "finishing linger")
    }

    // MARK: Timeouts

    /// A way to a state, and the time after which it ends.
    struct Timeout: Sendable {
        var way: [Event]
        var seconds: Int64
        var unsentBytes = 0
        var effect: String
    }

    static let timeouts = [
        Timeout(way: [], seconds: 10, effect: "close"),
        Timeout(way: waiting + [.responded(isStreamed: false), .written(writable)], seconds: 60, effect: "close"),
        Timeout(way: partHead, seconds: 10, effect: "refuse"),
        Timeout(way: upload, seconds: 10, effect: "refuse"),
        Timeout(way: lingering, seconds: 2, effect: "abort"),
        Timeout(way: stalled, seconds: 30, unsentBytes: 5, effect: "abort"),
        Timeout(way: streaming, seconds: 30, unsentBytes: 5, effect: "abort"),
        Timeout(way: finishing, seconds: 30, unsentBytes: 5, effect: "abort"),
    ]

    @Test(arguments: timeouts) func statesTimeOut(_ timeout: Timeout) {
        var machine = Machine()
        for event in timeout.way { machine.handle(event) }
        machine.handle(.tick(unsentBytes: timeout.unsentBytes, isHeadRequest: false))
        machine.now = machine.now + .seconds(timeout.seconds)
        #expect(Machine.name(machine.handle(.tick(unsentBytes: timeout.unsentBytes, isHeadRequest: false))) == "none")
        machine.now = machine.now + .nanoseconds(1)
        #expect(
            Machine.name(machine.handle(.tick(unsentBytes: timeout.unsentBytes, isHeadRequest: false)))
                == timeout.effect
        )
    }

    @Test func aClientThatReadsALittleIsNotStalled() {
        var machine = Machine()
        for event in Self.streaming { machine.handle(event) }
        for unsent in stride(from: 100, to: 0, by: -10) {
            machine.now = machine.now + .seconds(20)
            #expect(Machine.name(machine.handle(.tick(unsentBytes: unsent, isHeadRequest: false))) == "none")
        }
    }

    // MARK: Walks

    /// Random events, also impossible ones: requests begin in order and one at a time, and nothing follows the end.
    @Test func randomEventsKeepTheOrder() {
        var generator = SplitMix(seed: 5)
        for _ in 0..<2_000 {
            var machine = Machine()
            machine.limits.requestsPerConnection = Int.random(in: 1...8, using: &generator)
            var (arrived, begun, isAnswering, hasEnded) = (0, 0, false, false)
            for _ in 0..<60 {
                let couldRead = machine.state.mayRead
                let event = Self.randomEvent(number: arrived, using: &generator)
                let isComplete = if case .complete = event { true } else { false }
                if isComplete, let plan = machine.state.arriving, plan.purpose == nil { arrived += 1 }
                let effect = machine.handle(event)
                switch effect {
                case .begin(let plan, _):
                    #expect(plan.request.path == "/\(begun)" && !isAnswering && !hasEnded)
                    begun += 1
                    isAnswering = true
                case .respond(_, let isLast):
                    #expect(isAnswering)
                    isAnswering = false
                    hasEnded = hasEnded || isLast
                case .refuse, .drain, .finish, .close, .abort: hasEnded = true
                default: break
                }
                if machine.state.mayRead, !couldRead, machine.state.acceptsRequests, !isComplete {
                    // What paused reading must have it resumed. A body that is complete was read to its end.
                    let resumed = ["read", "sendContinue", "begin /\(begun - 1) reads"]
                    #expect(resumed.contains(Machine.name(effect)), "\(event)")
                }
                #expect(begun <= arrived)
                if machine.hasEnded { #expect(!machine.state.acceptsRequests) }
            }
        }
    }

    private static func randomEvent(number: Int, using generator: inout SplitMix) -> Event {
        let channel = [writable, unwritable, insideHead].randomElement(using: &generator) ?? writable
        let flag = Bool.random(using: &generator)
        switch Int.random(in: 0..<60, using: &generator) {
        case 0..<12: return .head(plan("/\(number)", expectsContinue: flag))
        case 12..<24: return .complete(body: [])
        case 24..<32: return .begun(channel)
        case 32..<40: return .responded(isStreamed: flag && number % 3 == 0)
        case 40..<46: return .written(channel)
        case 46..<49: return .streamed(channel)
        case 49: return .head(plan("/socket", purpose: .echo))
        case 50: return flag ? .paused : .resumed
        case 51: return .readComplete(isInsideHead: flag)
        case 52: return .progressed
        case 53, 54: return .writable(isInsideHead: flag)
        case 55: return .tick(unsentBytes: 10, isHeadRequest: false)
        case 56: return flag ? .refused(.timeout, isHeadRequest: false) : .lastBytesWritten
        case 57: return flag ? .inputEnded : .inputClosed
        case 58: return flag ? .stopping : .closed
        default: return flag ? .socketOpened : .socketRefused
        }
    }

    // MARK: Values

    private static let writable = channel(isWritable: true)
    private static let unwritable = channel(isWritable: false)
    private static let insideHead = channel(isWritable: true, isInsideHead: true)

    private static func channel(isWritable: Bool, isInsideHead: Bool = false) -> HTTPConnectionState.Channel {
        .init(isWritable: isWritable, isInsideHead: isInsideHead, coarseNow: Machine.start)
    }

    private static func plan(
        _ path: String,
        bodyLength: Int = 0,
        expectsContinue: Bool = false,
        purpose: SocketPurpose? = nil
    ) -> RequestPlan {
        RequestPlan(
            request: APIRequest(method: .post, path: path),
            bodyLength: bodyLength,
            keepAlive: true,
            expectsContinue: expectsContinue,
            requestsUpgrade: purpose != nil,
            isHTTP10: false,
            purpose: purpose,
            isCacheable: false
        )
    }
}

/// A state machine with limits and a clock that the test sets, and names for states, events and effects.
private struct Machine {
    static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    var state: HTTPConnectionState
    var limits = ServerLimits()
    var now = Machine.start

    init(isRejected: Bool = false) { state = HTTPConnectionState(isRejected: isRejected, now: Machine.start) }

    @discardableResult
    mutating func handle(_ event: HTTPConnectionState.Event) -> HTTPConnectionState.Effect {
        state.handle(event, limits: limits, now: now)
    }

    var hasEnded: Bool {
        switch state.state {
        case .finishing, .lingering, .upgraded, .closed: true
        default: false
        }
    }

    var name: String {
        switch state.state {
        case .rejected: "rejected"
        case .idle: "idle"
        case .head: "head"
        case .body(let body, let followers): Self.name(body) + (followers == .allowed ? "" : " last")
        case .answering(let step, let input):
            Self.name(step) + (state.queue.isEmpty ? "" : " +\(state.queue.count)") + Self.name(input)
        case .opening(.closed): "opening closed"
        case .opening: "opening"
        case .finishing(_, let ending): "finishing \(ending)"
        case .lingering: "lingering"
        case .upgraded: "upgraded"
        case .closed: "closed"
        }
    }

    private static func name(_ body: HTTPConnectionState.Body) -> String {
        if case .paused = body.flow { "body paused" } else { "body" }
    }

    private static func name(_ step: HTTPConnectionState.Step) -> String {
        switch step {
        case .beginning(let plan): "beginning \(plan.request.path)"
        case .waiting(let plan): "waiting \(plan.request.path)"
        case .answeredAtOnce: "answered at once"
        case .answered: "answered"
        case .streaming(_, let ending): "streaming" + (ending == nil ? "" : " last")
        case .stalled: "stalled"
        }
    }

    private static func name(_ input: HTTPConnectionState.Input) -> String {
        switch input {
        case .open: ""
        case .body(let body): " " + name(body)
        case .ended: " ended"
        case .closed: " closed"
        }
    }

    static func name(_ event: HTTPConnectionState.Event) -> String {
        "\(event)".split(separator: "(", maxSplits: 1).first.map(String.init) ?? ""
    }

    static func name(_ effect: HTTPConnectionState.Effect) -> String {
        switch effect {
        case .begin(let plan, let reads): "begin \(plan.request.path)" + (reads ? " reads" : "")
        case .respond(_, let isLast): "respond" + (isLast ? " last" : "")
        case .refuse(_, let omitsBody): "refuse" + (omitsBody ? " without body" : "")
        case .open: "open"
        default: "\(effect)"
        }
    }
}
