import Foundation

/// A device's notice socket: sends a hello and then reads until the relay closes the connection.
final class NoticeSocket {
    private let descriptor: Int32
    private var pending: [UInt8] = []

    /// Connects as a device of alice's and returns after the relay's ready frame.
    init(_ device: String, on relay: RelayProcess) throws {
        descriptor = try HTTPConnection.connect(port: relay.port)
        let head =
            "GET /push/1/\(Path.container)/development HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            + "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        try HTTPConnection.write(Array(head.utf8), to: descriptor)
        let end = Array("\r\n\r\n".utf8)
        while pending.firstRange(of: end) == nil { try readMore() }
        guard let range = pending.firstRange(of: end), pending.starts(with: "HTTP/1.1 101 ".utf8) else {
            throw HTTPConnection.Lost()
        }
        pending.removeSubrange(..<range.upperBound)
        let hello = #"{"hello":{"deviceID":"\#(device)","ckAPIToken":"x","ckWebAuthToken":"dev-alice"}}"#
        // The mask is zero, so the payload stays as it is.
        let frame = [0x81, 0x80 | UInt8(min(hello.utf8.count, 125)), 0, 0, 0, 0]
        try HTTPConnection.write(frame + Array(hello.utf8), to: descriptor)
        guard try next().opcode == 1 else { throw HTTPConnection.Lost() }
    }

    deinit { close(descriptor) }

    /// Reads until the connection ends; returns the code of the close frame, `nil` without one.
    func closeCode() -> Int? {
        while let frame = try? next() {
            if frame.opcode == 8, frame.payload.count >= 2 {
                return Int(frame.payload[0]) << 8 | Int(frame.payload[1])
            }
        }
        return nil
    }

    private func next() throws -> (opcode: UInt8, payload: [UInt8]) {
        while pending.count < 2 { try readMore() }
        var (start, length) = (2, Int(pending[1] & 0x7F))
        if length == 126 {
            while pending.count < 4 { try readMore() }
            (start, length) = (4, Int(pending[2]) << 8 | Int(pending[3]))
        }
        while pending.count < start + length { try readMore() }
        let frame = (pending[0] & 0x0F, Array(pending[start..<start + length]))
        pending.removeFirst(start + length)
        return frame
    }

    private func readMore() throws {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { throw HTTPConnection.Lost() }
        pending.append(contentsOf: bytes[..<count])
    }
}
