import Sockets

/// An open WebSocket that can send any bytes.
final class WebSocketLink {
    /// A received frame, or the end.
    enum Event: Equatable {
        case text([UInt8])
        case binary([UInt8])
        case pong([UInt8])
        case ping
        case close(code: Int)
        /// The connection ended, without a close frame.
        case ended
        case silence
    }

    let link: Link

    init(to endpoint: Endpoint, path: String = "/__echo", patience: Int = 5) throws {
        link = try Link(to: endpoint, patience: patience)
        link.send(HandshakeChecks.request("GET \(path) HTTP/1.1"))
        guard link.answer(hasBody: false)?.status == 101 else { throw LoadError.peer("The WebSocket was not opened.") }
    }

    func send(_ bytes: [UInt8]) { link.send(bytes) }

    /// Sends a masked frame with any first byte.
    func send(first: UInt8, _ payload: [UInt8]) {
        var frame = WebSocketFrame.fromClient(.text, payload, mask: [0x37, 0xFA, 0x21, 0x3D])
        frame[0] = first
        link.send(frame)
    }

    func next() -> Event {
        link.read { WebSocketFrame.first(in: $0) != nil }
        guard let frame = WebSocketFrame.first(in: link.unread) else { return link.isClosed ? .ended : .silence }
        let payload = Array(frame.payload)
        let kind = frame.kind
        link.use(frame.length)
        switch kind {
        case .text: return .text(payload)
        case .binary: return .binary(payload)
        case .pong: return .pong(payload)
        case .ping: return .ping
        case .close: return .close(code: payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : 1005)
        default: return .silence
        }
    }

    /// Whether the peer has ended the connection, after its remaining bytes.
    var hasEnded: Bool {
        link.read()
        return link.isClosed
    }
}
