import HTTPTypes
import RelayAPI
import Synchronization
package import ZoneKit

/// Creates a device's notice sockets, which connect to the test relay directly.
package struct TestSockets: SocketConnector {
    let network: TestNetwork

    package func connect(
        to address: SocketAddress,
        subprotocol: String,
        deliver: @escaping @Sendable (SocketEvent) -> Void
    ) -> any Socket {
        let socket = TestSocket(network, deliver)
        socket.connect(APIRequest(method: .get, path: address.path))
        return socket
    }
}

/// The client's end of a notice socket without a network; delivers events on its device's serial queue.
final class TestSocket: Socket {
    private struct State {
        var deliver: (@Sendable (SocketEvent) -> Void)?
        var end: TestSocketEnd?
        /// When the last frame in each direction arrives: no frame overtakes another.
        var lastArrival: TestClock.Instant?
        var lastDeparture: TestClock.Instant?
    }

    private let network: TestNetwork
    private let state: Mutex<State>

    init(_ network: TestNetwork, _ deliver: @escaping @Sendable (SocketEvent) -> Void) {
        self.network = network
        state = Mutex(State(deliver: deliver))
    }

    /// The client has gone without closing the socket.
    deinit {
        if let end = state.withLock({ $0.end }) { end.worker.run { end.finish() } }
    }

    func connect(_ request: APIRequest) {
        guard let worker = network.workerForSocket(), network.addSocket(self) else {
            return deliverToClient(.closed(code: nil))
        }
        let end = TestSocketEnd(worker: worker, client: self)
        state.withLock { $0.end = end }
        worker.open(request, end)
    }

    // MARK: Calls by the client

    func send(text: [UInt8]) { atRelay { $0.received(text) } }
    func ping() { atRelay { $0.pinged() } }

    func drop() {
        state.withLock { $0.deliver = nil }
        // The relay may end before it receives this.
        ended()
        atRelay { $0.finish() }
        network.removeSocket(self)
    }

    private func atRelay(_ call: @escaping @Sendable (TestSocketEnd) -> Void) {
        let delay = network.frameDelay()
        let (end, time) = state.withLock { state in
            (state.end, network.arrival(after: delay, notBefore: &state.lastDeparture))
        }
        guard let end else { return }
        network.carry(until: time) { end.worker.run { call(end) } }
    }

    // MARK: Events from the relay

    /// Delivers a frame, or the end of the connection, to the client.
    func take(_ event: SocketEvent) {
        let plan = network.plan(for: event, of: self)
        for delay in plan.delays {
            if plan.isInOrder {
                let time = state.withLock { network.arrival(after: delay, notBefore: &$0.lastArrival) }
                network.carry(until: time) { [weak self] in self?.deliverToClient(event) }
            } else {
                let time = network.world.clock.now.advanced(by: delay)
                network.carry(until: time) { [weak self] in self?.deliverToClient(event) }
            }
        }
    }

    /// Ends the connection without a message to either side.
    func cut() {
        let end = state.withLock { $0.end }
        ended()
        if let end { end.worker.run { end.finish() } }
        deliverToClient(.closed(code: nil))
    }

    /// Reports that nothing more will arrive from the relay.
    func ended() { network.world.observer?.ended(socket: ObjectIdentifier(self), device: network.device) }

    private func deliverToClient(_ event: SocketEvent) {
        network.serialQueue.run {
            let deliver = self.state.withLock { state in
                defer {
                    if event.isLast { state.deliver = nil }
                }
                return state.deliver
            }
            if event.isLast { self.network.removeSocket(self) }
            deliver?(event)
        }
    }
}

extension SocketEvent {
    var isLast: Bool {
        switch self {
        case .closed, .refused: true
        case .opened, .text, .pong: false
        }
    }
}

/// The relay's end of a `TestSocket`.
final class TestSocketEnd: NoticeTransport, @unchecked Sendable {
    // Unchecked: every call except `init` is made on the worker.

    let worker: TestNoticeWorker
    /// Weak: the socket belongs to the device, and through its network it retains the relay.
    private weak let client: TestSocket?
    private var connection: NoticeConnection?
    private var isOver = false

    init(worker: TestNoticeWorker, client: TestSocket) {
        self.worker = worker
        self.client = client
    }

    func opened(_ connection: NoticeConnection) {
        guard !isOver else {
            // The client has dropped the connection before it was open.
            connection.closed()
            return
        }
        self.connection = connection
        client?.take(.opened)
    }

    func received(_ text: [UInt8]) { connection?.handle(.received(text: text)) }
    func pinged() { connection?.handle(.receivedPing(payload: [])) }
    func tick() { connection?.tick() }
    func end(_ reason: NoticeClose) { connection?.end(reason) }

    func finish() {
        isOver = true
        client?.ended()
        let connection = connection
        self.connection = nil
        connection?.closed()
        worker.forget(self)
    }

    // MARK: NoticeOutlet

    func send(_ frame: NoticeFrame) { client?.take(.text(frame.text)) }

    /// The client library answers pings itself, and without delay.
    func sendPing() { worker.run { self.connection?.handle(.receivedPong) } }

    func sendPong(_ payload: [UInt8]) { client?.take(.pong) }

    func close(_ reason: NoticeClose) {
        // Not at once: the connection is just calling this.
        worker.run { self.finish() }
        client?.take(.closed(code: reason.code))
    }
}
