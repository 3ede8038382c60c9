import RelayCore
import Testing

@Suite struct AccountRulesTests {
    @Test(arguments: [
        ("alice@example.org", "alice@example.org"), ("  Alice@Example.ORG\n", "alice@example.org"), ("a@b", "a@b"),
    ])
    func addressesAreTrimmedAndLowered(written: String, stored: String) {
        #expect(AccountRules.canonicalEmail(written) == stored)
    }

    @Test(arguments: [
        "", "alice", "@", "a@", "@b", "a@b@c", "a b@c", "a@b\u{0}c", String(repeating: "a", count: 300) + "@b",
    ])
    func whatCannotBeAnAddress(text: String) {
        #expect(AccountRules.canonicalEmail(text) == nil)
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
