import Sockets

/// RFC 6455's frames, on the echo socket of `--test-door`.
enum FrameChecks {
    static let all: [Check] = broken + echoed + closing

    /// Makes a check that the relay sends a close frame with this code and then ends the connection.
    private static func closes(_ name: String, with code: Int, _ send: @escaping @Sendable (WebSocketLink) -> Void)
        -> Check
    {
        Check(name: "frames: \(name)") { endpoint in
            let socket = try WebSocketLink(to: endpoint)
            send(socket)
            var event = socket.next()
            if case .text = event { event = socket.next() }
            guard event == .close(code: code) else { return "\(event)".prefix(120).description }
            socket.send(WebSocketFrame.fromClient(.close, [UInt8(code >> 8), UInt8(code & 255)]))
            return socket.hasEnded ? nil : "close frame, but the connection stays"
        }
    }

    private static let hello = Array("hello".utf8)
    private static func bytes(_ count: Int) -> [UInt8] { Array(repeating: UInt8(ascii: "x"), count: count) }

    private static let broken: [Check] =
        [
            closes("unmasked", with: 1002) { $0.send(WebSocketFrame.fromServer(.text, hello)) },
            closes("reserved bit 1", with: 1002) { $0.send(first: 0xC1, hello) },
            closes("reserved bit 2", with: 1002) { $0.send(first: 0xA1, hello) },
            closes("reserved bit 3", with: 1002) { $0.send(first: 0x91, hello) },
            closes("reserved bit on a ping", with: 1002) { $0.send(first: 0xC9, hello) },
            closes("opcode 3", with: 1002) { $0.send(first: 0x83, hello) },
            closes("opcode 7", with: 1002) { $0.send(first: 0x87, hello) },
            closes("opcode 11", with: 1002) { $0.send(first: 0x8B, hello) },
            closes("opcode 15", with: 1002) { $0.send(first: 0x8F, hello) },
            closes("fragmented ping", with: 1002) { $0.send(first: 0x09, hello) },
            closes("fragmented close", with: 1002) { $0.send(first: 0x08, []) },
            closes("ping of 126 bytes", with: 1002) { $0.send(first: 0x89, bytes(126)) },
            closes("close of 126 bytes", with: 1002) { $0.send(first: 0x88, [3, 0xE8] + bytes(124)) },
            closes("continuation of nothing", with: 1002) { $0.send(first: 0x80, hello) },
            closes("text within a text", with: 1002) {
                $0.send(first: 0x01, hello); $0.send(first: 0x81, hello)
            },
            closes("binary within a text", with: 1002) {
                $0.send(first: 0x01, hello); $0.send(first: 0x82, hello)
            },
            closes("continuation after the end", with: 1002) {
                $0.send(first: 0x01, hello)
                $0.send(first: 0x80, hello)
                $0.send(first: 0x80, hello)
            },
            closes("16-bit length for 5 bytes", with: 1002) { $0.send([0x81, 0xFE, 0, 5, 0, 0, 0, 0] + hello) },
            closes("64-bit length for 5 bytes", with: 1002) {
                $0.send([0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0] + hello)
            },
            closes("64-bit length for 65535 bytes", with: 1002) {
                $0.send([0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0])
            },
            closes("length with its highest bit", with: 1002) {
                $0.send([0x81, 0xFF, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
            },
            closes("a declared 1 TiB", with: 1009) { $0.send([0x82, 0xFF, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]) },
            closes("a declared 16 MiB + 1", with: 1009) { $0.send([0x82, 0xFF, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]) },
            closes("text not UTF-8", with: 1007) { $0.send(first: 0x81, [0x61, 0xFF]) },
            closes("text with overlong UTF-8", with: 1007) { $0.send(first: 0x81, [0xC0, 0x80]) },
            closes("text with a surrogate", with: 1007) { $0.send(first: 0x81, [0xED, 0xA0, 0x80]) },
            closes("text beyond U+10FFFF", with: 1007) { $0.send(first: 0x81, [0xF4, 0x90, 0x80, 0x80]) },
            closes("text that ends within a character", with: 1007) { $0.send(first: 0x81, [0xE2, 0x82]) },
            closes("bad text in a later fragment", with: 1007) {
                $0.send(first: 0x01, hello)
                $0.send(first: 0x80, [0xFF])
            },
            closes("bad text in a first fragment, at once", with: 1007) { $0.send(first: 0x01, [0x61, 0xFF]) },
            closes("close with one byte", with: 1002) { $0.send(first: 0x88, [3]) },
            closes("close with a reason not UTF-8", with: 1007) { $0.send(first: 0x88, [3, 0xE8, 0xFF]) },
        ]
        + [0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535].map { code in
            closes("close code \(code)", with: 1002) { $0.send(first: 0x88, [UInt8(code >> 8), UInt8(code & 255)]) }
        }

    private static func echoes(_ name: String, _ kind: UInt8, _ payload: [UInt8]) -> Check {
        Check(name: "frames: \(name)") { endpoint in
            let socket = try WebSocketLink(to: endpoint)
            socket.send(first: 0x80 | kind, payload)
            let event = socket.next()
            let expected: WebSocketLink.Event =
                kind == 1 ? .text(payload) : kind == 2 ? .binary(payload) : .pong(payload)
            return event == expected ? nil : "\(event)".prefix(120).description
        }
    }

    private static let echoed: [Check] =
        [0, 1, 125, 126, 127, 65535, 65536, 1 << 20].flatMap { size in
            [echoes("text of \(size) bytes", 1, bytes(size)), echoes("binary of \(size) bytes", 2, bytes(size))]
        } + [
            echoes("binary of 16 MiB", 2, bytes(16 << 20)), echoes("ping of 125 bytes", 9, bytes(125)),
            echoes("empty ping", 9, []), echoes("text of four-byte characters", 1, Array("𝄞😀".utf8)),
            Check(name: "frames: a fragmented text with a ping between") { endpoint in
                let socket = try WebSocketLink(to: endpoint)
                socket.send(first: 0x01, [0xE2])
                socket.send(first: 0x89, hello)
                socket.send(first: 0x00, [0x82])
                socket.send(first: 0x80, [0xAC])
                let events = [socket.next(), socket.next()]
                return events == [.pong(hello), .text([0xE2, 0x82, 0xAC])] ? nil : "\(events)"
            },
            Check(name: "frames: an unasked pong is ignored") { endpoint in
                let socket = try WebSocketLink(to: endpoint)
                socket.send(first: 0x8A, hello)
                socket.send(first: 0x81, hello)
                let event = socket.next()
                return event == .text(hello) ? nil : "\(event)"
            },
            Check(name: "frames: a frame in single bytes") { endpoint in
                let socket = try WebSocketLink(to: endpoint)
                for byte in WebSocketFrame.fromClient(.text, hello, mask: [1, 2, 3, 4]) { socket.send([byte]) }
                let event = socket.next()
                return event == .text(hello) ? nil : "\(event)"
            },
            Check(name: "frames: handshake and first frame in one packet") { endpoint in
                let link = try Link(to: endpoint)
                link.send(Array(HandshakeChecks.request().utf8) + WebSocketFrame.fromClient(.text, hello))
                guard link.answer(hasBody: false)?.status == 101 else { return "no 101" }
                link.read { WebSocketFrame.first(in: $0) != nil }
                return WebSocketFrame.first(in: link.unread).map { Array($0.payload) } == hello ? nil : "no echo"
            },
        ]

    private static let closing: [Check] =
        [1000, 1001, 1002, 1003, 1007, 1011, 3000, 4999].map { code in
            closes("close code \(code) is answered", with: code) {
                $0.send(first: 0x88, [UInt8(code >> 8), UInt8(code & 255)])
            }
        } + [
            closes("close without a code is answered", with: 1005) { $0.send(first: 0x88, []) },
            Check(name: "frames: nothing is echoed after a close") { endpoint in
                let socket = try WebSocketLink(to: endpoint)
                socket.send(WebSocketFrame.fromClient(.close, [3, 0xE8]) + WebSocketFrame.fromClient(.text, hello))
                let events = [socket.next(), socket.next()]
                return events == [.close(code: 1000), .ended] ? nil : "\(events)"
            },
        ]
}
