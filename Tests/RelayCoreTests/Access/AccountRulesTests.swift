import RelayCore
import Testing

@Suite struct AccountRulesTests {
    @Test(arguments: [
        ("alice@example.org", "alice@example.org"), ("  Alice@Example.ORG\n", "alice@example.org"), ("a@b", "a@b"),
    ])
    func addressesAreTrimmedAndLowercased(written: String, stored: String) {
        #expect(AccountRules.canonicalEmail(written) == stored)
    }

    /// People and mail servers treat both spellings as one address; compared by bytes, they would be two accounts.
    @Test func composedAndDecomposedLettersAreTheSameAddress() throws {
        let composed = try #require(AccountRules.canonicalEmail("J\u{FC}rgen@ex\u{E4}mple.org"))
        let decomposed = try #require(AccountRules.canonicalEmail("Ju\u{308}rgen@exa\u{308}mple.org"))
        #expect(Array(composed.utf8) == Array(decomposed.utf8))
    }

    @Test(
        "either spelling of an internationalised domain is the same address",
        arguments: [
            ("ada@b\u{FC}cher.example", "ada@xn--bcher-kva.example"),
            ("ada@B\u{DC}CHER.example", "ADA@XN--BCHER-KVA.EXAMPLE"),
            ("ada@bu\u{308}cher.example", " ada@b\u{FC}cher.example. "),
            ("ada@stra\u{DF}e.example", "ada@xn--strae-oqa.example"),
            ("ada@\u{4F8B}\u{3048}\u{3002}jp", "ada@xn--r8jz45g.jp"), ("a@\u{FF45}xample.org", "a@example.org"),
            ("\u{1E9B}\u{323}@a.example", "\u{1E9B}\u{323}@A.EXAMPLE"), ("u\u{308}@\u{2603}.net", "\u{FC}@xn--n3h.net"),
            ("ada@example.org.", "ada@EXAMPLE.org"),
        ]
    )
    func spellings(one: String, other: String) throws {
        let canonical = try #require(AccountRules.canonicalEmail(one))
        let same = try #require(AccountRules.canonicalEmail(other))
        #expect(Array(canonical.utf8) == Array(same.utf8))
        // A stored address is canonical.
        #expect(AccountRules.canonicalEmail(canonical).map { Array($0.utf8) } == Array(canonical.utf8))
    }

    @Test(
        "addresses that are not one stay two",
        arguments: [
            ("ada@stra\u{DF}e.example", "ada@strasse.example"), ("ada@b\u{FC}cher.example", "ada@bucher.example"),
            ("ada@xn--bcher-kva.example", "ada@bcher-kva.example"), ("ada@xn--a.example", "ada@a.example"),
        ]
    )
    func otherAddresses(one: String, other: String) {
        #expect(AccountRules.canonicalEmail(one) != nil)
        #expect(AccountRules.canonicalEmail(one) != AccountRules.canonicalEmail(other))
    }

    @Test(arguments: [
        "", "alice", "@", "a@", "@b", "a@b@c", "a b@c", "a@b\u{0}c", String(repeating: "a", count: 300) + "@b",
    ])
    func invalidAddressesAreRefused(text: String) {
        #expect(AccountRules.canonicalEmail(text) == nil)
    }

    @Test(arguments: [
        ("+49 (30) 123-4567", "+49301234567"), ("0049.30.1234567", "+49301234567"), ("030 1234567", "0301234567"),
    ])
    func phoneNumbersHaveACanonicalForm(written: String, stored: String) {
        #expect(AccountRules.canonicalPhone(written) == stored)
    }

    @Test(arguments: ["", "+", "123456", "+1234567890123456", "+49 30 x", "++491234567", "٠١٢٣٤٥٦٧"])
    func invalidPhoneNumbersAreRefused(text: String) {
        #expect(AccountRules.canonicalPhone(text) == nil)
    }

    @Test(arguments: [
        ("  Ada\n", "Ada"), ("Ada\u{0}\u{1B}[31m", "Ada[31m"), (" \t ", nil), ("", nil), ("Zoë", "Zoë"),
    ])
    func partsOfNamesAreCleaned(written: String, kept: String?) {
        #expect(PersonName.part(written) == kept)
    }

    @Test func theLengthOfANameIsLimited() {
        let cut = PersonName.part(String(repeating: "ä", count: 1000))
        #expect(cut?.utf8.count == PersonName.longestPart)
    }

    @Test func devNamesAreValidated() {
        for name in ["alice", "Alice.B-1_x@y+z", String(repeating: "a", count: 64)] {
            #expect(AccountRules.isDevName(name))
        }
        for name in ["", "a b", "ä", "a/b", String(repeating: "a", count: 65)] {
            #expect(!AccountRules.isDevName(name))
        }
    }

    @Test func constantTimeComparisonIsCorrect() {
        #expect(ConstantTime.areEqual([], []))
        #expect(ConstantTime.areEqual([1, 2, 3], [1, 2, 3]))
        #expect(!ConstantTime.areEqual([1, 2, 3], [1, 2, 4]))
        #expect(!ConstantTime.areEqual([1, 2, 3], [1, 2]))
    }
}
