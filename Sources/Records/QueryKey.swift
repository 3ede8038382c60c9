/// A comparison and sort key, the same for a filter's value, a record's value and an index entry.
///
/// The keys of one field are all of one case, or `absent`. The exception is a NUMBER whose type was decided later, with `real` keys
/// for older values and `number` keys for new ones; these compare as numbers, as in SQLite's indexes. Text compares by
/// Unicode scalars, which is the order of its UTF-8 bytes: case-sensitive and independent of machine and language. Text
/// and bytes longer than `longest` are stored as a prefix and a hash of the whole, so that equality stays exact and
/// index entries stay small.
package enum QueryKey: Hashable, Sendable, Comparable {
    /// No value; sorts before all others.
    case absent
    /// Integers, times in milliseconds, change numbers and grid cells.
    case number(Int64)
    /// Doubles and distances.
    case real(Double)
    case text(String)
    case bytes([UInt8])

    /// The number of bytes of a text or byte sequence that determine its order.
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

    /// Compares bytes, without Unicode's canonical equivalence, which indexes do not support.
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

    /// Compares exactly, even where a double cannot represent every integer; negative if `a` is less than `b`.
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

    /// Returns the key of a scalar; `nil` for lists and assets.
    ///
    /// The key of a location is its grid cell, which does not determine the exact place.
    package init?(_ value: FieldValue) {
        switch value {
        case .string(let text): self = .text(Self.shortened(text))
        case .int64(let number): self = .number(number)
        // 0.0 and -0.0 are equal.
        case .double(let number): self = .real(number == 0 ? 0 : number)
        case .timestamp(let timestamp): self = .number(timestamp.milliseconds)
        case .bytes(let bytes): self = .bytes(Self.shortened(bytes))
        case .reference(let reference): self = .text(Self.shortened(reference.recordName))
        case .location(let location): self = .number(Int64(location.cell))
        case .asset, .list: return nil
        }
    }

    private static func shortened(_ text: String) -> String {
        guard text.utf8.count > longest else { return text }
        var start = text.utf8.prefix(longest)
        // Never cuts a character: its continuation bytes are 10xxxxxx.
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
    /// Binary order of the UTF-8 bytes.
    package func precedesInUTF8(_ other: String) -> Bool {
        utf8.lexicographicallyPrecedes(other.utf8)
    }
}
