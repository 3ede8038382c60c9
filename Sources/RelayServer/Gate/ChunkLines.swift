import NIOCore

/// Where in a chunked body the decoder is, so that chunks too long to be taken are refused by the length that they declare,
/// not when their bytes have come.
///
/// The parser, which is fed all the same bytes, judges their form; what it refuses need not be understood here. RFC 9112,
/// 7.1.
struct ChunkLines {
    private enum Place {
        /// In the line of a chunk's length; so many bytes of it have passed.
        case length(UInt64, count: Int, isRead: Bool)
        /// In a chunk's bytes and the line end behind them.
        case data(remaining: Int)
        /// Behind the last chunk, whose fields the parser counts.
        case trailers
    }

    /// What the chunks to come may declare between them.
    private var limit: Int
    private let lineLimit: Int
    private var place = Place.length(0, count: 0, isRead: false)

    /// - Parameters:
    ///   - limit: The bytes of all chunks together.
    ///   - lineLimit: The longest line of a chunk's length, extensions and all.
    init(limit: Int, line lineLimit: Int) {
        self.limit = limit
        self.lineLimit = lineLimit
    }

    /// How many of these bytes the parser may see next: never more than to the end of a line.
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
