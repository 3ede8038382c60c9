import HTTPTypes
import RelayAPI
package import ZoneKit

/// Makes notice sockets of a device that end in the test relay itself.
package struct TestSockets: SocketConnector {
    let network: TestNetwork

    package func connect(
        to address: SocketAddress,
        subprotocol: String,
        deliver: @escaping @Sendable (SocketEvent) -> Void
    ) -> any Socket {
        TestSocket(network, path: address.path, deliver)
    }
}

/// One notice socket without a network: the client's handle, and the relay's end that lives on its lane.
final class TestSocket: Socket {
    private let end: TestSocketEnd
    private let lane: TestLane

    init(_ network: TestNetwork, path: String, _ deliver: @escaping @Sendable (SocketEvent) -> Void) {
        lane = network.relay.lane
        end = TestSocketEnd(lane: lane, network: network, deliver)
        guard network.adopt(end) else {
            lane.run { [end] in end.lost() }
            return
        }
        lane.open(APIRequest(method: .get, path: path), end)
    }

    func send(text: [UInt8]) { lane.run { [end] in end.received(text) } }
    func ping() { lane.run { [end] in end.pinged() } }
    func drop() { lane.run { [end] in end.dropped() } }
}

/// The relay's end of a `TestSocket`.
final class TestSocketEnd: NoticeOutlet, @unchecked Sendable {
    // Unchecked: every call but `init` and `cut` is made on the lane.

    private let lane: TestLane
    private let network: TestNetwork
    private var deliver: (@Sendable (SocketEvent) -> Void)?
    private var connection: NoticeConnection?

    init(lane: TestLane, network: TestNetwork, _ deliver: @escaping @Sendable (SocketEvent) -> Void) {
        self.lane = lane
        self.network = network
        self.deliver = deliver
    }

    // MARK: The client's side

    func opened(_ connection: NoticeConnection) {
        guard let deliver else {
            // Given up before it was open.
            connection.closed()
            return
        }
        self.connection = connection
        deliver(.opened)
    }

    func received(_ text: [UInt8]) { connection?.handle(.received(text: text)) }
    func pinged() { connection?.handle(.receivedPing(payload: [])) }

    func dropped() {
        deliver = nil
        finish()
    }

    /// The network is gone: neither side hears from the other again; to be called from anywhere.
    func cut() { lane.run { self.lost() } }

    func lost() {
        let deliver = deliver
        self.deliver = nil
        finish()
        deliver?(.closed(code: nil))
    }

    func tick() { connection?.tick() }
    func end(_ reason: NoticeClose) { connection?.end(reason) }

    private func finish() {
        let connection = connection
        self.connection = nil
        connection?.closed()
        lane.forget(self)
        network.abandon(self)
    }

    // MARK: The relay's side

    func send(_ frame: NoticeFrame) {
        network.noticed(frame.text)
        deliver?(.text(frame.text))
    }

    /// The answer is the client library's own, and instant.
    func sendPing() { lane.run { self.connection?.handle(.receivedPong) } }

    func sendPong(_ payload: [UInt8]) { deliver?(.pong) }

    func close(_ reason: NoticeClose) {
        let deliver = deliver
        self.deliver = nil
        // Not at once: the connection is in the middle of saying so.
        lane.run { self.finish() }
        deliver?(.closed(code: reason.code))
    }
}
