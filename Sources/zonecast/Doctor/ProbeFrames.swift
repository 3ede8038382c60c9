/// The part of RFC 6455 that a probe needs: text and close frames of a client, unmasked frames of a server.
enum ProbeFrames {
    enum Frame: Sendable {
        case text([UInt8])
        case close(code: UInt16?)
        /// Ping, pong, binary.
        case other
    }

    /// Returns a text message in one frame, masked as RFC 6455 requires of clients.
    static func text(_ payload: [UInt8], mask: UInt32) -> [UInt8] { frame(0x81, payload, mask) }

    /// Returns a close frame with code 1000.
    static func close(mask: UInt32) -> [UInt8] { frame(0x88, [0x03, 0xE8], mask) }

    private static func frame(_ first: UInt8, _ payload: [UInt8], _ mask: UInt32) -> [UInt8] {
        var bytes = [first]
        switch payload.count {
        case 0...125: bytes.append(0x80 | UInt8(payload.count))
        case 126...65_535: bytes += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [0x80 | 127] + (0..<8).reversed().map { UInt8(payload.count >> ($0 * 8) & 0xFF) }
        }
        let key = (0..<4).reversed().map { UInt8(mask >> ($0 * 8) & 0xFF) }
        return bytes + key + payload.enumerated().map { $1 ^ key[$0 % 4] }
    }

    /// Removes one frame from the front of `bytes`; returns `nil` while it is incomplete.
    static func take(from bytes: inout [UInt8]) throws(ProbeFault) -> Frame? {
        guard bytes.count >= 2 else { return nil }
        guard bytes[1] & 0x80 == 0 else { throw .brokenFrames }
        var (start, length) = (2, Int(bytes[1]))
        if length >= 126 {
            let size = length == 126 ? 2 : 8
            guard bytes.count >= 2 + size else { return nil }
            length = bytes[2..<(2 + size)].reduce(0) { $0 << 8 | Int($1) }
            start += size
        }
        guard (0...1_048_576).contains(length) else { throw .brokenFrames }
        guard bytes.count >= start + length else { return nil }
        let payload = Array(bytes[start..<(start + length)])
        let opcode = bytes[0] & 0x0F
        bytes.removeFirst(start + length)
        switch opcode {
        case 1: return .text(payload)
        case 8: return .close(code: payload.count >= 2 ? UInt16(payload[0]) << 8 | UInt16(payload[1]) : nil)
        default: return .other
        }
    }
}
