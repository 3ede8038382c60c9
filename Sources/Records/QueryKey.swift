/// What a value is compared and sorted by: the same for a filter's value, a record's, and an index entry.
///
/// Keys of one field are all of one case, or `absent`; but of a NUMBER that was settled older values are `real`, and new
/// ones `number`: these compare as numbers, as SQLite has them in its indexes. Text compares by its Unicode scalars, which
/// is the order of its UTF-8 bytes: the same on every machine and in every language, and case matters. A text or byte
/// sequence of more than `longest` bytes is held by its beginning and a hash of it all, so that equality stays exact and
/// an index entry stays small.
package enum QueryKey: Hashable, Sendable, Comparable {
    /// No value: before all others.
    case absent
    /// Integers, moments in milliseconds, change numbers, cells of the globe.
    case number(Int64)
    /// Doubles and distances.
    case real(Double)
    case text(String)
    case bytes([UInt8])

    /// Bytes of a text or byte sequence that count for its order.
    package static let longest = 1_000

    package static func < (a: QueryKey, b: QueryKey) -> Bool {
        switch (a, b) {
        case (.absent, .absent): false
        case (.number(let x), .number(let y)): x < y
        case (.real(let x), .real(let y)): x < y
        case (.number(let x), .real(let y)): order(x, y) < 0
        case (.real(let x), .number(let y)): order(y, x) > 0
        case (.text(let x), .text(let y)): x.precedesInUTF8(y)
        case (.bytes(let x), .bytes(let y)): x.lexicographicallyPrecedes(y)
        default: a.rank < b.rank
        }
    }

    /// Bytes decide, not Unicode's canonical equivalence: an index knows no other equality.
    package static func == (a: QueryKey, b: QueryKey) -> Bool {
        switch (a, b) {
        case (.absent, .absent): true
        case (.number(let x), .number(let y)): x == y
        case (.real(let x), .real(let y)): x == y
        case (.number(let x), .real(let y)), (.real(let y), .number(let x)): order(x, y) == 0
        case (.text(let x), .text(let y)): x.utf8.elementsEqual(y.utf8)
        case (.bytes(let x), .bytes(let y)): x == y
        default: false
        }
    }

    package func hash(into hasher: inout Hasher) {
        switch self {
        case .absent: break
        case .number(let number): hasher.combine(number)
        case .real(let number):
            if let whole = Int64(exactly: number) { hasher.combine(whole) } else { hasher.combine(number) }
        case .text(var text): text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        case .bytes(let bytes): hasher.combine(bytes)
        }
    }

    /// Below 0 where the integer is less, above where it is greater: exactly, where a double cannot hold all integers.
    private static func order(_ a: Int64, _ b: Double) -> Int {
        guard let whole = Int64(exactly: b.rounded(.down)) else { return b < 0 ? 1 : -1 }
        if a != whole { return a < whole ? -1 : 1 }
        return b > b.rounded(.down) ? -1 : 0
    }

    private var rank: Int {
        switch self {
        case .absent: 0
        case .number, .real: 1
        case .text: 2
        case .bytes: 3
        }
    }

    /// The key of a scalar; a location's is its cell, which is not its place.
    ///
    /// `nil` for lists and assets.
    package init?(_ value: FieldValue) {
        switch value {
        case .string(let text): self = .text(Self.shortened(text))
        case .int64(let number): self = .number(number)
        // The two zeros are one number.
        case .double(let number): self = .real(number == 0 ? 0 : number)
        case .timestamp(let moment): self = .number(moment.milliseconds)
        case .bytes(let bytes): self = .bytes(Self.shortened(bytes))
        case .reference(let reference): self = .text(Self.shortened(reference.recordName))
        case .location(let location): self = .number(Int64(location.cell))
        case .asset, .list: return nil
        }
    }

    private static func shortened(_ text: String) -> String {
        guard text.utf8.count > longest else { return text }
        var start = text.utf8.prefix(longest)
        // Never half a character: the bytes after the first of one are 10xxxxxx.
        while let last = start.last, last & 0xC0 == 0x80 { start = start.dropLast() }
        return String(decoding: start.dropLast(), as: UTF8.self) + hash(of: text.utf8)
    }

    private static func shortened(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.count > longest else { return bytes }
        return bytes.prefix(longest) + Array(hash(of: bytes).utf8)
    }

    private static func hash(of bytes: some Sequence<UInt8>) -> String {
        let (first, second) = Fingerprint.pair(of: bytes)
        return "\u{0}" + String(first, radix: 36) + "." + String(second, radix: 36)
    }
}

extension String {
    /// Binary order, without copying where both stand in one piece.
    package func precedesInUTF8(_ other: String) -> Bool {
        utf8.lexicographicallyPrecedes(other.utf8)
    }
}
