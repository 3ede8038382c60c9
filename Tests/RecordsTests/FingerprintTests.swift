import Records
import Testing

/// Files and tokens contain fingerprints.
///
/// Another algorithm would not recognise them.
@Suite struct FingerprintTests {
    @Test(
        arguments: [
            ("", 0xCBF2_9CE4_8422_2325), ("a", 0xAF63_DC4C_8601_EC8C), ("foobar", 0x8594_4171_F739_67E8),
        ] as [(String, UInt64)]
    )
    func fingerprintsAreFNV1a(_ text: String, _ sum: UInt64) {
        #expect(Fingerprint(of: text).sum == sum)
        #expect(Fingerprint(of: Array(text.utf8)).sum == sum)
    }

    @Test func partsCanBeAddedSeparately() {
        var print = Fingerprint(of: "foo")
        print.add("ba")
        print.add(UInt8(ascii: "r"))
        #expect(print.sum == Fingerprint(of: "foobar").sum)
    }

    @Test func thePairHasItsPublishedValue() {
        let (first, second) = Fingerprint.pair(of: "foobar".utf8)
        #expect(first == Fingerprint(of: "foobar").sum)
        #expect(second == 0x0B2E_00B6_198E_1827)
    }
}
