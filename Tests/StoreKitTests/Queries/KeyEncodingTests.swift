import Records
import StoreKit
import Testing

/// Index keys as bytes.
@Suite struct KeyEncodingTests {
    private static let keys: [QueryKey] = {
        let big = Int64(1) << 53
        let numbers: [Int64] = [
            .min, .min + 1, .min + 1_023, .min + 1_024, .min + 1_025, -big - 3, -big - 1, -big, -big + 1, -257, -256,
            -1,
            0, 1, 255, 256, big - 1, big, big + 1, big + 3, .max - 1_025, .max - 1_024, .max - 1_023, .max - 512,
            .max - 511, .max - 1, .max,
        ]
        var reals: [Double] = [.infinity, -.infinity, -0.0, .leastNonzeroMagnitude, -.leastNonzeroMagnitude, 1.5, -1.5]
        for number in numbers {
            let real = Double(number)
            reals += [real, real.nextUp, real.nextDown, real / 3]
        }
        let texts = ["", "\u{0}", "a", "a\u{0}", "aa", "ab", "b", "é", "e\u{301}", "\u{D7FF}", "\u{E000}", "新", "😀"]
        let bytes: [[UInt8]] = [[], [0], [0, 0], [1], [0x7F], [0x80], [0xFF], [0xFF, 0]]
        var keys = [QueryKey.absent]
        keys += numbers.map { .number($0) }
        keys += reals.map { .real($0) }
        keys += texts.map { .text($0) }
        keys += bytes.map { .bytes($0) }
        return keys
    }()

    @Test func bytesAreInTheOrderOfTheKeys() {
        for a in Self.keys {
            for b in Self.keys {
                #expect((a < b) == a.ordered.lexicographicallyPrecedes(b.ordered), "\(a) and \(b)")
                #expect((a == b) == (a.ordered == b.ordered), "\(a) and \(b)")
            }
        }
    }

    @Test func decodingReturnsAnEqualKey() {
        for key in Self.keys { #expect(QueryKey(ordered: key.ordered) == key) }
    }

    @Test(arguments: [[], [4], [0, 0], [1], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0], [2, 0xFF]] as [[UInt8]])
    func damagedBytesAreNoKey(_ bytes: [UInt8]) { #expect(QueryKey(ordered: bytes) == nil) }

    /// A fraction has no rest, and no rest makes an integer too large.
    @Test(arguments: [QueryKey.real(1.5), .number(.max)]) func aWrongRestIsNoKey(_ key: QueryKey) {
        var bytes = key.ordered
        bytes[9] = 0xFF
        #expect(QueryKey(ordered: bytes) == nil)
    }
}
