import SQLiteStore
import Testing

/// The checksum of a page.
@Suite struct PageChecksumTests {
    /// Returns a page full of different bytes, with its checksum.
    private static func page(_ size: Int = 4_096, number: Int = 7) -> [UInt8] {
        var bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
        bytes.withUnsafeMutableBytes { PageChecksum.seal($0, number: number) }
        return bytes
    }

    private static func verdict(_ bytes: [UInt8], number: Int = 7) -> PageChecksum.Verdict {
        bytes.withUnsafeBytes { PageChecksum.verdict(on: $0, number: number) }
    }

    @Test(arguments: [512, 1_024, 4_096, 65_536]) func aPageIsValidOnlyAtItsOwnPosition(size: Int) {
        let page = Self.page(size)
        #expect(Self.verdict(page) == .good)
        for other in [1, 6, 8, 7 + 1 << 32] { #expect(Self.verdict(page, number: other) == .damaged) }
    }

    @Test func everyChangedBitIsDetected() {
        let page = Self.page(512)
        for index in page.indices {
            for bit in 0..<8 {
                var damaged = page
                damaged[index] ^= 1 << bit
                #expect(Self.verdict(damaged) == .damaged, "bit \(bit) of byte \(index)")
            }
        }
    }

    @Test func swappedBytesAreDetected() {
        let page = Self.page(512)
        for (one, other) in [(0, 8), (0, 32), (64, 480), (496, 472)] {
            var damaged = page
            for offset in 0..<8 { damaged.swapAt(one + offset, other + offset) }
            #expect(Self.verdict(damaged) == .damaged, "\(one) and \(other)")
        }
    }

    @Test func aPageWithoutAChecksumIsReportedAsSuch() {
        var page = Self.page()
        page.replaceSubrange(4_088..., with: [UInt8](repeating: 0, count: 8))
        #expect(Self.verdict(page) == .unsummed)
        #expect(Self.verdict([UInt8](repeating: 0, count: 4_096)) == .empty)
    }
}
