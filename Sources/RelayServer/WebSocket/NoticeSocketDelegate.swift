import NIOCore
package import RelayAPI
import Synchronization

/// Connects a notice connection to its socket: frames become session events, and effects become frames.
final class NoticeSocketDelegate: WebSocketDelegate, NoticeTransport {
    private let socket: WebSocketChannelHandler
    private let worker: EventLoopNoticeWorker
    /// Set once, right after both objects are created.
    private var connection: NoticeConnection?

    private init(socket: WebSocketChannelHandler, worker: EventLoopNoticeWorker) {
        self.socket = socket
        self.worker = worker
    }

    /// Creates the role and the connection of a socket.
    ///
    /// `startAdmission` starts a task if the connection needs one; without it, the caller already has a task.
    @discardableResult
    static func make(
        for request: APIRequest,
        on socket: WebSocketChannelHandler,
        worker: EventLoopNoticeWorker,
        startAdmission: ((NoticeConnection) -> Void)? = nil
    ) -> NoticeConnection {
        let delegate = NoticeSocketDelegate(socket: socket, worker: worker)
        let connection = NoticeConnection(
            request: request,
            hub: worker.notices.hub,
            worker: worker.number,
            registry: worker.registry.value,
            admission: worker.notices.admission,
            uptime: worker.uptime,
            transport: delegate,
            startAdmission: startAdmission
        )
        delegate.connection = connection
        socket.delegate = delegate
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

    func send(_ frame: NoticeFrame) { socket.write(worker.bytes(of: frame)) }
    func send(_ frames: [NoticeFrame]) { socket.write(frames.map { worker.bytes(of: $0) }) }
    func sendPing() { socket.write(FrameEncoder.frame(.ping, [])) }
    func sendPong(_ payload: [UInt8]) { socket.write(FrameEncoder.frame(.pong, payload)) }
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

/// An event loop's inbox for the notice hub.
///
/// Orders of one commit, or of several commits in quick succession, wake the event loop once.
final class EventLoopNoticeWorker: NoticeWorker {
    let notices: NoticeService
    let uptime: @Sendable () -> Duration
    let registry: NIOLoopBound<NoticeConnectionRegistry>
    /// The worker's number in the hub; set once, before the first connection.
    var number: Int { position.withLock { $0 } }
    private let position = Mutex(0)
    private let eventLoop: any EventLoop
    private let inbox = Mutex<[NoticeOrder]>([])
    private let lastFrame: NIOLoopBoundBox<(frame: NoticeFrame, bytes: ByteBuffer)?>

    /// Must be called on the event loop.
    init(_ eventLoop: any EventLoop, notices: NoticeService, uptime: @escaping @Sendable () -> Duration) {
        self.eventLoop = eventLoop
        self.notices = notices
        self.uptime = uptime
        registry = NIOLoopBound(NoticeConnectionRegistry(), eventLoop: eventLoop)
        lastFrame = NIOLoopBoundBox(nil, eventLoop: eventLoop)
        let number = notices.hub.add(self)
        position.withLock { $0 = number }
    }

    func post(_ order: NoticeOrder) {
        let isFirst = inbox.withLock { inbox in
            inbox.append(order)
            return inbox.count == 1
        }
        if isFirst { eventLoop.execute { self.carryOut() } }
    }

    private func carryOut() {
        let orders = inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox
        }
        let registry = registry.value
        for order in orders { registry.perform(order) }
    }

    /// Returns a frame's bytes, which are encoded once for consecutive recipients.
    func bytes(of frame: NoticeFrame) -> ByteBuffer {
        if let last = lastFrame.value, last.frame === frame { return last.bytes }
        let bytes = FrameEncoder.frame(.text, frame.text)
        lastFrame.value = (frame, bytes)
        return bytes
    }
}
