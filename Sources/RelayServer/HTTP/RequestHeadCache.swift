import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The last valid request head of a connection, which is recognized if it is repeated byte by byte.
///
/// Clients repeat the same head in request after request, except for the body's length. Comparing takes 1/40 of the
/// time of parsing, and everything that the parser and the rules reject was rejected in the first head.
///
/// A class, because every request uses it and it never changes.
final class RequestHeadCache {
    /// Longer body lengths, and heads so long that another digit could exceed a limit, are left to the parser.
    private static let maximumDigits = 7
    private static let maximumBytes = 4096

    let plan: RequestPlan
    private let bytes: [UInt8]
    /// The position of the digits of `Content-Length`; empty and at the end if there is no such field.
    private let length: Range<Int>

    /// `head` is the text of `plan`, including the final empty line; returns `nil` for heads that must be parsed each
    /// time.
    init?(_ head: ByteBufferView, plan: RequestPlan) {
        guard plan.isCacheable, head.count <= Self.maximumBytes else { return nil }
        bytes = Array(head)
        self.plan = plan
        guard let length = Self.lengthDigits(in: bytes) else {
            guard plan.bodyLength == 0 else { return nil }
            length = bytes.count..<bytes.count
            return
        }
        guard (1...Self.maximumDigits).contains(length.count) else { return nil }
        self.length = length
    }

    /// Returns the length of the head at the start of `buffer` and of its body; `nil` if it differs or is incomplete.
    func match(_ buffer: ByteBuffer) -> (headLength: Int, bodyLength: Int)? {
        buffer.withUnsafeReadableBytes { text in
            bytes.withUnsafeBytes { known in
                guard let text = text.baseAddress.map({ UnsafeRawBufferPointer(start: $0, count: text.count) }),
                    let start = text.baseAddress, let knownStart = known.baseAddress,
                    text.count >= length.lowerBound, memcmp(start, knownStart, length.lowerBound) == 0
                else { return nil }
                if length.isEmpty { return (known.count, 0) }
                var (position, number) = (length.lowerBound, 0)
                while position < text.count, (0x30...0x39).contains(text[position]) {
                    number = number * 10 + Int(text[position] - 0x30)
                    position += 1
                    if position - length.lowerBound > Self.maximumDigits { return nil }
                }
                let rest = known.count - length.upperBound
                guard position > length.lowerBound, text.count >= position + rest,
                    memcmp(start + position, knownStart + length.upperBound, rest) == 0
                else { return nil }
                return (position + rest, number)
            }
        }
    }

    /// Returns the position of the length's digits; a valid head has at most one such field.
    private static func lengthDigits(in head: [UInt8]) -> Range<Int>? {
        let name = Array("content-length:".utf8)
        var lineStart = 0
        while let end = head[lineStart...].firstIndex(of: UInt8(ascii: "\n")) {
            let line = head[lineStart..<end]
            if line.count > name.count, zip(line, name).allSatisfy({ $0 | 0x20 == $1 || $0 == $1 }) {
                let value = line.dropFirst(name.count)
                guard let first = value.firstIndex(where: { (0x30...0x39).contains($0) }) else { return nil }
                let last = value[first...].firstIndex { !(0x30...0x39).contains($0) } ?? value.endIndex
                return first..<last
            }
            lineStart = end + 1
        }
        return nil
    }
}
