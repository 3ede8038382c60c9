package import NIOCore

/// Encodes WebSocket frames of a server: unfragmented, unmasked, with lengths in their shortest form (RFC 6455, 5.2).
///
/// Not NIO's encoder, because that is a channel handler, encodes a frame for each connection, and gives a payload that
/// connections share its header in a buffer of its own. A notice is encoded once, and sent with one call each. See
/// `NIOFrameTests`.
package enum FrameEncoder {
    package enum Opcode: UInt8 {
        case text = 0x1
        case binary = 0x2
        case close = 0x8
        case ping = 0x9
        case pong = 0xA
    }

    package static func frame(_ opcode: Opcode, _ payload: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.reserveCapacity(payload.count + 10)
        buffer.writeInteger(0x80 | opcode.rawValue)
        switch payload.count {
        case 0...125: buffer.writeInteger(UInt8(payload.count))
        case 126...0xFFFF:
            buffer.writeInteger(UInt8(126))
            buffer.writeInteger(UInt16(payload.count))
        default:
            buffer.writeInteger(UInt8(127))
            buffer.writeInteger(UInt64(payload.count))
        }
        buffer.writeBytes(payload)
        return buffer
    }

    /// Returns a close frame; a reason longer than 123 bytes is truncated between characters.
    static func close(code: UInt16?, reason: String) -> ByteBuffer {
        guard let code else { return frame(.close, []) }
        var text = Substring(reason)
        while text.utf8.count > 123 { text.removeLast() }
        return frame(.close, [UInt8(code >> 8), UInt8(code & 0xFF)] + Array(text.utf8))
    }
}
