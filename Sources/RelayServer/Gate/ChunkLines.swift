import NIOCore

/// Tracks the position in a chunked body, so that oversized chunks are rejected by their declared length.
///
/// The parser receives the same bytes and checks their syntax; what it rejects need not be understood here. See RFC
/// 9112, 7.1.
struct ChunkLines {
    private enum Place {
        /// In the line of a chunk's length, of which `count` bytes have passed.
        case length(UInt64, count: Int, isRead: Bool)
        /// In a chunk's data, including the line end after it.
        case data(remaining: Int)
        /// After the last chunk; the parser limits the trailer fields.
        case trailers
    }

    /// The total bytes that further chunks may declare.
    private var limit: Int
    private let lineLimit: Int
    private var place = Place.length(0, count: 0, isRead: false)

    /// - Parameters:
    ///   - limit: The maximum bytes of all chunks together.
    ///   - lineLimit: The maximum bytes of a chunk's length line, including extensions.
    init(limit: Int, line lineLimit: Int) {
        self.limit = limit
        self.lineLimit = lineLimit
    }

    /// Returns how many of these bytes to pass to the parser next, at most to the end of a line.
    mutating func pass(_ bytes: ByteBufferView) throws(Refusal) -> Int {
        switch place {
        case .data(let remaining):
            let count = min(remaining, bytes.count)
            place = count == remaining ? .length(0, count: 0, isRead: false) : .data(remaining: remaining - count)
            return count
        case .trailers: return Self.lineEnd(in: bytes) ?? bytes.count
        case .length(var length, let passed, var isRead):
            let end = Self.lineEnd(in: bytes)
            let count = end ?? bytes.count
            guard passed + count <= lineLimit else { throw .malformed("the line of a chunk's length is too long") }
            for byte in bytes.prefix(count) where !isRead {
                guard let digit = Self.digit(byte) else {
                    isRead = true
                    continue
                }
                guard length >> 60 == 0 else { throw .malformed("a chunk's length has more than 64 bits") }
                length = length << 4 | digit
            }
            guard end != nil else {
                place = .length(length, count: passed + count, isRead: isRead)
                return count
            }
            guard length <= limit else { throw .bodyTooLarge }
            limit -= Int(length)
            place = length == 0 ? .trailers : .data(remaining: Int(length) + 2)
            return count
        }
    }

    private static func lineEnd(in bytes: ByteBufferView) -> Int? {
        bytes.firstIndex(of: UInt8(ascii: "\n")).map { $0 - bytes.startIndex + 1 }
    }

    private static func digit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case 0x30...0x39: UInt64(byte) - 0x30
        case 0x41...0x46: UInt64(byte) - 0x41 + 10
        case 0x61...0x66: UInt64(byte) - 0x61 + 10
        default: nil
        }
    }
}
