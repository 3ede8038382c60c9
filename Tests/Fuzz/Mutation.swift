/// Mutates inputs at random, by bytes and by structure.
///
/// The same seed gives the same mutations.
///
/// The structure is words, numbers, quoted strings and brackets, which fits JSON, the schema language and predicates.
/// Whole groups are dropped, doubled, swapped, wrapped, or replaced by those of another input.
package struct Mutation {
    private var state: UInt64
    private let words: [[UInt8]]

    package init(seed: UInt64, words: [String]) {
        state = seed
        self.words = words.map { Array($0.utf8) }
    }

    private mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func below(_ bound: Int) -> Int { bound <= 1 ? 0 : Int(next() % UInt64(bound)) }

    /// The maximum length of a mutated input.
    private static let longest = 16 * 1024

    /// Applies one to five mutations.
    package mutating func change(_ input: [UInt8], other: [UInt8]) -> [UInt8] {
        var bytes = input
        for _ in 0...below(5) {
            bytes = below(3) == 0 ? changeBytes(bytes, other) : changeGroups(bytes, other)
        }
        return Array(bytes.prefix(Self.longest))
    }

    // MARK: Bytes

    private mutating func changeBytes(_ input: [UInt8], _ other: [UInt8]) -> [UInt8] {
        var bytes = input
        let place = below(bytes.count + 1)
        switch below(7) {
        case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8(below(8))
        case 1 where place < bytes.count: bytes[place] = UInt8(below(256))
        case 2: bytes.insert(contentsOf: (0...below(3)).map { _ in UInt8(below(256)) }, at: place)
        case 3: bytes.removeSubrange(place..<min(bytes.count, place + below(8)))
        case 4: bytes = Array(bytes[..<place])
        case 5: bytes.insert(contentsOf: piece(of: bytes), at: place)
        default: bytes = Array(bytes[..<place]) + piece(of: other)
        }
        return bytes
    }

    private mutating func piece(of bytes: [UInt8]) -> ArraySlice<UInt8> {
        let start = below(bytes.count + 1)
        return bytes[start..<min(bytes.count, start + below(64))]
    }

    // MARK: Groups

    private mutating func changeGroups(_ input: [UInt8], _ other: [UInt8]) -> [UInt8] {
        let groups = Self.groups(of: input)
        guard !groups.isEmpty else { return changeBytes(input, other) }
        let one = groups[below(groups.count)]
        let two = groups[below(groups.count)]
        func with(_ replacement: some Collection<UInt8>) -> [UInt8] {
            Array(input[..<one.lowerBound]) + Array(replacement) + Array(input[one.upperBound...])
        }
        switch below(8) {
        case 0: return with([])
        case 1: return with(Array(input[one]) + Array(input[one]))
        case 2: return with(input[two])
        case 3 where !one.overlaps(two):
            let (first, second) = one.lowerBound < two.lowerBound ? (one, two) : (two, one)
            return Array(input[..<first.lowerBound]) + Array(input[second])
                + Array(input[first.upperBound..<second.lowerBound]) + Array(input[first])
                + Array(input[second.upperBound...])
        case 4:
            let others = Self.groups(of: other)
            return others.isEmpty ? with(word()) : with(other[others[below(others.count)]])
        case 5: return with(wrapped(Array(input[one])))
        default: return with(word())
        }
    }

    private mutating func wrapped(_ bytes: [UInt8]) -> [UInt8] {
        let pairs = [("[", "]"), ("{\"a\":", "}"), ("(", ")"), ("NOT (", ")"), ("\"", "\""), ("LIST<", ">"), ("%", "")]
        let (open, close) = pairs[below(pairs.count)]
        let times = below(20) == 0 ? 1 + below(200) : 1
        return Array(String(repeating: open, count: times).utf8) + bytes
            + Array(String(repeating: close, count: times).utf8)
    }

    /// Values that often break parsers.
    private static let oddities: [String] = [
        "0", "-1", "1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
        "1e308", "1e309", "-1e-400", "0.1", "4294967296", "65536", "2147483647", "-0", "01", "1.", ".5", "1E+5", "NaN",
        "null", "true", "false", "{}", "[]", "\"\"", "\"\\u0000\"", "\"\\ud800\"", "\"\\udc00\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\u{FEFF}", "\u{0}", "é", "e\u{301}", "\u{1F468}\u{200D}\u{1F469}", "\u{2028}", "ﬀ", "İ", "\r\n", "\n", "\t",
        " ",
        "..", "/", "\\", "%00", "%", "%@", "%K", "'", "\"", "--", "/*", "*/", ",", ":", ";", "(", ")", "[", "]", "{",
        "}",
        "<", ">", "=", "_", "__", "AAAA", "==", "-", "+", "\\", "a".padding(300),
    ]

    private mutating func word() -> [UInt8] {
        if words.isEmpty || below(3) == 0 { return Array(Self.oddities[below(Self.oddities.count)].utf8) }
        return words[below(words.count)]
    }

    /// The ranges of words, numbers, strings and whole bracket groups.
    static func groups(of bytes: [UInt8]) -> [Range<Int>] {
        var groups: [Range<Int>] = []
        var open: [Int] = []
        var index = 0
        while index < bytes.count, groups.count < 2_000 {
            let byte = bytes[index]
            let start = index
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "'"):
                index += 1
                while index < bytes.count, bytes[index] != byte {
                    index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
                }
                index = min(index + 1, bytes.count)
                groups.append(start..<index)
            case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "("), UInt8(ascii: "<"):
                open.append(index)
                index += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"), UInt8(ascii: ")"), UInt8(ascii: ">"):
                index += 1
                if let start = open.popLast() { groups.append(start..<index) }
            case _ where isWordByte(byte):
                while index < bytes.count, isWordByte(bytes[index]) { index += 1 }
                groups.append(start..<index)
            default:
                index += 1
                if byte > 0x20 { groups.append(start..<index) }
            }
        }
        return groups
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2D, 0x2E, 0x5F, 0x80...: true
        default: false
        }
    }
}

extension String {
    fileprivate func padding(_ count: Int) -> String { String(repeating: self, count: count) }
}
