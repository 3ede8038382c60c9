import Records
import Testing

@testable import RelayAPI

/// Detection of repeated signed writes when the clock jumps.
@Suite struct SeenSignaturesTests {
    private static let right = Timestamp(milliseconds: 1_800_000_000_000)
    private static let ahead = right + .seconds(365 * 86_400)

    /// Returns how many of `count` new writes are accepted, one each millisecond from `start`.
    private func accepted(_ count: Int, from start: Timestamp, marked: UInt128, _ seen: inout SeenSignatures) -> Int {
        (0..<count).count { number in
            let now = Timestamp(milliseconds: start.milliseconds + Int64(number))
            return seen.isNew(marked + UInt128(number), signed: now, by: "key", at: now, window: .seconds(600))
        }
    }

    @Test(arguments: [10_000, SeenSignatures.perKey + 1])
    func aCorrectedClockLocksNoKeyOut(_ before: Int) {
        var seen = SeenSignatures()
        #expect(accepted(before, from: Self.ahead, marked: 0, &seen) == before)
        let after = SeenSignatures.perKey
        #expect(accepted(after, from: Self.right, marked: 1 << 64, &seen) == after)
    }
}
