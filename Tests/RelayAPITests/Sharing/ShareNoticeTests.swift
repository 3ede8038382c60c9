import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// The recipients of notices about shared zones.
@Suite(.timeLimit(.minutes(15))) struct ShareNoticeTests {
    typealias World = ShareWorld

    /// Connects a device that subscribes to a whole database.
    private func device(
        _ name: String,
        of user: String,
        in database: String = "shared",
        _ world: World,
        since: [DatabaseScope: String] = [.private: "x", .shared: "x"]
    ) async throws -> TestDevice {
        let answer = try await world.world.ask(
            "\(database)/subscriptions/modify",
            as: user,
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"all","subscriptionType":"database"}}]}"#
        )
        #expect(try answer.items("subscriptions").first?.text("serverErrorCode") == nil)
        let device = await world.world.device(name, of: user)
        await world.world.settle()
        device.forget()
        return device
    }

    @Test func everyParticipantIsNotifiedOnce() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.shareZone(with: [World.bob: "READ_WRITE", World.carol: "READ_ONLY"])
        let alice = try await device("phone", of: "alice", in: "private", world)
        let bob = try await device("phone", of: World.bob, world)
        let carol = try await device("phone", of: World.carol, world)
        // The owner's phone writes; the others' phones are different devices despite their name.
        try await world.modify([World.save("a")], from: "phone").checked()
        await world.world.settle()
        #expect(alice.zones == [] && bob.zones == ["Notes"] && carol.zones == ["Notes"])
        let notice = try #require(bob.notices.first)
        #expect(notice.scope == .shared)
        #expect(notice.zone?.owner.recordName == (try await world.name(of: "alice")))
        #expect(notice.syncToken == (try await world.changes().text("syncToken")))
        #expect(notice.syncToken != (try await world.changes(as: World.carol).text("syncToken")))
        for device in [alice, bob, carol] { device.forget() }
        try await world.modify([World.save("a")], in: "shared", as: World.bob, from: "phone").checked()
        await world.world.settle()
        #expect(alice.zones == ["Notes"] && bob.zones == [] && carol.zones == ["Notes"])
        #expect(alice.notices.first?.scope == .private)
    }

    @Test func invitingChangingAndRemovingAParticipantIsNotified() async throws {
        let world = try World()
        try await world.makeZone()
        let alice = try await device("phone", of: "alice", in: "private", world)
        let bob = try await device("phone", of: World.bob, world)
        let share = try await world.shareZone(accepting: false)
        await world.world.settle()
        // The invitee gets a notice that does not name the zone before they join.
        #expect(bob.zones == ["*"])
        bob.forget()
        alice.forget()
        try await world.accept(share, as: World.bob)
        await world.world.settle()
        #expect(bob.zones == ["Notes"] && alice.zones == ["Notes"])
        bob.forget()
        let current = try await world.record(Share.zoneWideName)
        let written = try world.participants(of: current)[1].source.replacing("READ_ONLY", with: "READ_WRITE")
        let changed = try await world.one(
            World.share("update", tag: current.text("recordChangeTag"), with: [written])
        )
        await world.world.settle()
        #expect(bob.zones == ["Notes"])
        bob.forget()
        let database = try await world.zones()
        try await world.one(World.share("update", tag: changed.text("recordChangeTag"), with: []))
        await world.world.settle()
        #expect(bob.zones == ["Notes"])
        #expect(bob.notices.first?.syncToken == nil)
        #expect(try await world.zones(since: database.token).names == ["-Notes"])
        bob.forget()
        try await world.one(World.save("a"))
        await world.world.settle()
        #expect(bob.zones == [])
    }

    @Test func changesOutsideTheHierarchyAreNotNotified() async throws {
        let world = try World()
        try await world.makeZone(notes: ["list", "other"])
        let share = try await world.one(
            World.share(name: "share", root: "list", with: [World.participant(World.bob, "READ_WRITE")])
        )
        try await world.accept(share, as: World.bob)
        let bob = try await device("phone", of: World.bob, world)
        try await world.one(World.save("other"))
        await world.world.settle()
        #expect(bob.zones == [])
        try await world.one(HierarchyShareTests.child("item", of: "list"))
        await world.world.settle()
        #expect(bob.zones == ["Notes"])
        #expect(bob.notices.first?.syncToken == (try await world.changes().text("syncToken")))
    }

    /// Ways in which bob loses one of his two shares of a zone: the operation and its author.
    static let waysToLoseAShare: [(operation: String, database: String, user: String)] = [
        (World.delete("s-one"), "private", "alice"),
        (World.delete("one"), "private", "alice"),
        (World.share("forceUpdate", name: "s-one", root: "one", with: []), "private", "alice"),
        (World.delete("s-one"), "shared", World.bob),
    ]

    @Test(arguments: waysToLoseAShare.indices) func losingOneOfTwoSharesIsNotified(_ index: Int) async throws {
        let world = try World()
        try await world.makeZone(notes: ["one", "two"])
        for root in ["one", "two"] {
            let share = try await world.one(
                World.share(name: "s-\(root)", root: root, with: [World.participant(World.bob, "READ_WRITE")])
            )
            try await world.accept(share, as: World.bob)
        }
        let bob = try await device("phone", of: World.bob, world)
        let token = try await world.zones().token
        let loss = Self.waysToLoseAShare[index]
        try await world.one(loss.operation, in: loss.database, as: loss.user)
        await world.world.settle()
        #expect(bob.zones == ["Notes"] && bob.notices.first?.scope == .shared)
        #expect(bob.notices.first?.syncToken == (try await world.changes().text("syncToken")))
        #expect(try await world.zones(since: token).names == ["Notes"])
    }

    @Test func aReturningDeviceIsNotifiedAtOnce() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.shareZone()
        _ = try await device("early", of: World.bob, world)
        let (_, token) = try await world.zones()
        try await world.one(World.save("a"))
        await world.world.settle()
        let late = await world.world.device("late", of: World.bob, since: [.shared: token])
        await world.world.settle()
        #expect(late.notices.filter { $0.scope == .shared }.map { $0.zone?.zoneName } == ["Notes"])
        let current = await world.world.device("now", of: World.bob, since: [.shared: try await world.zones().token])
        await world.world.settle()
        #expect(current.notices.filter { $0.scope == .shared }.isEmpty)
    }

    @Test func aHundredParticipantsGetOneNoticeEachForACommit() async throws {
        let world = try World()
        try await world.makeZone()
        let people = (0..<99).map { "p\($0)@example.org" }
        let share = try await world.one(World.share(with: people.map { World.participant($0) }))
        var devices: [TestDevice] = []
        for user in people {
            try await world.accept(share, as: user)
            devices.append(try await device("phone", of: user, world))
        }
        await world.world.settle()
        for device in devices { device.forget() }
        let orders = world.world.worker.orderCount
        try await world.modify((0..<20).map { World.save("n\($0)") }).checked()
        #expect(world.world.worker.orderCount - orders == 99)
        await world.world.settle()
        #expect(devices.allSatisfy { $0.zones == ["Notes"] })
    }
}
