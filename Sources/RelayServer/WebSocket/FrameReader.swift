package import NIOCore

/// Decodes a client's WebSocket messages and rejects everything that RFC 6455 forbids; a value without a socket.
///
/// Not NIO's decoder, because that does not report the form of a length (which must be the shortest), accepts unmasked
/// frames, and buffers whole frames, so that invalid UTF-8 is detected late: `NIOFrameTests`. As a pipeline handler it also
/// takes 700 bytes of each idle connection, 5.0 KB in place of 4.3 (row `idle` of Tests/Benchmarks).
package struct FrameReader {
    package enum Event: Hashable, Sendable {
        case text([UInt8])
        case binary([UInt8])
        case ping([UInt8])
        case pong
        /// `nil` if the frame contains no code.
        case close(code: UInt16?)
        /// The connection must be failed with this error; nothing more is read.
        case failed(Fault)
    }

    package struct Fault: Error, Hashable, Sendable {
        /// The close code: 1002, 1007 or 1009.
        package var code: UInt16
        package var reason: String

        package init(code: UInt16, reason: String) {
            self.code = code
            self.reason = reason
        }
    }

    private struct Frame {
        var opcode: UInt8
        var isFinal: Bool
        var remaining: Int
        var mask: UInt32
        /// The number of payload bytes that have been unmasked.
        var position = 0
    }

    private static let continuation: UInt8 = 0x0
    private static let text: UInt8 = 0x1
    private static let binary: UInt8 = 0x2
    private static let close: UInt8 = 0x8
    private static let ping: UInt8 = 0x9
    private static let pong: UInt8 = 0xA

    /// Maximum bytes of a message, and therefore of a frame.
    private let limit: Int
    private var header: [UInt8] = []
    private var frame: Frame?
    /// The opcode of the current message; `nil` between messages.
    private var messageOpcode: UInt8?
    private var message: [UInt8] = []
    private var utf8 = UTF8Validator()
    private var control: [UInt8] = []
    private var isOver = false

    package init(limit: Int) { self.limit = limit }

    /// Returns the next event and consumes its bytes; `nil` if more bytes are needed.
    package mutating func next(in bytes: inout ByteBuffer) -> Event? {
        guard !isOver else {
            bytes.moveReaderIndex(to: bytes.writerIndex)
            return nil
        }
        do throws(Fault) {
            while true {
                if frame == nil {
                    guard try readHeader(&bytes) else { return nil }
                }
                if let event = try readPayload(&bytes) { return event }
                if frame != nil { return nil }
            }
        } catch {
            isOver = true
            message = []
            return .failed(error)
        }
    }

    // MARK: Header

    /// Reads the header, checking each byte as it arrives; returns `false` if the header is incomplete.
    private mutating func readHeader(_ bytes: inout ByteBuffer) throws(Fault) -> Bool {
        while let byte = bytes.readInteger(as: UInt8.self) {
            header.append(byte)
            switch header.count {
            case 1: try checkFirst(byte)
            case 2: try checkSecond(byte, first: header[0])
            default: break
            }
            guard header.count >= 2 else { continue }
            // The length is checked before the mask has arrived.
            if header.count == Self.headerLength(header[1]) - 4 { try checkLength() }
            if header.count == Self.headerLength(header[1]) {
                beginFrame()
                header.removeAll(keepingCapacity: true)
                return true
            }
        }
        return false
    }

    private func checkFirst(_ byte: UInt8) throws(Fault) {
        guard byte & 0x70 == 0 else { throw .protocolError("reserved bits are set") }
        switch byte & 0x0F {
        case Self.continuation:
            guard messageOpcode != nil else { throw .protocolError("nothing to continue") }
        case Self.text, Self.binary:
            guard messageOpcode == nil else { throw .protocolError("a message is under way") }
        case Self.close, Self.ping, Self.pong:
            guard byte & 0x80 != 0 else { throw .protocolError("a control frame is fragmented") }
        default: throw .protocolError("reserved opcode")
        }
    }

    private func checkSecond(_ byte: UInt8, first: UInt8) throws(Fault) {
        guard byte & 0x80 != 0 else { throw .protocolError("a frame is not masked") }
        let isControl = first & 0x08 != 0
        guard !isControl || byte & 0x7F <= 125 else { throw .protocolError("a control frame is too long") }
    }

    private static func headerLength(_ second: UInt8) -> Int {
        switch second & 0x7F {
        case 126: 2 + 2 + 4
        case 127: 2 + 8 + 4
        default: 2 + 4
        }
    }

    /// The length in the header, of which only the mask may be missing.
    private var declaredLength: UInt64 {
        let bytes = header[2..<Self.headerLength(header[1]) - 4]
        return bytes.isEmpty ? UInt64(header[1] & 0x7F) : bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    private func checkLength() throws(Fault) {
        let length = declaredLength
        let lengthBytes = header.count - 2
        guard lengthBytes == 0 || length >= (lengthBytes == 2 ? 126 : 65_536) else {
            throw .protocolError("a length is written longer than needed")
        }
        guard length < 1 << 63 else { throw .protocolError("a length is out of range") }
        let isControl = header[0] & 0x08 != 0
        guard isControl || length <= UInt64(limit - message.count) else {
            throw Fault(code: 1009, reason: "message too big")
        }
    }

    private mutating func beginFrame() {
        let opcode = header[0] & 0x0F
        let mask = header.suffix(4).reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        frame = Frame(opcode: opcode, isFinal: header[0] & 0x80 != 0, remaining: Int(declaredLength), mask: mask)
        if opcode == Self.text || opcode == Self.binary {
            messageOpcode = opcode
            utf8 = UTF8Validator()
        }
    }

    // MARK: Payload

    private mutating func readPayload(_ bytes: inout ByteBuffer) throws(Fault) -> Event? {
        guard var current = frame else { return nil }
        let count = min(current.remaining, bytes.readableBytes)
        if count > 0, let piece = bytes.readSlice(length: count) {
            if current.opcode & 0x08 != 0 {
                Self.append(piece, to: &control, of: current)
            } else {
                let start = message.count
                Self.append(piece, to: &message, of: current)
                try checkText(from: start)
            }
            current.remaining -= count
            current.position += count
        }
        guard current.remaining == 0 else {
            frame = current
            return nil
        }
        frame = nil
        return try endFrame(current)
    }

    private mutating func checkText(from start: Int) throws(Fault) {
        guard messageOpcode == Self.text else { return }
        let isValid = message.withUnsafeBytes { utf8.accepts(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        guard isValid else { throw .invalidText }
    }

    private mutating func endFrame(_ ended: Frame) throws(Fault) -> Event? {
        if ended.opcode & 0x08 != 0 {
            let payload = control
            control = []
            switch ended.opcode {
            case Self.ping: return .ping(payload)
            case Self.pong: return .pong
            default:
                isOver = true
                return .close(code: try Self.closeCode(payload))
            }
        }
        guard ended.isFinal else { return nil }
        let opcode = messageOpcode
        let payload = message
        messageOpcode = nil
        message = []
        guard opcode == Self.text else { return .binary(payload) }
        guard utf8.isComplete else { throw .invalidText }
        return .text(payload)
    }

    /// Returns the code of a close frame if a client may send it (RFC 6455, 7.4); only servers may send 1012 to 1014.
    private static func closeCode(_ payload: [UInt8]) throws(Fault) -> UInt16? {
        guard !payload.isEmpty else { return nil }
        guard payload.count >= 2 else { throw .protocolError("a close frame of one byte") }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        switch code {
        case 1000...1003, 1007...1011, 3000...4999: break
        default: throw .protocolError("a close code that may not be sent")
        }
        var text = UTF8Validator()
        let isValid = payload.withUnsafeBytes { text.accepts(UnsafeRawBufferPointer(rebasing: $0[2...])) }
        guard isValid, text.isComplete else { throw .invalidText }
        return code
    }

    /// Appends a piece and unmasks it, eight bytes at a time.
    private static func append(_ piece: ByteBuffer, to target: inout [UInt8], of frame: Frame) {
        let start = target.count
        target.append(contentsOf: piece.readableBytesView)
        // The mask rotated to this piece's first byte, repeated twice, in memory order.
        let shift = UInt32(frame.position % 4) * 8
        let mask = shift == 0 ? frame.mask : frame.mask >> shift | frame.mask << (32 - shift)
        let wide = UInt64(mask) << 32 | UInt64(mask)
        target.withUnsafeMutableBytes { all in
            let bytes = UnsafeMutableRawBufferPointer(rebasing: all[start...])
            var index = 0
            while index + 8 <= bytes.count {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                bytes.storeBytes(of: (word ^ wide).littleEndian, toByteOffset: index, as: UInt64.self)
                index += 8
            }
            while index < bytes.count {
                bytes[index] ^= UInt8(truncatingIfNeeded: wide >> (UInt64(index % 8) * 8))
                index += 1
            }
        }
    }
}

extension FrameReader.Fault {
    fileprivate static func protocolError(_ reason: String) -> Self { Self(code: 1002, reason: reason) }
    fileprivate static let invalidText = Self(code: 1007, reason: "text is not UTF-8")
}

/// Validates UTF-8 incrementally, failing at the first invalid byte (RFC 3629; RFC 6455, 8.1).
package struct UTF8Validator {
    /// The number of continuation bytes that the current sequence still needs.
    private var needed: UInt8 = 0
    /// The range of the next continuation byte, which is narrower after some lead bytes.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    package init() {}

    /// Whether no sequence is incomplete; must be true at the end of the text.
    package var isComplete: Bool { needed == 0 }

    /// Validates the next bytes; returns `false` at the first invalid byte, after which the value must not be used.
    package mutating func accepts(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < bytes.count {
            if needed == 0 {
                index = Self.skipASCII(bytes, from: index)
                guard index < bytes.count else { return true }
                guard begins(bytes[index]) else { return false }
            } else {
                guard (lowest...highest).contains(bytes[index]) else { return false }
                needed -= 1
                lowest = 0x80
                highest = 0xBF
            }
            index += 1
        }
        return true
    }

    private mutating func begins(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x00...0x7F: return true
        case 0xC2...0xDF: needed = 1
        case 0xE0...0xEF:
            needed = 2
            if byte == 0xE0 { lowest = 0xA0 }
            if byte == 0xED { highest = 0x9F }
        case 0xF0...0xF4:
            needed = 3
            if byte == 0xF0 { lowest = 0x90 }
            if byte == 0xF4 { highest = 0x8F }
        default: return false
        }
        return true
    }

    /// Skips ASCII, which most texts consist of, eight bytes at a time.
    private static func skipASCII(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var index = start
        while index + 8 <= bytes.count,
            bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
        {
            index += 8
        }
        while index < bytes.count, bytes[index] < 0x80 { index += 1 }
        return index
    }
}
