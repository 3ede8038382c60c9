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

@Suite struct NameRulesTests {
    @Test func namesOfZonesRecordsAndFieldsAreValidated() {
        #expect(NameRules.isZoneName("Notes") && NameRules.isZoneName("_defaultZone"))
        #expect(!NameRules.isZoneName("_Notes") && !NameRules.isZoneName("") && !NameRules.isZoneName("é"))
        #expect(NameRules.isRecordName("_a b") && !NameRules.isRecordName(String(repeating: "a", count: 256)))
        #expect(NameRules.isIdentifier("CD_Note") && !NameRules.isIdentifier("1a") && !NameRules.isIdentifier("a-b"))
    }
}
