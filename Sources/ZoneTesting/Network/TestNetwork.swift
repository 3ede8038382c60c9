import Foundation
import Records
import RelayAPI
import Synchronization
package import ZoneKit

/// A device's way to the relay: a function call, with the faults that a test asks for.
public final class TestNetwork: Sendable {
    struct State {
        var isCut = false
        var latency = Duration.zero
        var faults: [Fault] = []
        var aimed: [AimedFault] = []
        var throttledUntil: TestClock.Instant?
        var notices = NoticeHandling.delivered
        var weather: Weather?
        var operations: [String] = []
        var frames: [String] = []
        var answers: [String: Int] = [:]
        /// `nil` once the device has crashed: what is left of its tasks holds the network, and must not hold the relay.
        var relay: TestRelay?
        /// The notice sockets that are open, which belong to those who listen.
        var sockets: [OpenSocket] = []
    }

    struct OpenSocket: Sendable { weak var socket: TestSocket? }

    let world: World
    let party: Party
    let device: String
    /// On which the device hears of what happens.
    let line: Line
    let state: Mutex<State>
    /// Told of each request when it leaves and when its answer is there, by name; may end the device.
    let onRequest: @Sendable (_ operation: String, _ isAnswered: Bool) -> Void

    init(
        relay: TestRelay,
        party: Party,
        device: String,
        onRequest: @escaping @Sendable (String, Bool) -> Void
    ) {
        self.device = device
        world = relay.world
        state = Mutex(State(relay: relay))
        self.party = party
        self.onRequest = onRequest
        line = Line(of: party, on: relay.world.stage)
    }

    /// Takes the device off the network: every request fails with `networkUnavailable`, and notice sockets are gone.
    public func cut() {
        state.withLock { $0.isCut = true }
        dropSockets()
    }

    /// Brings the device back.
    public func heal() { state.withLock { $0.isCut = false } }

    /// Whether the device is off the network.
    public var isCut: Bool { state.withLock { $0.isCut } }

    /// Ends the device's notice connections, as a network does now and then; the device makes new ones by itself.
    public func dropSockets() {
        let sockets = state.withLock { state in
            defer { state.sockets = [] }
            return state.sockets
        }
        sockets.forEach { $0.socket?.cut() }
    }

    /// The device has crashed, and comes to the relay never again.
    func end() {
        cut()
        state.withLock { $0.relay = nil }
    }

    /// How long everything takes, each way; none unless said otherwise.
    ///
    /// Requests of engines and mirrors wait for the clock to be moved, as by `settle()`; one that the test itself waits for
    /// moves the clock.
    public var latency: Duration {
        get { state.withLock { $0.latency } }
        set { state.withLock { $0.latency = max(.zero, newValue) } }
    }

    /// The requests so far, such as `private/records/modify`, those that never arrived included.
    public var operations: [String] { state.withLock { $0.operations } }

    /// What the relay has said over the device's notice sockets, frame by frame, as JSON.
    public var frames: [String] { state.withLock { $0.frames } }

    /// How many answers to requests of a kind have come.
    package func answerCount(of operation: String) -> Int {
        state.withLock { $0.answers.reduce(0) { $1.key.hasSuffix(operation) ? $0 + $1.value : $0 } }
    }

    /// Forgets the requests so far.
    public func forgetOperations() { state.withLock { $0.operations = [] } }

    // MARK: Sockets

    /// Where a new notice socket ends; `nil` where there is nobody.
    func laneForSocket() -> TestLane? { state.withLock { $0.relay }?.lane }

    /// Takes in a new notice socket; false while the device is off the network.
    func adopt(_ socket: TestSocket) -> Bool {
        state.withLock { state in
            if !state.isCut { state.sockets.append(OpenSocket(socket: socket)) }
            return !state.isCut
        }
    }

    func abandon(_ socket: TestSocket) {
        state.withLock { $0.sockets.removeAll { $0.socket == nil || $0.socket === socket } }
    }

    /// When something arrives that takes so long and overtakes nothing before it.
    func arrival(after delay: Duration, notBefore last: inout TestClock.Instant?) -> TestClock.Instant {
        let now = world.clock.now
        let time = max(now.advanced(by: delay), last ?? now)
        last = time
        return time
    }

    /// Hands something over when its time has come.
    func carry(until time: TestClock.Instant, _ arrive: @escaping @Sendable () -> Void) {
        guard time > world.clock.now else { return arrive() }
        world.carries(1, for: party)
        world.clock.call(at: time) { [world, party] in
            arrive()
            world.carries(-1, for: party)
        }
    }
}

extension TestNetwork: RelayTransport {
    package func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        guard !Task.isCancelled else { throw .cancelled }
        let parts = request.path.split(separator: "/")
        // A file's address says no more than what is done with it.
        let operation = (parts.first == "asset" ? parts.prefix(3) : parts.dropFirst(4)).joined(separator: "/")
        onRequest(operation, false)
        let plan = state.withLock { $0.plan(operation, at: world.clock.now, &world.random.generator) }
        switch plan.way {
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
        world.carries(1, for: party)
        defer { world.carries(-1, for: party) }
        try await pass(plan.thither)
        if case .meanwhile(let work) = fault { await asATest(work) }
        if case .unreachable = fault { throw .unreachable("The test said so.") }
        guard !isCut else { throw .unreachable("The device went off the network.") }
        var answer = try await deliver(request)
        if case .doubled = fault { answer = try await deliver(request) }
        if case .beforeAnswer(let work) = fault { await asATest(work) }
        try await pass(plan.back)
        if case .losesAnswer = fault { throw .answerLost("The test said so.") }
        guard !isCut else { throw .answerLost("The device went off the network.") }
        if case .answeredInstead(let status, let body) = fault {
            answer = RelayResponse(status: status, body: Array(body.utf8))
        }
        state.withLock { $0.answers[operation, default: 0] += 1 }
        onRequest(operation, true)
        return answer
    }

    /// What a test does in the middle of a device's request is not done in the name of that request.
    private func asATest(_ work: @Sendable () async -> Void) async {
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

    /// Lets so much of the clock's time pass.
    private func pass(_ delay: Duration) async throws(TransportError) {
        guard delay > .zero else { return }
        if party.isCurrent {
            try? await world.clock.sleep(for: delay)
        } else if withUnsafeCurrentTask(body: { $0?.unownedTaskExecutor == nil }) {
            // Whoever waits outside of the world moves its clock; on any other executor there is nobody who could.
            await world.advance(by: delay)
        }
        guard !Task.isCancelled else { throw .cancelled }
    }
}
