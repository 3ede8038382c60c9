import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// What devices have missed is read from the store once for devices that are in step.
///
/// See Notices.md, "Catching up".
@Suite struct CatchUpTests {
    private let world: SubscriptionWorld

    init() throws { world = try SubscriptionWorld() }

    /// Creates a database subscription and a zone.
    private func prepare() async throws {
        let subscription = #"{"subscriptionID":"all","subscriptionType":"database"}"#
        _ = try await world.ask(
            "private/subscriptions/modify",
            #"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#
        )
        try await world.makeZone("Notes")
    }

    private func connect(_ names: [String], since: [DatabaseScope: String] = [:]) async -> [TestDevice] {
        var devices: [TestDevice] = []
        for name in names { devices.append(await world.device(name, since: since)) }
        return devices
    }

    @Test func aDeviceInStepWithOthersIsAdmittedWithoutARead() async throws {
        defer { world.close() }
        try await prepare()
        let devices = await connect(["phone", "tablet", "laptop"])
        #expect(world.hub.catchUpLookups.hits == 1)
        #expect(world.hub.catchUpLookups.misses == 2)
        for device in devices {
            #expect(device.zones == ["Notes"])
            guard case .ready(let ready)? = device.frames.first else {
                Issue.record("no ready")
                continue
            }
            #expect(ready.subscriptions == ["all"])
        }
    }

    @Test func otherTokensNeedARead() async throws {
        defer { world.close() }
        try await prepare()
        let token = try #require(try await world.ask("private/changes/database").json.text("syncToken"))
        _ = await connect(["phone", "tablet"])
        let current = await connect(["laptop", "watch"], since: [.private: token])
        #expect(world.hub.catchUpLookups.hits == 1)
        #expect(current.map(\.zones) == [[], []])
    }

    @Test func aChangeIsRead() async throws {
        defer { world.close() }
        try await prepare()
        let before = await connect(["phone", "tablet"])
        try await world.change("a", zone: "Notes")
        await world.settle()
        let after = await connect(["laptop"])
        #expect(world.hub.catchUpLookups.hits == 0)
        let told = try #require(before.first?.notices.last?.syncToken)
        #expect(after.first?.notices.map(\.syncToken) == [told])
    }

    @Test func aNewSubscriptionIsRead() async throws {
        defer { world.close() }
        try await prepare()
        _ = await connect(["phone", "tablet"])
        try await world.subscribe("notes")
        let laptop = await world.device("laptop")
        #expect(world.hub.catchUpLookups.hits == 0)
        guard case .ready(let ready)? = laptop.frames.first else {
            Issue.record("no ready")
            return
        }
        #expect(ready.subscriptions == ["all", "notes"])
    }
}
