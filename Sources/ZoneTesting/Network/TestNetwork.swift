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
        var aimed: [AimedFault] = []
        var throttledUntil: TestClock.Instant?
        var notices = NoticeHandling.delivered
        var weather: Weather?
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
    let party: Party
    let device: String
    /// The serial queue on which the device receives events.
    let line: Line
    let state: Mutex<State>
    /// Called with the operation when a request is sent, and again when its response arrives; may end the device.
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
    func laneForSocket() -> TestLane? { state.withLock { $0.relay }?.lane }

    /// Adds a new notice socket; returns `false` if the device is disconnected.
    func adopt(_ socket: TestSocket) -> Bool {
        state.withLock { state in
            if !state.isCut { state.sockets.append(OpenSocket(socket: socket)) }
            return !state.isCut
        }
    }

    func abandon(_ socket: TestSocket) {
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
        // The path of a file is reduced to the operation on it.
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
        if case .unreachable = fault { throw .unreachable("Injected by the test.") }
        guard !isCut else { throw .unreachable("The device went off the network.") }
        var answer = try await deliver(request)
        if case .doubled = fault { answer = try await deliver(request) }
        if case .beforeAnswer(let work) = fault { await asATest(work) }
        try await pass(plan.back)
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

    /// Waits until the clock has moved this far.
    private func pass(_ delay: Duration) async throws(TransportError) {
        guard delay > .zero else { return }
        if party.isCurrent {
            try? await world.clock.sleep(for: delay)
        } else if withUnsafeCurrentTask(body: { $0?.unownedTaskExecutor == nil }) {
            // A task outside the world moves the world's clock itself; a task on another executor cannot.
            await world.advance(by: delay)
        }
        guard !Task.isCancelled else { throw .cancelled }
    }
}
