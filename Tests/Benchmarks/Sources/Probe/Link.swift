import Sockets

/// A raw connection that can send invalid bytes and records everything received.
final class Link {
    private let socket: Socket
    private var buffer = ReceiveBuffer()
    private(set) var isClosed = false

    /// Reads fail after `timeout` seconds without a byte.
    init(to endpoint: Endpoint, timeout: Int = 2) throws {
        socket = try Socket.connect(to: endpoint, blocks: true)
        socket.limitReads(seconds: timeout)
    }

    /// Ignores errors: the check may expect the peer to have closed.
    func send(_ bytes: [UInt8]) {
        do { try socket.write(bytes) } catch { isClosed = true }
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    func finishWriting() { socket.finishWriting() }

    /// The received, unused bytes.
    var unread: UnsafeRawBufferPointer { buffer.unread }

    func use(_ count: Int) { buffer.use(count) }

    /// Reads once; `false` if nothing arrived in time or the peer has closed.
    func readMore() -> Bool {
        switch buffer.fill(from: socket) {
        case .bytes: return true
        case .nothingYet: return false
        case .closed:
            isClosed = true
            return false
        }
    }

    /// Reads until the peer closes, nothing arrives in time, or `isEnough`.
    func read(until isEnough: (UnsafeRawBufferPointer) -> Bool = { _ in false }) {
        while !isEnough(unread), readMore() {}
    }
}

/// A copy of a response's head and body.
struct Answer {
    var status: Int
    var head: String
    var body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }

    /// The value of a header field, if it is there.
    func field(_ name: String) -> String? {
        for line in head.split(separator: "\r\n").dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2, parts[0].lowercased() == name.lowercased() {
                return String(parts[1].drop { $0 == " " })
            }
        }
        return nil
    }
}

extension Link {
    /// Reads the next response; `nil` if it is incomplete.
    func answer(hasBody: Bool = true) -> Answer? {
        read { HTTPHead.length(in: $0) != nil }
        guard let headLength = HTTPHead.length(in: unread) else { return nil }
        let head = UnsafeRawBufferPointer(rebasing: unread[..<headLength])
        guard let status = HTTPHead.status(of: head) else { return nil }
        let length = hasBody ? HTTPHead.contentLength(of: head) ?? 0 : 0
        read { $0.count >= headLength + length }
        guard unread.count >= headLength + length else { return nil }
        let answer = Answer(
            status: status,
            head: String(decoding: unread[..<headLength], as: UTF8.self),
            body: Array(unread[headLength..<headLength + length])
        )
        use(headLength + length)
        return answer
    }
}

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

    init(to endpoint: Endpoint, path: String = "/__echo", timeout: Int = 5) throws {
        link = try Link(to: endpoint, timeout: timeout)
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
