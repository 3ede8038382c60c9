import Records
import Testing

@testable import RelayAPI

/// Which signed writes are taken for repeated ones when the clock does not keep still.
@Suite struct SeenSignaturesTests {
    private static let right = Timestamp(milliseconds: 1_800_000_000_000)
    private static let ahead = right + .seconds(365 * 86_400)

    /// How many of so many new writes are taken, one each millisecond from `start` on.
    private func taken(_ count: Int, from start: Timestamp, marked: UInt128, _ seen: inout SeenSignatures) -> Int {
        (0..<count).count { number in
            let now = Timestamp(milliseconds: start.milliseconds + Int64(number))
            return seen.isNew(marked + UInt128(number), signed: now, by: "key", at: now, window: .seconds(600))
        }
    }

    @Test(arguments: [10_000, SeenSignatures.perKey + 1])
    func aClockThatWasAheadShutsNoKeyOutOnceItIsRight(_ before: Int) {
        var seen = SeenSignatures()
        #expect(taken(before, from: Self.ahead, marked: 0, &seen) == before)
        let after = SeenSignatures.perKey
        #expect(taken(after, from: Self.right, marked: 1 << 64, &seen) == after)
    }
}
