import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

@testable import Shopping

@Suite struct ShoppingListTests {
    @Test func disconnectedDeviceReceivesAllChanges() async throws {
        let relay = try TestRelay()
        let phone = relay.device(of: "alice", named: "phone")
        let tablet = relay.device(of: "bob", named: "tablet")
        let alice = ShoppingList(container: try await phone.sharingMirror(of: MirrorModel(Item.self)))
        let bob = ShoppingList(container: try await tablet.sharingMirror(of: MirrorModel(Item.self)))

        let milk = try alice.add("Milk")
        let link = try #require(try await alice.share(milk))
        try await bob.join(link)
        #expect(try bob.titles == ["Milk"])

        tablet.network.cut()
        try alice.rename(milk, to: "Oat milk")
        try bob.add("Bread")
        try await relay.settle()
        #expect(try bob.titles == ["Bread", "Milk"])

        tablet.network.heal()
        try await relay.settle()
        #expect(try bob.titles == ["Bread", "Oat milk"])
        // Bob's bread is in his own list and was never shared.
        #expect(try alice.titles == ["Oat milk"])
    }
}
