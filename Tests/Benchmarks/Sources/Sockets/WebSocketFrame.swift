/// Frames of RFC 6455, as far as a well-behaved client and its server need them.
package enum WebSocketFrame {
    package enum Kind: UInt8, Sendable {
        case continuation = 0
        case text = 1
        case binary = 2
        case close = 8
        case ping = 9
        case pong = 10
    }

    /// Encodes an unfragmented frame of a client; a mask of zeros is legal and cheap.
    package static func fromClient(_ kind: Kind, _ payload: [UInt8], mask: [UInt8] = [0, 0, 0, 0]) -> [UInt8] {
        var frame = header(kind, length: payload.count, maskBit: 0x80) + mask
        for (index, byte) in payload.enumerated() { frame.append(byte ^ mask[index & 3]) }
        return frame
    }

    /// Encodes an unfragmented frame of a server.
    package static func fromServer(_ kind: Kind, _ payload: [UInt8]) -> [UInt8] {
        header(kind, length: payload.count, maskBit: 0) + payload
    }

    private static func header(_ kind: Kind, length: Int, maskBit: UInt8) -> [UInt8] {
        let first = 0x80 | kind.rawValue
        if length < 126 { return [first, maskBit | UInt8(length)] }
        if length < 1 << 16 { return [first, maskBit | 126, UInt8(length >> 8), UInt8(length & 255)] }
        return [first, maskBit | 127] + (0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * $0)) }
    }

    /// A server's frame in received bytes.
    package struct Received {
        package var kind: Kind?
        package var isFinal: Bool
        package var payload: UnsafeRawBufferPointer
        /// The length of the whole frame, including the header.
        package var length: Int
    }

    /// Returns the first complete frame in `bytes`, which must not be masked.
    package static func first(in bytes: UnsafeRawBufferPointer) -> Received? {
        guard bytes.count >= 2 else { return nil }
        var start = 2
        var length = Int(bytes[1] & 0x7F)
        if length >= 126 {
            start = length == 126 ? 4 : 10
            guard bytes.count >= start else { return nil }
            length = bytes[2..<start].reduce(0) { $0 << 8 | Int($1) }
        }
        guard bytes.count - start >= length else { return nil }
        return Received(
            kind: Kind(rawValue: bytes[0] & 0x0F),
            isFinal: bytes[0] & 0x80 != 0,
            payload: UnsafeRawBufferPointer(rebasing: bytes[start..<start + length]),
            length: start + length
        )
    }
}
