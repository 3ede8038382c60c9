import NIOCore

/// A WebSocket client that can break every rule: it sends raw frames and reads the responses.
final class SocketPeer: Sendable {
    struct Frame: Equatable {
        var opcode: UInt8
        var payload: [UInt8]

        var text: String { String(decoding: payload, as: UTF8.self) }
        /// The code of a close frame; `nil` for an empty one and for other frames.
        var closeCode: Int? {
            opcode == 8 && payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : nil
        }
    }

    let peer: RawPeer
    /// The number of bytes of the handshake's response, before the first frame.
    private let headLength: Int

    private init(peer: RawPeer, headLength: Int) {
        self.peer = peer
        self.headLength = headLength
    }

    static func handshake(_ path: String, extra: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
            + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\(extra)\r\n"
    }

    /// Connects and upgrades; `early` is sent in the same write as the handshake.
    static func connect(
        port: Int,
        path: String = "/__echo",
        extra: String = "",
        early: [UInt8] = []
    ) async throws -> SocketPeer {
        let peer = try await RawPeer.connect(port: port, sending: Array(handshake(path, extra: extra).utf8) + early)
        let bytes = try await peer.received(waitingFor: "the answer to the handshake") { headEnd(of: $0) != nil }
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.hasPrefix("HTTP/1.1 101 "), let end = headEnd(of: bytes) else {
            throw RawPeer.TimedOut(description: "no upgrade: \(text)")
        }
        return SocketPeer(peer: peer, headLength: end)
    }

    private static func headEnd(of bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        return (4...bytes.count).first { bytes[$0 - 4..<$0].elementsEqual([13, 10, 13, 10]) }
    }

    /// Returns a client's frame.
    ///
    /// `length` overrides the encoded length.
    static func frame(
        _ first: UInt8,
        _ payload: [UInt8],
        mask: [UInt8]? = [7, 99, 0, 255],
        length: [UInt8]? = nil
    ) -> [UInt8] {
        var header: [UInt8]
        switch payload.count {
        case 0...125: header = [UInt8(payload.count)]
        case 126...0xFFFF: header = [126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: header = [127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> ($0 * 8)) }
        }
        header = length ?? header
        guard let mask else { return [first] + header + payload }
        header[0] |= 0x80
        return [first] + header + mask + payload.enumerated().map { $0.element ^ mask[$0.offset % 4] }
    }

    static func text(_ text: String) -> [UInt8] { frame(0x81, Array(text.utf8)) }

    func send(_ bytes: [UInt8]) async throws { try await peer.send(bytes) }
    func send(text: String) async throws { try await peer.send(Self.text(text)) }

    /// Returns all frames so far, once there are `count` of them or the relay has closed the connection.
    func frames(_ count: Int, waitingFor what: String = "frames") async throws -> [Frame] {
        let start = headLength
        let bytes = try await peer.received(waitingFor: what) { Self.frames(in: $0.dropFirst(start)).count >= count }
        return Self.frames(in: bytes.dropFirst(start))
    }

    /// Returns all frames so far, once they are enough or the relay has closed the connection.
    func frames(waitingFor what: String, until areEnough: @escaping @Sendable ([Frame]) -> Bool) async throws -> [Frame]
    {
        let start = headLength
        let bytes = try await peer.received(waitingFor: what) {
            areEnough(Self.frames(in: $0.dropFirst(start)))
        }
        return Self.frames(in: bytes.dropFirst(start))
    }

    /// Returns all frames until the relay closes the connection.
    func framesUntilClosed() async throws -> [Frame] {
        let bytes = try await peer.received(waitingFor: "the relay to close the socket") { _ in false }
        return Self.frames(in: bytes.dropFirst(headLength))
    }

    func close() async { await peer.close() }

    /// Parses the complete frames of a server: unmasked and final.
    private static func frames(in bytes: ArraySlice<UInt8>) -> [Frame] {
        var frames: [Frame] = []
        var rest = bytes
        while rest.count >= 2 {
            let first = rest[rest.startIndex]
            var length = Int(rest[rest.startIndex + 1])
            var header = 2
            if length == 126 || length == 127 {
                header = length == 126 ? 4 : 10
                guard rest.count >= header else { break }
                length = rest.dropFirst(2).prefix(header - 2).reduce(0) { $0 << 8 | Int($1) }
            }
            guard rest.count >= header + length else { break }
            frames.append(Frame(opcode: first & 0x0F, payload: Array(rest.dropFirst(header).prefix(length))))
            rest = rest.dropFirst(header + length)
        }
        return frames
    }
}
