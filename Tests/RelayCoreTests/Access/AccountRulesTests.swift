import RelayCore
import Testing

@Suite struct AccountRulesTests {
    @Test(arguments: [
        ("alice@example.org", "alice@example.org"), ("  Alice@Example.ORG\n", "alice@example.org"), ("a@b", "a@b"),
    ])
    func addressesAreTrimmedAndLowered(written: String, stored: String) {
        #expect(AccountRules.canonicalEmail(written) == stored)
    }

    /// The two are one address to people and to a mail server; as bytes they would be two accounts.
    @Test func composedAndDecomposedLettersAreTheSameAddress() throws {
        let composed = try #require(AccountRules.canonicalEmail("J\u{FC}rgen@ex\u{E4}mple.org"))
        let decomposed = try #require(AccountRules.canonicalEmail("Ju\u{308}rgen@exa\u{308}mple.org"))
        #expect(Array(composed.utf8) == Array(decomposed.utf8))
    }

    @Test(arguments: [
        "", "alice", "@", "a@", "@b", "a@b@c", "a b@c", "a@b\u{0}c", String(repeating: "a", count: 300) + "@b",
    ])
    func whatCannotBeAnAddress(text: String) {
        #expect(AccountRules.canonicalEmail(text) == nil)
    }

    @Test(arguments: [
        ("+49 (30) 123-4567", "+49301234567"), ("0049.30.1234567", "+49301234567"), ("030 1234567", "0301234567"),
    ])
    func numbersAreWrittenInOneWay(written: String, stored: String) {
        #expect(AccountRules.canonicalPhone(written) == stored)
    }

    @Test(arguments: ["", "+", "123456", "+1234567890123456", "+49 30 x", "++491234567", "٠١٢٣٤٥٦٧"])
    func whatCannotBeANumber(text: String) {
        #expect(AccountRules.canonicalPhone(text) == nil)
    }

    @Test(arguments: [
        ("  Ada\n", "Ada"), ("Ada\u{0}\u{1B}[31m", "Ada[31m"), (" \t ", nil), ("", nil), ("Zoë", "Zoë"),
    ])
    func partsOfNamesAreTidied(written: String, kept: String?) {
        #expect(PersonName.part(written) == kept)
    }

    @Test func aNameHasAnEnd() {
        let cut = PersonName.part(String(repeating: "ä", count: 1000))
        #expect(cut?.utf8.count == PersonName.longestPart)
    }

    @Test func devNames() {
        for name in ["alice", "Alice.B-1_x@y+z", String(repeating: "a", count: 64)] {
            #expect(AccountRules.isDevName(name))
        }
        for name in ["", "a b", "ä", "a/b", String(repeating: "a", count: 65)] {
            #expect(!AccountRules.isDevName(name))
        }
    }

    @Test func constantTimeComparisonStillCompares() {
        #expect(ConstantTime.areEqual([], []))
        #expect(ConstantTime.areEqual([1, 2, 3], [1, 2, 3]))
        #expect(!ConstantTime.areEqual([1, 2, 3], [1, 2, 4]))
        #expect(!ConstantTime.areEqual([1, 2, 3], [1, 2]))
    }
}
