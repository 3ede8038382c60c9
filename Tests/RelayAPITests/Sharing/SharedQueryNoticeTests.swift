import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Query subscriptions in the shared database match the records that the participant can see, as an owner's match
/// theirs, and no others.
@Suite(.timeLimit(.minutes(15))) struct SharedQueryNoticeTests {
    typealias World = ShareWorld

    private func receivedNotices(_ device: TestDevice) -> [String] {
        device.notices.filter { $0.query != nil }.map {
            "\($0.subscriptionID):\($0.query?.recordName ?? "*"):\($0.query?.reason?.rawValue ?? 0)"
        }
    }

    private func lists() async throws -> World {
        let world = try World()
        try await world.makeZone(notes: [])
        try await world.modify([
            World.save("list"), HierarchyShareTests.child("item", of: "list"), World.save("other"),
            HierarchyShareTests.child("secret", of: "other"), HierarchyShareTests.child("deep", of: "secret"),
        ]).checked()
        let people = [World.participant(World.bob, "READ_WRITE"), World.participant(World.carol)]
        let share = try await world.one(World.share(name: "share", root: "list", with: people))
        for user in [World.bob, World.carol] { try await world.accept(share, as: user) }
        return world
    }

    @Test func subscriptionsMatchInAZoneSharedAsAWhole() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.shareZone(with: [World.bob: "READ_WRITE", World.carol: "READ_ONLY"])
        let zone = try await world.zoneID()
        let titled = #"{"comparator":"EQUALS","fieldName":"title","fieldValue":{"value":"x"}}"#
        try await world.world.subscribe("x", in: "shared", as: World.bob, filters: titled)
        try await world.world.subscribe("one", in: "shared", as: World.carol, extra: #","zoneID":\#(zone)"#)
        let bob = await world.world.device(of: World.bob)
        let carol = await world.world.device(of: World.carol)
        try await world.one(World.save("n", title: "x"))
        try await world.one(World.save("n", title: "y"))
        try await world.one(World.save("m", title: "x"), in: "shared", as: World.bob)
        try await world.one(World.delete("n"))
        try await world.one(World.delete("m"))
        await world.world.settle()
        #expect(receivedNotices(bob) == ["x:n:1", "x:m:1", "x:m:4"])
        #expect(receivedNotices(carol) == ["one:n:1", "one:n:2", "one:m:1", "one:n:4", "one:m:4"])
        let notice = try #require(bob.notices.first)
        let owner = try await world.name(of: "alice")
        #expect(notice.scope == .shared && notice.zone?.owner.recordName == owner)
        // A participant who lost access gets no more notices.
        try await world.one(World.share("forceUpdate", with: [World.participant(World.bob, "READ_WRITE")]))
        await world.world.settle()
        carol.forget()
        try await world.one(World.save("after", title: "x"))
        await world.world.settle()
        #expect(receivedNotices(carol).isEmpty && receivedNotices(bob).last == "x:after:1")
    }

    @Test func onlyRecordsOfTheHierarchyMatch() async throws {
        let world = try await lists()
        try await world.world.subscribe("all", in: "shared", as: World.bob)
        let bob = await world.world.device(of: World.bob)
        try await world.one(HierarchyShareTests.child("secret", of: "other", title: "changed"))
        try await world.one(World.save("other", title: "changed"))
        try await world.one(World.delete("deep"))
        await world.world.settle()
        #expect(receivedNotices(bob).isEmpty)
        try await world.one(HierarchyShareTests.child("item", of: "list", title: "changed"))
        try await world.one(HierarchyShareTests.child("new", of: "item", "create"), in: "shared", as: World.bob)
        try await world.one(World.delete("new"))
        await world.world.settle()
        #expect(receivedNotices(bob) == ["all:item:2", "all:new:1", "all:new:4"])
    }

    /// A record that becomes visible is reported as created, one that leaves as deleted, whether it changed itself or
    /// moved with an ancestor.
    @Test func enteringAndLeavingTheHierarchyIsReported() async throws {
        let world = try await lists()
        for user in [World.bob, World.carol] { try await world.world.subscribe("all", in: "shared", as: user) }
        try await world.world.subscribe("own")
        let bob = await world.world.device(of: World.bob)
        let alice = await world.world.device(of: "alice")
        try await world.one(HierarchyShareTests.child("secret", of: "list"))
        await world.world.settle()
        #expect(Set(receivedNotices(bob)) == ["all:secret:1", "all:deep:1"])
        #expect(receivedNotices(alice) == ["own:secret:2"])
        bob.forget()
        try await world.one(HierarchyShareTests.child("secret", of: nil))
        await world.world.settle()
        #expect(Set(receivedNotices(bob)) == ["all:secret:4", "all:deep:4"])
    }

    @Test func movingBetweenTwoSharesOfAParticipantIsAnUpdate() async throws {
        let world = try await lists()
        let people = [World.participant(World.bob)]
        let second = try await world.one(World.share(name: "second", root: "other", with: people))
        try await world.accept(second, as: World.bob)
        for user in [World.bob, World.carol] { try await world.world.subscribe("all", in: "shared", as: user) }
        let bob = await world.world.device(of: World.bob)
        let carol = await world.world.device(of: World.carol)
        try await world.one(HierarchyShareTests.child("secret", of: "list"))
        await world.world.settle()
        #expect(receivedNotices(bob) == ["all:secret:2"])
        #expect(Set(receivedNotices(carol)) == ["all:secret:1", "all:deep:1"])
    }

    /// Participants get the name that a participant chose, even if a record out of sight has that name.
    @Test func noticesHaveTheNamesThatTheHierarchyShows() async throws {
        let world = try await lists()
        for user in [World.bob, World.carol] { try await world.world.subscribe("all", in: "shared", as: user) }
        try await world.world.subscribe("own")
        let carol = await world.world.device(of: World.carol)
        let alice = await world.world.device(of: "alice")
        try await world.one(HierarchyShareTests.child("secret", of: "item", "create"), in: "shared", as: World.bob)
        await world.world.settle()
        #expect(receivedNotices(carol) == ["all:secret:1"])
        let kept = try #require(alice.notices.first?.query?.recordName)
        #expect(kept != "secret" && receivedNotices(alice) == ["own:\(kept):1"])
        carol.forget()
        // The record that originally has the name becomes visible.
        try await world.one(HierarchyShareTests.child("secret", of: "list"))
        await world.world.settle()
        #expect(Set(receivedNotices(carol)) == ["all:secret:1", "all:deep:1"])
    }

    @Test func missedChangesAreSentOnReconnecting() async throws {
        let world = try await lists()
        try await world.world.subscribe("all", in: "shared", as: World.bob)
        let token = try await world.zones().token
        try await world.one(HierarchyShareTests.child("item", of: "list", title: "changed"))
        try await world.one(HierarchyShareTests.child("secret", of: "other", title: "changed"))
        // Otherwise the commit's notice, which is matched concurrently, might reach him too.
        await world.world.settle()
        let bob = await world.world.device(of: World.bob, since: [.shared: token])
        await world.world.settle()
        #expect(receivedNotices(bob).map { $0.dropLast(2) } == ["all:item"])
    }

    @Test func aSubscriptionOnlyToTheDefaultZoneIsRefused() async throws {
        let world = try World()
        let answer = try await world.world.ask(
            "shared/subscriptions/modify",
            as: World.bob,
            """
            {"operations":[{"operationType":"create","subscription":{"subscriptionID":"q","subscriptionType":"query",
            "zoneWide":false,"query":{"recordType":"Note"},"firesOn":["create"]}}]}
            """
        )
        let item = try #require(try answer.items("subscriptions").first)
        #expect(item.text("serverErrorCode") == "BAD_REQUEST" && item.text("reason")?.contains("zoneWide") == true)
    }
}
