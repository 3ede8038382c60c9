import Foundation
import Records
import RelayAPI
import Synchronization
package import ZoneKit

/// A device's connection to the relay: function calls, with faults that a test injects.
public final class TestNetwork: Sendable {
    struct State {
        var isCut = false
        var latency = Duration.zero
        var faults: [Fault] = []
        var scheduledFaults: [ScheduledFault] = []
        var throttledUntil: TestClock.Instant?
        var notices = NoticeHandling.delivered
        var faultRates: NetworkFaultRates?
        var operations: [String] = []
        var frames: [String] = []
        var answers: [String: Int] = [:]
        /// `nil` after a crash: suspended tasks of the device retain the network, and must not retain the relay.
        var relay: TestRelay?
        /// The open notice sockets, which belong to their clients.
        var sockets: [OpenSocket] = []
    }

    struct OpenSocket: Sendable { weak var socket: TestSocket? }

    let world: World
    let process: SimulatedProcess
    let device: String
    /// The serial queue on which the device receives events.
    let serialQueue: SerialQueue
    let state: Mutex<State>
    /// Called with the operation when a request is sent, and again when its response arrives; may end the device.
    let onRequest: @Sendable (_ operation: String, _ isAnswered: Bool) -> Void

    init(
        relay: TestRelay,
        process: SimulatedProcess,
        device: String,
        onRequest: @escaping @Sendable (String, Bool) -> Void
    ) {
        self.device = device
        world = relay.world
        state = Mutex(State(relay: relay))
        self.process = process
        self.onRequest = onRequest
        serialQueue = SerialQueue(of: process, on: relay.world.executor)
    }

    /// Disconnects the device: every request fails with `networkUnavailable`, and notice connections are lost.
    public func cut() {
        state.withLock { $0.isCut = true }
        dropSockets()
    }

    /// Reconnects the device.
    public func heal() { state.withLock { $0.isCut = false } }

    /// Whether the device is disconnected.
    public var isCut: Bool { state.withLock { $0.isCut } }

    /// Closes the device's notice connections, as networks sometimes do; the device reconnects by itself.
    public func dropSockets() {
        let sockets = state.withLock { state in
            defer { state.sockets = [] }
            return state.sockets
        }
        sockets.forEach { $0.socket?.cut() }
    }

    /// Called when the device has crashed; it never reaches the relay again.
    func end() {
        cut()
        state.withLock { $0.relay = nil }
    }

    /// The delay of everything in each direction; none by default.
    ///
    /// Requests of engines and mirrors wait until the clock is moved, for example by `settle()`. A request that the
    /// test itself awaits moves the clock.
    public var latency: Duration {
        get { state.withLock { $0.latency } }
        set { state.withLock { $0.latency = max(.zero, newValue) } }
    }

    /// The operations of all requests so far, such as `private/records/modify`, including those that never arrived.
    public var operations: [String] { state.withLock { $0.operations } }

    /// The frames that the relay has sent on the device's notice sockets, as JSON.
    public var frames: [String] { state.withLock { $0.frames } }

    /// Returns the number of responses to requests of a kind.
    package func answerCount(of operation: String) -> Int {
        state.withLock { $0.answers.reduce(0) { $1.key.hasSuffix(operation) ? $0 + $1.value : $0 } }
    }

    /// Clears `operations`.
    public func forgetOperations() { state.withLock { $0.operations = [] } }

    // MARK: Sockets

    /// Returns the event loop for a new notice socket; `nil` if the relay is stopped.
    func workerForSocket() -> TestNoticeWorker? { state.withLock { $0.relay }?.worker }

    /// Adds a new notice socket; returns `false` if the device is disconnected.
    func addSocket(_ socket: TestSocket) -> Bool {
        state.withLock { state in
            if !state.isCut { state.sockets.append(OpenSocket(socket: socket)) }
            return !state.isCut
        }
    }

    func removeSocket(_ socket: TestSocket) {
        state.withLock { $0.sockets.removeAll { $0.socket == nil || $0.socket === socket } }
    }

    /// Returns when something with this delay arrives, without overtaking what was sent before it.
    func arrival(after delay: Duration, notBefore last: inout TestClock.Instant?) -> TestClock.Instant {
        let now = world.clock.now
        let time = max(now.advanced(by: delay), last ?? now)
        last = time
        return time
    }

    /// Calls `arrive` at the given time.
    func carry(until time: TestClock.Instant, _ arrive: @escaping @Sendable () -> Void) {
        guard time > world.clock.now else { return arrive() }
        world.inFlightChanged(1, for: process)
        world.clock.call(at: time) { [world, process] in
            arrive()
            world.inFlightChanged(-1, for: process)
        }
    }
}

extension TestNetwork: RelayTransport {
    package func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        guard !Task.isCancelled else { throw .cancelled }
        let parts = request.path.split(separator: "/")
        // The path of a file is reduced to the operation on it.
        let operation = (parts.first == "asset" ? parts.prefix(3) : parts.dropFirst(4)).joined(separator: "/")
        onRequest(operation, false)
        let plan = state.withLock { $0.plan(operation, at: world.clock.now, &world.random.generator) }
        switch plan.outcome {
        case .offline: throw .offline
        case .answered(let response): return response
        case .carried(let fault): return try await carry(request, operation, plan, fault)
        }
    }

    private func carry(
        _ request: RelayRequest,
        _ operation: String,
        _ plan: RequestPlan,
        _ fault: Fault?
    ) async throws(TransportError) -> RelayResponse {
        world.inFlightChanged(1, for: process)
        defer { world.inFlightChanged(-1, for: process) }
        try await pass(plan.requestDelay)
        if case .meanwhile(let work) = fault { await runTestCode(work) }
        if case .unreachable = fault { throw .unreachable("Injected by the test.") }
        guard !isCut else { throw .unreachable("The device went off the network.") }
        var answer = try await deliver(request)
        if case .doubled = fault { answer = try await deliver(request) }
        if case .beforeAnswer(let work) = fault { await runTestCode(work) }
        try await pass(plan.responseDelay)
        if case .losesAnswer = fault { throw .answerLost("Injected by the test.") }
        guard !isCut else { throw .answerLost("The device went off the network.") }
        if case .answeredInstead(let status, let body) = fault {
            answer = RelayResponse(status: status, body: Array(body.utf8))
        }
        state.withLock { $0.answers[operation, default: 0] += 1 }
        onRequest(operation, true)
        return answer
    }

    /// Runs a test's code that belongs to no request, although it runs in the middle of one.
    private func runTestCode(_ work: @Sendable () async -> Void) async {
        await AccountBinding.$current.withValue(nil) { await work() }
    }

    private func deliver(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        guard let running = state.withLock({ $0.relay })?.running else { throw .unreachable("The relay is stopped.") }
        let changes = request.changesRecords
        if let changes { world.written(toPublic: changes == .public) }
        guard let answer = await running.answer(APIRequest(request)) else { throw .answerLost("The relay has ended.") }
        if let changes { world.written(toPublic: changes == .public) }
        guard !Task.isCancelled else { throw .cancelled }
        return RelayResponse(answer)
    }

    /// Waits until the clock has moved this far.
    private func pass(_ delay: Duration) async throws(TransportError) {
        guard delay > .zero else { return }
        if process.isCurrent {
            try? await world.clock.sleep(for: delay)
        } else if withUnsafeCurrentTask(body: { $0?.unownedTaskExecutor == nil }) {
            // A task outside the world moves the world's clock itself; a task on another executor cannot.
            await world.advance(by: delay)
        }
        guard !Task.isCancelled else { throw .cancelled }
    }
}

extension TestNetwork {
    /// A fault in one request.
    public enum Fault: Sendable {
        /// No fault: for requests before the one that is to fail.
        case passes
        /// The request never reaches the relay.
        case unreachable
        /// The relay executes the request, and the response is lost.
        case losesAnswer
        /// The relay receives the request twice; the device receives the second response.
        case doubled
        /// The request and the response each take this much longer.
        case slow(Duration)
        /// The relay refuses the request for now, with "too many requests". The device may retry after this time.
        case throttled(retryAfter: Duration)
        /// The relay refuses the request for now, as out of service. The device may retry after this time.
        case busy(retryAfter: Duration)
        /// The relay refuses the request: the device's user has to sign in again.
        case signedOut
        /// An intermediary responds, and the relay receives nothing.
        case answered(status: Int, body: String)
        /// The relay executes the request, but an intermediary responds, like a proxy after a timeout.
        case answeredInstead(status: Int, body: String)
        /// Something else happens before the request reaches the relay, such as the removal of a participant or a
        /// restart.
        case meanwhile(@Sendable () async -> Void)
        /// Something else happens after the relay has executed the request, and before the response arrives.
        case beforeAnswer(@Sendable () async -> Void)
    }

    /// How the network handles notices from the relay to the device.
    public enum NoticeHandling: Sendable {
        /// Each notice arrives once, in order.
        case delivered
        /// No notice arrives.
        case dropped
        /// Each notice arrives twice.
        case doubled
        /// Notices overtake each other by up to a second.
        case reordered
    }

    /// A fault for the nth request of one kind.
    struct ScheduledFault {
        var operation: String
        var skips: Int
        var fault: Fault
    }

    /// Makes the next requests fail, with one fault each, in this order.
    public func fail(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// Makes one future request fail.
    ///
    /// - Parameters:
    ///   - number: the number of the request, counted from 1 from now on.
    ///   - operation: count only requests of this kind, such as `records/modify` or `asset/1/download`; by default all.
    ///   - fault: the fault.
    public func fail(request number: Int, of operation: String = "", by fault: Fault) {
        state.withLock {
            $0.scheduledFaults.append(ScheduledFault(operation: operation, skips: number - 1, fault: fault))
        }
    }

    /// Removes all faults that have not occurred yet.
    public func failNothing() {
        state.withLock { state in
            state.faults = []
            state.scheduledFaults = []
            state.throttledUntil = nil
        }
    }

    /// Makes the relay refuse every request of this device for this time, with the remaining time as `retryAfter`.
    public func throttle(for duration: Duration) {
        state.withLock { $0.throttledUntil = world.clock.now.advanced(by: duration) }
    }

    /// How notices are handled; `delivered` by default.
    public var notices: NoticeHandling {
        get { state.withLock { $0.notices } }
        set { state.withLock { $0.notices = newValue } }
    }
}

/// What happens to one request.
struct RequestPlan {
    enum Outcome {
        case offline
        case answered(RelayResponse)
        case carried(TestNetwork.Fault?)
    }

    var outcome: Outcome
    var requestDelay = Duration.zero
    var responseDelay = Duration.zero
}

extension TestNetwork.State {
    /// Plans a request, and removes the fault that applies to it.
    mutating func plan(
        _ operation: String,
        at now: TestClock.Instant,
        _ random: inout some RandomNumberGenerator
    ) -> RequestPlan {
        operations.append(operation)
        if isCut { return RequestPlan(outcome: .offline) }
        if let until = throttledUntil, until > now {
            return RequestPlan(outcome: .answered(.refusal(429, .throttled, retryAfter: now.duration(to: until))))
        }
        var plan = RequestPlan(outcome: .carried(nil), requestDelay: latency, responseDelay: latency)
        if let fault = takeFault(operation) ?? faultRates?.fault(&random) {
            plan.outcome = Self.outcome(of: fault)
            if case .slow(let more) = fault {
                plan.requestDelay += more
                plan.responseDelay += more
            }
        }
        if let faultRates {
            plan.requestDelay += faultRates.delay(&random)
            plan.responseDelay += faultRates.delay(&random)
        }
        return plan
    }

    private static func outcome(of fault: TestNetwork.Fault) -> RequestPlan.Outcome {
        switch fault {
        case .passes, .slow: .carried(nil)
        case .throttled(let wait): .answered(.refusal(429, .throttled, retryAfter: wait))
        case .busy(let wait): .answered(.refusal(503, .tryAgainLater, retryAfter: wait))
        case .signedOut: .answered(.refusal(421, .authenticationRequired, retryAfter: nil))
        case .answered(let status, let body): .answered(RelayResponse(status: status, body: Array(body.utf8)))
        case .unreachable, .losesAnswer, .answeredInstead, .doubled, .meanwhile, .beforeAnswer: .carried(fault)
        }
    }

    private mutating func takeFault(_ operation: String) -> TestNetwork.Fault? {
        var met: TestNetwork.Fault?
        for index in scheduledFaults.indices.reversed() where operation.hasSuffix(scheduledFaults[index].operation) {
            if scheduledFaults[index].skips == 0 {
                met = scheduledFaults.remove(at: index).fault
            } else {
                scheduledFaults[index].skips -= 1
            }
        }
        if let met { return met }
        return faults.isEmpty ? nil : faults.removeFirst()
    }
}

extension RelayResponse {
    /// Creates an error response in the form of the relay's.
    static func refusal(_ status: Int, _ code: ErrorCode, retryAfter: Duration?) -> RelayResponse {
        let wait = retryAfter.map { #","retryAfter":\#(max(0, $0.inSeconds))"# } ?? ""
        let body = #"{"uuid":"test","serverErrorCode":"\#(code.rawValue)","reason":"Injected by the test."\#(wait)}"#
        return RelayResponse(status: status, body: Array(body.utf8))
    }
}

/// How the network carries one frame of a notice socket.
struct FramePlan {
    /// The delay of each copy that arrives.
    var delays: [Duration]
    var isInOrder = true
}

extension TestNetwork {
    /// Returns the delay of a frame.
    func frameDelay() -> Duration {
        state.withLock { $0.latency + ($0.faultRates?.delay(&world.random.generator) ?? .zero) }
    }

    /// Plans the delivery of an event from the relay on a socket.
    func plan(for event: SocketEvent, of socket: TestSocket) -> FramePlan {
        guard case .text(let text) = event else { return FramePlan(delays: [frameDelay()]) }
        state.withLock { $0.frames.append(String(decoding: text, as: UTF8.self)) }
        world.observer?.noticed(text, device: device, socket: ObjectIdentifier(socket))
        let delay = frameDelay()
        // Only notices may be lost: without the relay's hello nothing would follow.
        guard text.starts(with: Self.noticeMark) else { return FramePlan(delays: [delay]) }
        let handling = state.withLock { state in
            state.faultRates?.notices(&world.random.generator) ?? state.notices
        }
        switch handling {
        case .delivered: return FramePlan(delays: [delay])
        case .dropped: return FramePlan(delays: [])
        case .doubled: return FramePlan(delays: [delay, delay])
        case .reordered:
            let more = Duration.milliseconds(Int64.random(in: 0...1000, using: &world.random.generator))
            return FramePlan(delays: [delay + more], isInOrder: false)
        }
    }

    private static let noticeMark = Array(#"{"notice""#.utf8)
}

/// A network with random faults: the probability of each, between 0 and 1.
package struct NetworkFaultRates: Sendable {
    package var losesRequest = 0.0
    /// The response is lost, or replaced by that of a proxy.
    package var losesAnswer = 0.0
    package var doubles = 0.0
    package var throttles = 0.0
    package var isBusy = 0.0
    package var dropsNotice = 0.0
    package var doublesNotice = 0.0
    package var reordersNotice = 0.0
    /// The range of the delay in each direction, in milliseconds, uniformly distributed.
    package var delays: ClosedRange<Int64> = 0...0

    package init() {}

    func fault(_ random: inout some RandomNumberGenerator) -> TestNetwork.Fault? {
        var draw = Double.random(in: 0..<1, using: &random)
        let wait = Duration.milliseconds(Int64.random(in: 0...20_000, using: &random))
        let proxys = TestNetwork.Fault.answeredInstead(status: 504, body: "<html>")
        let loss = Bool.random(using: &random) ? .losesAnswer : proxys
        let faults: [(Double, TestNetwork.Fault)] = [
            (losesRequest, .unreachable), (losesAnswer, loss), (doubles, .doubled),
            (throttles, .throttled(retryAfter: wait)), (isBusy, .busy(retryAfter: wait)),
        ]
        for (chance, fault) in faults {
            if draw < chance { return fault }
            draw -= chance
        }
        return nil
    }

    func notices(_ random: inout some RandomNumberGenerator) -> TestNetwork.NoticeHandling {
        var draw = Double.random(in: 0..<1, using: &random)
        let faults: [(Double, TestNetwork.NoticeHandling)] = [
            (dropsNotice, .dropped), (doublesNotice, .doubled), (reordersNotice, .reordered),
        ]
        for (chance, handling) in faults {
            if draw < chance { return handling }
            draw -= chance
        }
        return .delivered
    }

    /// Draws a delay.
    func delay(_ random: inout some RandomNumberGenerator) -> Duration {
        .milliseconds(Int64.random(in: delays, using: &random))
    }
}

extension TestNetwork {
    /// The random faults of this network; `nil` for only those that the test injects.
    package var faultRates: NetworkFaultRates? {
        get { state.withLock { $0.faultRates } }
        set { state.withLock { $0.faultRates = newValue } }
    }
}
