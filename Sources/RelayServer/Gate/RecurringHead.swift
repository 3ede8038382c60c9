import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The last head of a connection that was found good: one that comes again byte by byte means the same again.
///
/// Clients send the same head request after request, but for the length of the body. Comparing it costs a fortieth of
/// reading it, and whatever the parser and the rules refuse they have refused of this one too.
///
/// A class, since every request looks at it and it never changes.
final class RecurringHead {
    /// A length of more digits is left to the parser, and so are heads so long that a digit more could matter to a limit.
    private static let mostDigits = 7
    private static let mostBytes = 4096

    let plan: RequestPlan
    private let bytes: [UInt8]
    /// Where the digits of `Content-Length` stand; empty and at the end where there is no such field.
    private let length: Range<Int>

    /// `head` is what `plan` was made of, with the empty line at its end; `nil` for heads that had better be read anew.
    init?(_ head: ByteBufferView, plan: RequestPlan) {
        guard plan.mayRecur, head.count <= Self.mostBytes else { return nil }
        bytes = Array(head)
        self.plan = plan
        guard let length = Self.lengthDigits(in: bytes) else {
            guard plan.bodyLength == 0 else { return nil }
            length = bytes.count..<bytes.count
            return
        }
        guard (1...Self.mostDigits).contains(length.count) else { return nil }
        self.length = length
    }

    /// How long the head at the start of `buffer` is and what body it declares; `nil` if it is another one, or not whole.
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
                    if position - length.lowerBound > Self.mostDigits { return nil }
                }
                let rest = known.count - length.upperBound
                guard position > length.lowerBound, text.count >= position + rest,
                    memcmp(start + position, knownStart + length.upperBound, rest) == 0
                else { return nil }
                return (position + rest, number)
            }
        }
    }

    /// Of the one field of that name, which a good head has.
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
