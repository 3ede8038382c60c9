import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Records that were deleted before a user got access stay unknown to the user: neither a forged token nor catching up
/// reveals their names.
@Suite(.timeLimit(.minutes(15))) struct EarlierDeletionTests {
    typealias World = ShareWorld

    /// Returns tokens that claim to have seen nearly all of the log, forged from a valid one.
    private func forged(of page: JSONValue) throws -> [String] {
        let own = try #require(page.text("syncToken").flatMap { ChangeToken(encoded: $0) })
        var (early, backwards) = (own, own)
        (early.position, early.floor) = (1, 0)
        backwards.kind = .reverse
        (backwards.position, backwards.floor, backwards.top) = (own.position, 1, own.position)
        var inside = own
        (inside.position, inside.floor) = (1, 2)
        return [early, backwards, inside].map(\.encoded)
    }

    @Test func aForgedZoneTokenRevealsNoEarlierDeletions() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a", "b", "c"])
        try await world.one(World.delete("b"))
        try await world.shareZone()
        let page = try await world.changes()
        #expect(try World.names(page).sorted() == ["a", "c", Share.zoneWideName])
        for token in try forged(of: page) {
            #expect(try World.names(try await world.changes(since: token)).contains("-b") == false)
        }
        // Later deletions are reported, with any token.
        try await world.one(World.delete("c"))
        #expect(try World.names(try await world.changes(since: page.text("syncToken"))) == ["-c"])
        #expect(try World.names(try await world.changes(since: try forged(of: page)[0])).contains("-c"))
    }

    @Test func aForgedHierarchyTokenRevealsNoEarlierDeletions() async throws {
        let world = try World()
        try await world.makeZone(notes: [])
        try await world.modify([
            World.save("list"), HierarchyShareTests.child("gone", of: "list"),
            HierarchyShareTests.child("moved", of: "list"), HierarchyShareTests.child("item", of: "list"),
        ]).checked()
        let people = [World.participant(World.bob), World.participant(World.carol)]
        let share = try await world.one(World.share(name: "share", root: "list", with: people))
        try await world.accept(share, as: World.carol)
        try await world.one(World.delete("gone"))
        try await world.one(HierarchyShareTests.child("moved", of: nil))
        try await world.accept(share, as: World.bob)
        let page = try await world.changes()
        #expect(try World.names(page).sorted() == ["item", "list", "share"])
        for token in try forged(of: page) {
            let names = try World.names(try await world.changes(since: token))
            #expect(!names.contains("-gone") && !names.contains("-moved"))
        }
    }

    /// A returning client with an older token is told of the zone, but not of the records that were deleted before.
    @Test func catchingUpRevealsNoEarlierDeletions() async throws {
        let world = try World()
        _ = try await world.name(of: World.bob)
        let token = try await world.zones().token
        try await world.makeZone(notes: ["a", "b", "c"])
        try await world.world.subscribe("all", in: "shared", as: World.bob)
        try await world.one(World.delete("b"))
        try await world.shareZone()
        try await world.one(World.delete("c"))
        await world.world.settle()
        let bob = await world.world.device(of: World.bob, since: [.shared: token])
        await world.world.settle()
        let names = bob.notices.compactMap(\.query?.recordName)
        #expect(!names.contains("b"))
        #expect(names.contains("a") && names.contains("c"))
    }
}
