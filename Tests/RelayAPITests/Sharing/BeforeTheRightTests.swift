import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// What was gone before somebody was given a zone stays unknown to them: no made-up token and no catching up tells its name.
@Suite(.timeLimit(.minutes(15))) struct BeforeTheRightTests {
    typealias World = ShareWorld

    /// Tokens with which a client would have seen nearly all of a log, made of one that it was given.
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

    @Test func aMadeUpTokenOfAWholeZoneTellsOfNothingGone() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a", "b", "c"])
        try await world.one(World.delete("b"))
        try await world.shareZone()
        let page = try await world.changes()
        #expect(try World.names(page).sorted() == ["a", "c", Share.zoneWideName])
        for token in try forged(of: page) {
            #expect(try World.names(try await world.changes(since: token)).contains("-b") == false)
        }
        // What goes from now on is told of, whatever the token.
        try await world.one(World.delete("c"))
        #expect(try World.names(try await world.changes(since: page.text("syncToken"))) == ["-c"])
        #expect(try World.names(try await world.changes(since: try forged(of: page)[0])).contains("-c"))
    }

    @Test func aMadeUpTokenOfAHierarchyTellsOfNothingGone() async throws {
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

    /// Who comes back with a token of before is told of the zone, and not of what was deleted there first.
    @Test func catchingUpTellsOfNothingGone() async throws {
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
