import NIOCore
package import RelayAPI

/// Connects a notice connection to its socket: frames become session events, and effects become frames.
final class NoticeRole: SocketRole, NoticeOutlet {
    private let socket: SocketChannel
    private let lane: LoopLane
    /// Set once, right after both objects are created.
    private var connection: NoticeConnection?

    private init(socket: SocketChannel, lane: LoopLane) {
        self.socket = socket
        self.lane = lane
    }

    /// Creates the role and the connection of a socket.
    ///
    /// `needsTask` starts a task if the connection needs one; without it, the caller already has a task.
    @discardableResult
    static func make(
        for request: APIRequest,
        on socket: SocketChannel,
        lane: LoopLane,
        needsTask: ((NoticeConnection) -> Void)? = nil
    ) -> NoticeConnection {
        let role = NoticeRole(socket: socket, lane: lane)
        let connection = NoticeConnection(
            request: request,
            hub: lane.notices.hub,
            lane: lane.number,
            roll: lane.roll.value,
            admission: lane.notices.admission,
            uptime: lane.uptime,
            outlet: role,
            needsTask: needsTask
        )
        role.connection = connection
        socket.role = role
        return connection
    }

    // MARK: SocketRole

    func received(text: [UInt8]) { connection?.handle(.received(text: text)) }
    func received(binary: [UInt8]) { connection?.handle(.receivedBinary) }
    func received(ping: [UInt8]) { connection?.handle(.receivedPing(payload: ping)) }
    func receivedPong() { connection?.handle(.receivedPong) }
    func writabilityChanged(_ isWritable: Bool) { connection?.handle(.writabilityChanged(isWritable)) }
    func tick() { connection?.tick() }
    func stop() { connection?.end(.stopping) }

    func closed() {
        connection?.closed()
        connection = nil
    }

    // MARK: NoticeOutlet

    func send(_ frame: NoticeFrame) { socket.write(lane.bytes(of: frame)) }
    func send(_ frames: [NoticeFrame]) { socket.write(frames.map { lane.bytes(of: $0) }) }
    func sendPing() { socket.write(FrameBytes.frame(.ping, [])) }
    func sendPong(_ payload: [UInt8]) { socket.write(FrameBytes.frame(.pong, payload)) }
    func close(_ reason: NoticeClose) { socket.close(code: reason.code, reason: reason.reason) }
}

/// The notice hub and the admission of its connections.
package struct NoticeService: Sendable {
    package var hub: NoticeHub
    package var admission: any NoticeAdmission

    package init(hub: NoticeHub, admission: any NoticeAdmission) {
        self.hub = hub
        self.admission = admission
    }
}
