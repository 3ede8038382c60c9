import Records
import Testing

@Suite struct ChangeTokenTests {
    @Test func anEncodedTokenIsDecoded() throws {
        let token = ChangeToken(kind: .zone, log: .max, epoch: 7, position: 1 << 40)
        #expect(ChangeToken(encoded: token.encoded) == token)
        let backwards = token.reversed(below: 9, above: 3)
        #expect(ChangeToken(encoded: backwards.encoded) == backwards)
        #expect(backwards.top == token.position)
    }

    @Test(arguments: ["", "AAAA", "not base64!", String(repeating: "A", count: 44), String(repeating: "A", count: 48)])
    func invalidTokensAreRefused(_ text: String) {
        #expect(ChangeToken(encoded: text) == nil)
    }
}

@Suite struct DatabaseTokenTests {
    @Test func anEncodedTokenIsDecoded() throws {
        let place = VectorToken.Place(owner: VectorToken.fingerprint(of: UserID("_a")), epoch: 7, position: 1 << 40)
        for places in [[], [place], [.init(owner: 1, epoch: .max, position: 0), place]] {
            let token = DatabaseToken.vector(VectorToken(log: .max, places: places))
            #expect(DatabaseToken(encoded: token.encoded) == token)
            #expect(token.position(of: UserID("_a")) == (places.isEmpty ? nil : 1 << 40))
            #expect(token.position(of: UserID("_b")) == nil)
        }
        let single = DatabaseToken.scalar(ChangeToken(kind: .database, log: 1, epoch: 2, position: 3))
        #expect(DatabaseToken(encoded: single.encoded) == single)
        #expect(single.position(of: UserID("_b")) == 3)
    }

    @Test func invalidTokensAreRefused() {
        let place = VectorToken.Place(owner: 2, epoch: 7, position: 8)
        let twice = VectorToken(log: 1, places: [place, place]).encoded
        let zone = ChangeToken(kind: .zone, log: 1, epoch: 2, position: 3).encoded
        for text in ["", "BAAA", "BAAAAAAAAAAAAAAA", twice, zone, "not base64!"] {
            #expect(DatabaseToken(encoded: text) == nil, "\(text)")
        }
    }
}

@Suite struct NameRulesTests {
    @Test func namesOfZonesRecordsAndFieldsAreValidated() {
        #expect(NameRules.isZoneName("Notes") && NameRules.isZoneName("_defaultZone"))
        #expect(!NameRules.isZoneName("_Notes") && !NameRules.isZoneName("") && !NameRules.isZoneName("é"))
        #expect(NameRules.isRecordName("_a b") && !NameRules.isRecordName(String(repeating: "a", count: 256)))
        #expect(NameRules.isIdentifier("CD_Note") && !NameRules.isIdentifier("1a") && !NameRules.isIdentifier("a-b"))
    }
}

/// The order of values in comparisons and sorts.
@Suite struct QueryKeyTests {
    /// A NUMBER field may contain both doubles and integers; SQLite's indexes order both as numbers.
    @Test func integersAndDoublesHaveOneOrder() {
        let keys: [QueryKey] = [
            .absent, .real(-.infinity), .real(-0x1p63), .number(.min + 1), .real(-2.5), .number(-2), .real(-0.5),
            .number(0),
            .real(0.5), .number(1), .real(0x1p53), .number((1 << 53) + 1), .number(.max), .real(0x1p63),
            .real(.infinity),
            .text(""),
        ]
        for (place, key) in keys.enumerated() {
            for (other, against) in keys.enumerated() {
                #expect((key < against) == (place < other), "\(key) \(against)")
                #expect((key == against) == (place == other), "\(key) \(against)")
            }
        }
        let pairs: [(Int64, Double)] = [(5, 5), (0, 0), (-7, -7), (.min, -0x1p63), (1 << 53, 0x1p53)]
        for (whole, real) in pairs {
            #expect(QueryKey.number(whole) == .real(real) && QueryKey.real(real) == .number(whole))
            #expect(Set([QueryKey.number(whole), .real(real)]).count == 1)
            #expect(!(QueryKey.number(whole) < .real(real)) && !(QueryKey.real(real) < .number(whole)))
        }
    }
}

@Suite struct TimestampTests {
    /// The whole seconds just fit; with the fraction added they no longer do.
    @Test(arguments: [
        (Duration.milliseconds(Int64.max), Int64.max), (.milliseconds(Int64.min), .min),
        (.milliseconds(Int64.max) + .milliseconds(100), .max), (.milliseconds(Int64.min) - .milliseconds(100), .min),
        (.seconds(Int64.max), .max), (.microseconds(1_999), 1), (.microseconds(-1_999), -1),
    ])
    func durationsSaturateAtTheEndsOfTheRange(_ duration: Duration, _ milliseconds: Int64) {
        #expect(duration.wholeMilliseconds == milliseconds)
        #expect(Timestamp(milliseconds: 0) + duration == Timestamp(milliseconds: milliseconds))
    }
}

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

@Suite struct Base64Tests {
    /// RFC 4648, section 10, and the last two characters of the alphabet.
    static let pairs: [(bytes: [UInt8], text: String)] = [
        ([], ""), (Array("f".utf8), "Zg=="), (Array("fo".utf8), "Zm8="), (Array("foo".utf8), "Zm9v"),
        (Array("foob".utf8), "Zm9vYg=="), (Array("fooba".utf8), "Zm9vYmE="), (Array("foobar".utf8), "Zm9vYmFy"),
        ([0xFB, 0xFF, 0xBF], "+/+/"), ([0, 0, 0], "AAAA"), ([0xFF], "/w=="), ([0, 0x7F], "AH8="),
    ]

    @Test(arguments: pairs.indices) func encodedBytesAreDecoded(_ row: Int) {
        let (bytes, text) = Self.pairs[row]
        #expect(Base64.encode(bytes) == text)
        #expect(Base64.encode(AnyCollection(bytes)) == text)
        #expect(Base64.length(of: bytes.count) == text.utf8.count)
        #expect(Base64.decode(text) == bytes)
        #expect(Base64.decode(AnyCollection(Array(text.utf8))) == bytes)
    }

    static let bad = [
        "Z", "-_-_", "Z===", "Z g=", "Zg", "Zg=", "Zg===", "====", "=Zg=", "Z=g=", "Zh==", "Zm9=", "Zm9-", "Zm9v\n",
        "Zg==Zg==", "Zm 9",
    ]

    @Test(arguments: bad) func invalidBase64IsRefused(_ text: String) {
        #expect(Base64.decode(text) == nil)
        #expect(Base64.decode(AnyCollection(Array(text.utf8))) == nil)
    }
}
