import NIOCore
import RelayAPI
import Synchronization

/// An event loop's inbox for the notice hub.
///
/// Orders of one commit, or of several commits in quick succession, wake the event loop once.
final class LoopLane: NoticeLane {
    let notices: NoticeService
    let uptime: @Sendable () -> Duration
    let roll: NIOLoopBound<NoticeLaneRoll>
    /// The lane's number in the hub; set once, before the first connection.
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
        roll = NIOLoopBound(NoticeLaneRoll(), eventLoop: eventLoop)
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
        let roll = roll.value
        for order in orders { roll.perform(order) }
    }

    /// Returns a frame's bytes, which are encoded once for consecutive recipients.
    func bytes(of frame: NoticeFrame) -> ByteBuffer {
        if let last = lastFrame.value, last.frame === frame { return last.bytes }
        let bytes = FrameBytes.frame(.text, frame.text)
        lastFrame.value = (frame, bytes)
        return bytes
    }
}
