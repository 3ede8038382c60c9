import Records
import Testing

@Suite struct ChangeTokenTests {
    @Test func comesBackAsItWent() throws {
        let token = ChangeToken(kind: .zone, log: .max, epoch: 7, position: 1 << 40)
        #expect(ChangeToken(encoded: token.encoded) == token)
        let backwards = token.reversed(above: 3)
        #expect(ChangeToken(encoded: backwards.encoded) == backwards)
    }

    @Test(arguments: ["", "AAAA", "not base64!", String(repeating: "A", count: 44), String(repeating: "A", count: 48)])
    func refusesWhatNoRelayWrote(_ text: String) {
        #expect(ChangeToken(encoded: text) == nil)
    }
}

@Suite struct Base64Tests {
    static let pairs = [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("\u{0}\u{7F}", "AH8="),
    ]

    @Test(arguments: pairs) func encodesAndDecodes(_ plain: String, _ encoded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(plain.utf8))
    }

    @Test(arguments: ["Z", "Zg", "Zg=", "Z===", "Zh==", "Zm9=", "Z g=", "====", "Zg==Zg==", "-_-_"])
    func refusesOtherForms(_ text: String) {
        #expect(Base64.decode(text) == nil)
    }
}

@Suite struct NameRulesTests {
    @Test func zonesRecordsAndFields() {
        #expect(NameRules.isZoneName("Notes") && NameRules.isZoneName("_defaultZone"))
        #expect(!NameRules.isZoneName("_Notes") && !NameRules.isZoneName("") && !NameRules.isZoneName("é"))
        #expect(NameRules.isRecordName("_a b") && !NameRules.isRecordName(String(repeating: "a", count: 256)))
        #expect(NameRules.isIdentifier("CD_Note") && !NameRules.isIdentifier("1a") && !NameRules.isIdentifier("a-b"))
    }
}
