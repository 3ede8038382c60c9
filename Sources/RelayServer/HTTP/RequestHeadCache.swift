package import NIOCore
package import RelayAPI

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The valid request heads that the connections of one event loop have sent, recognized if one is repeated byte by byte.
///
/// Clients repeat the same head in request after request, except for the body's length, or the key of a WebSocket
/// handshake. Comparing takes 1/40 of the time of parsing, and everything that the parser and the rules reject was
/// rejected in the first head. Whatever else a head determines is kept with the `RequestHead` of its plan: the route, and
/// the credentials with the result of checking them. Confined to its event loop.
package final class RequestHeadCache {
    /// Enough for hundreds of clients that reconnect, or take turns on a proxy's connections.
    ///
    /// A connection also holds its own latest head.
    private static let capacity = 1024

    /// By the hash of a head.
    ///
    /// Heads with the same hash replace each other.
    private var heads = GenerationalCache<Int, CachedRequestHead>(capacity: capacity)
    private let lookups: CacheLookups

    package init(lookups: CacheLookups) { self.lookups = lookups }

    /// Returns the head at the start of `buffer` with its position; `nil` if it is unknown or incomplete.
    ///
    /// `latest` is the head of the connection's previous request, which is usually repeated.
    package func match(
        _ buffer: ByteBuffer,
        from peer: String,
        latest: CachedRequestHead?
    ) -> (head: CachedRequestHead, match: CachedRequestHead.Match)? {
        if let latest, let match = latest.match(buffer) {
            lookups.countHit()
            return (latest, match)
        }
        let key = buffer.withUnsafeReadableBytes { bytes in
            CachedRequestHead.parts(of: bytes).map { Self.key(bytes, $0, peer) }
        }
        guard let key, let head = heads[key], head.peer == peer, let match = head.match(buffer) else { return nil }
        lookups.countHit()
        return (head, match)
    }

    /// Adds a head that has been parsed; returns `nil` if it must be parsed each time.
    ///
    /// `text` is the text of `plan`, including the final empty line.
    package func add(_ text: ByteBufferView, plan: RequestPlan, from peer: String) -> CachedRequestHead? {
        lookups.countMiss()
        guard let head = CachedRequestHead(text, plan: plan, from: peer) else { return nil }
        heads[text.withUnsafeBytes { Self.key($0, head.parts, peer) }] = head
        return head
    }

    private static func key(_ bytes: UnsafeRawBufferPointer, _ parts: CachedRequestHead.Parts, _ peer: String) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: bytes[..<parts.variable.lowerBound]))
        hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: bytes[parts.variable.upperBound..<parts.end]))
        hasher.combine(peer)
        return hasher.finalize()
    }
}

/// A request head as text and as a plan.
package final class CachedRequestHead: Sendable {
    /// The positions in a head's text.
    struct Parts {
        /// The part that may differ; empty and at the end if there is none.
        var variable: Range<Int>
        var meaning = Meaning.nothing
        /// After the final empty line.
        var end: Int
    }

    /// What the part that may differ stands for.
    enum Meaning {
        case nothing
        /// The digits of `Content-Length`.
        case bodyLength
        /// The value of `Sec-WebSocket-Key`.
        case webSocketKey
    }

    package struct Match {
        package var headLength: Int
        package var bodyLength = 0
        package var webSocketKey: String?
    }

    /// Longer body lengths, and heads so long that another digit could exceed a limit, are left to the parser.
    private static let maximumDigits = 7
    private static let maximumBytes = 4096
    /// The length of 16 bytes in base64; other keys are refused, and then need no cache.
    private static let keyLength = 24

    let plan: RequestPlan
    let peer: String
    let parts: Parts
    private let bytes: [UInt8]

    /// Returns `nil` for heads that must be parsed each time.
    package init?(_ head: ByteBufferView, plan: RequestPlan, from peer: String) {
        guard plan.isCacheable, head.count <= Self.maximumBytes,
            let parts = head.withUnsafeBytes(Self.parts), parts.end == head.count
        else { return nil }
        switch parts.meaning {
        case .nothing: guard plan.bodyLength == 0 else { return nil }
        case .bodyLength: guard parts.variable.count <= Self.maximumDigits else { return nil }
        case .webSocketKey: guard plan.purpose != nil, parts.variable.count == Self.keyLength else { return nil }
        }
        bytes = Array(head)
        self.plan = plan
        self.peer = peer
        self.parts = parts
    }

    /// Returns the variable parts of the head at the start of `buffer`; `nil` if it differs or is incomplete.
    package func match(_ buffer: ByteBuffer) -> Match? {
        let variable = parts.variable
        return buffer.withUnsafeReadableBytes { text in
            bytes.withUnsafeBytes { known in
                guard let start = text.baseAddress, let knownStart = known.baseAddress,
                    text.count >= variable.lowerBound, memcmp(start, knownStart, variable.lowerBound) == 0
                else { return nil }
                var match = Match(headLength: known.count)
                var position = variable.lowerBound
                switch parts.meaning {
                case .nothing: return match
                case .bodyLength:
                    while position < text.count, Self.isDigit(text[position]) {
                        match.bodyLength = match.bodyLength * 10 + Int(text[position] - 0x30)
                        position += 1
                        if position - variable.lowerBound > Self.maximumDigits { return nil }
                    }
                    guard position > variable.lowerBound else { return nil }
                case .webSocketKey:
                    position += Self.keyLength
                    guard text.count >= position else { return nil }
                    let key = text[variable.lowerBound..<position]
                    guard key.allSatisfy({ Self.isKeyByte($0) }) else { return nil }
                    match.webSocketKey = String(decoding: key, as: UTF8.self)
                }
                let rest = known.count - variable.upperBound
                guard text.count >= position + rest,
                    memcmp(start + position, knownStart + variable.upperBound, rest) == 0
                else { return nil }
                match.headLength = position + rest
                return match
            }
        }
    }

    /// Returns the parts of the head at the start of `bytes`; `nil` if it is incomplete, too long, or has a length that is
    /// not a number.
    ///
    /// A valid head has at most one length.
    static func parts(of bytes: UnsafeRawBufferPointer) -> Parts? {
        let text = UnsafeRawBufferPointer(rebasing: bytes.prefix(maximumBytes))
        guard let start = text.baseAddress else { return nil }
        var variable: (range: Range<Int>, meaning: Meaning)?
        var lineStart = 0
        while let found = memchr(start + lineStart, 0x0A, text.count - lineStart) {
            let lineEnd = UnsafeRawPointer(found) - start
            if lineEnd - lineStart <= 1 {
                let end = lineEnd + 1
                return Parts(variable: variable?.range ?? end..<end, meaning: variable?.meaning ?? .nothing, end: end)
            }
            let line = text[lineStart..<lineEnd]
            if let value = value(of: lengthName, in: line) {
                guard let first = value.firstIndex(where: { isDigit($0) }) else { return nil }
                variable = (first..<(value[first...].firstIndex { !isDigit($0) } ?? value.endIndex), .bodyLength)
            } else if variable == nil, let value = value(of: keyName, in: line) {
                let first = value.firstIndex { $0 != 0x20 } ?? value.endIndex
                variable = (first..<(value[first...].firstIndex { !isKeyByte($0) } ?? value.endIndex), .webSocketKey)
            }
            lineStart = lineEnd + 1
        }
        return nil
    }

    /// Returns what follows the name in the line of that field.
    private static func value(
        of name: [UInt8],
        in line: Slice<UnsafeRawBufferPointer>
    ) -> Slice<UnsafeRawBufferPointer>? {
        guard line.count > name.count, line[line.startIndex] | 0x20 == name[0],
            name.indices.allSatisfy({ line[line.startIndex + $0] | 0x20 == name[$0] })
        else { return nil }
        return line.dropFirst(name.count)
    }

    // In lower case. All their bytes have the bit that distinguishes lower from upper case letters.
    private static let lengthName = Array("content-length:".utf8)
    private static let keyName = Array("sec-websocket-key:".utf8)

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// Returns whether a byte occurs in base64.
    private static func isKeyByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): true
        default: false
        }
    }
}
