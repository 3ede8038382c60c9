import Records
import RelayAPI
import RelayCore
import RelaySystem
import Synchronization
import Testing
import Wire

/// What the sweep of one node finds when messages of another node are lost.
///
/// The simulator judges the nodes as a whole.
@Suite(.timeLimit(.minutes(15))) struct NoticeSweepTests {
    private let world: TwoNodes

    init() async throws {
        world = try TwoNodes()
        try await world.makeZone("Notes")
        try await world.subscribe()
        world.deliver()
        world.sweep()
    }

    @Test func aLostChangeIsAnnouncedOnce() async throws {
        let phone = await world.device("phone")
        try await world.change("a")
        world.lose()
        #expect(phone.zones == [])
        world.sweep()
        #expect(phone.zones == ["Notes"])
        #expect(phone.notices.first?.syncToken == (try await world.changes(zone: "Notes").text("syncToken")))
        world.sweep()
        #expect(phone.zones == ["Notes"])
    }

    @Test func aChangeThatHasArrivedIsNotRepeated() async throws {
        let phone = await world.device("phone")
        try await world.change("a")
        world.deliver()
        #expect(phone.zones == ["Notes"])
        world.sweep()
        #expect(phone.zones == ["Notes"])
    }

    @Test func aMessageThatComesAfterTheSweepSaysNothingNew() async throws {
        let phone = await world.device("phone")
        try await world.change("a")
        world.sweep()
        world.deliver()
        #expect(phone.zones == ["Notes"])
        // The next change is new.
        try await world.change("b")
        world.deliver()
        #expect(phone.zones == ["Notes", "Notes"])
    }

    /// A lost change of another device may have come before the device's own.
    @Test func aDeviceIsRemindedOnceOfTheZoneThatItHasChanged() async throws {
        let (phone, tablet) = (await world.device("phone"), await world.device("tablet"))
        try await world.change("a")
        world.lose()
        try await world.change("b", from: "phone")
        world.deliver()
        #expect(phone.zones == [] && tablet.zones == ["Notes"])
        world.sweep()
        #expect(phone.zones == ["Notes"] && tablet.zones == ["Notes"])
        world.sweep()
        #expect(phone.zones == ["Notes"] && tablet.zones == ["Notes"])
    }

    @Test func theLostEndOfAZoneIsAnnounced() async throws {
        let phone = await world.device("phone")
        let deletion = #"{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}}"#
        #expect(try await world.ask("private/zones/modify", #"{"operations":[\#(deletion)]}"#).status == 200)
        world.lose()
        world.sweep()
        #expect(phone.zones == ["Notes"])
        #expect(phone.notices.map(\.syncToken) == [nil])
        world.sweep()
        #expect(phone.zones == ["Notes"])
    }

    @Test func aLostSubscriptionTakesEffectAndItsUserIsReminded() async throws {
        let phone = await world.device("phone", of: "bob")
        try await world.makeZone("Bobs", as: "bob")
        world.deliver()
        try await world.subscribe(as: "bob")
        world.lose()
        try await world.change("a", zone: "Bobs", as: "bob")
        world.deliver()
        #expect(phone.zones == [])
        world.sweep()
        #expect(phone.zones == ["*"])
        try await world.change("b", zone: "Bobs", as: "bob")
        world.deliver()
        world.sweep()
        #expect(phone.zones == ["*", "Bobs"])
    }

    /// The subscriptions are read for the second device, so that the sweep finds them known.
    @Test func aDeviceThatJoinsAfterALostSubscriptionHasTheOthersReminded() async throws {
        let phone = await world.device("phone", of: "bob")
        try await world.makeZone("Bobs", as: "bob")
        world.deliver()
        try await world.subscribe(as: "bob")
        world.lose()
        try await world.change("a", zone: "Bobs", as: "bob")
        world.deliver()
        #expect(phone.zones == [])
        _ = await world.device("tablet", of: "bob")
        #expect(phone.zones == ["*"])
        world.sweep()
        #expect(phone.zones == ["*"])
    }

    @Test func aLostSchemaIsPublishedOnce() async throws {
        let schemas = SchemaReceiver()
        world.reader.bus.add(schemas)
        try await world.change("a", type: "New")
        world.lose()
        for _ in 0..<2 { world.sweep() }
        #expect(schemas.all.map { $0.types["New"] != nil } == [true])
        // A message with the schema that is known says nothing new.
        try await world.change("b", type: "Newer")
        world.deliver()
        world.sweep()
        #expect(schemas.all.map { $0.types["Newer"] != nil } == [false, true])
    }

    /// All messages are lost, or only those of query subscriptions, which no position shows.
    @Test(arguments: [false, true]) func aLostMatchIsDelivered(_ losesMatchesOnly: Bool) async throws {
        try await world.subscribe(toNotes: "matches", as: "carol")
        try await world.makeZone("Hers", as: "carol")
        world.deliver()
        let phone = await world.device("phone", of: "carol")
        try await world.change("a", zone: "Hers", as: "carol")
        await world.lose { envelope in
            if case .recordMatched = envelope.message { true } else { !losesMatchesOnly }
        }
        if losesMatchesOnly {
            world.sweep()
            #expect(phone.notices.isEmpty, "nothing shows yet that a message is missing")
            // The number of the next message does.
            try await world.change("b", zone: "Hers", type: "Other", as: "carol")
            world.deliver()
        }
        world.sweep()
        world.sweep()
        #expect(phone.notices.map(\.query?.recordName) == ["a"])
    }

    @Test func aStoreThatCannotBeReadIsSweptLater() async throws {
        let phone = await world.device("phone")
        try await world.change("a")
        world.lose()
        world.catalog.isBroken.withLock { $0 = true }
        world.sweep()
        #expect(phone.zones == [])
        world.catalog.isBroken.withLock { $0 = false }
        world.sweep()
        #expect(phone.zones == ["Notes"])
    }

    @Test func aUserWhosePositionIsUnknownIsRemindedOfEverything() async throws {
        world.catalog.isBroken.withLock { $0 = true }
        let phone = await world.device("phone")
        world.catalog.isBroken.withLock { $0 = false }
        world.sweep()
        #expect(phone.zones == ["*"])
        world.sweep()
        #expect(phone.zones == ["*"])
    }

    /// What a device finds when it connects is not announced again.
    @Test func aDeviceThatReturnsIsNotToldTwice() async throws {
        let token = try #require(try await world.ask("private/changes/database").json.text("syncToken"))
        let before = await world.device("phone", since: token)
        before.disconnect()
        world.sweep()
        try await world.change("a")
        world.lose()
        let phone = await world.device("phone", since: token)
        #expect(phone.zones == ["Notes"])
        world.sweep()
        #expect(phone.zones == ["Notes"])
    }

    @Test func aParticipantLearnsOfALostChange() async throws {
        let invitation = ShareWorld.share(with: [ShareWorld.participant(ShareWorld.bob)])
        let body = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(invitation)]}"#
        let shared = try await world.ask("private/records/modify", body)
        let link = try #require(try shared.items("records").first?.text("shortGUID"))
        let accepted = try await world.ask(
            "public/records/accept",
            as: ShareWorld.bob,
            #"{"shortGUIDs":[{"value":"\#(link)"}]}"#
        )
        #expect(accepted.status == 200)
        try await world.subscribe(in: "shared", as: ShareWorld.bob)
        world.deliver()
        let phone = await world.device("phone", of: ShareWorld.bob)
        try await world.change("a")
        world.lose()
        world.sweep()
        #expect(phone.zones == ["Notes"] && phone.notices.map(\.scope) == [.shared])
        world.sweep()
        #expect(phone.zones.count == 1)
    }
}

/// Receives the schemas that a node publishes.
private final class SchemaReceiver: NoticeReceiver {
    private let received = Mutex<[Schema]>([])

    var all: [Schema] { received.withLock { $0 } }

    func receive(_ message: NoticeMessage) {
        if case .schemaChanged(let schema, _) = message { received.withLock { $0.append(schema) } }
    }
}

/// Two relays over one store: one answers requests, the other has the devices.
///
/// The test carries the messages.
private struct TwoNodes: RelayCalling {
    final class Channel: NoticeChannel {
        private let held = Mutex<[NoticeEnvelope]>([])

        func send(_ envelope: NoticeEnvelope) { held.withLock { $0.append(envelope) } }

        func take() -> [NoticeEnvelope] {
            held.withLock { held in
                defer { held = [] }
                return held
            }
        }
    }

    struct Reader {
        let bus: NodeNoticeBus
        let hub: NoticeHub
        let sweep: NoticeSweep
        let admission: RelayAdmission
        let worker: ManualNoticeWorker
        let registry = NoticeConnectionRegistry()
        let number: Int
    }

    private let base: RelayWorld
    private let writer: NoticeHub
    private let channel = Channel()
    /// The stores as the reader's sweep sees them.
    let catalog: BreakingCatalog
    let reader: Reader

    var relay: Relay { base.relay }
    var container: String { base.container }

    init() throws {
        writer = NoticeHub(
            relayName: "writer",
            bus: NodeNoticeBus(node: NodeID("writer"), run: 1, channel: channel),
            noticeID: { "n" }
        )
        base = try RelayWorld(hub: writer)
        catalog = BreakingCatalog(base.stores)
        let bus = NodeNoticeBus(node: NodeID("reader"), run: 1, channel: Channel())
        let hub = NoticeHub(relayName: "reader", bus: bus, noticeID: { "n" })
        let relay = Relay(
            authenticator: base.relay.authenticator,
            stores: base.stores,
            hub: hub,
            time: .system,
            random: .system
        )
        let worker = ManualNoticeWorker()
        reader = Reader(
            bus: bus,
            hub: hub,
            sweep: NoticeSweep(bus: bus, hub: hub, stores: catalog),
            admission: RelayAdmission(relay: relay, hub: hub, time: .system),
            worker: worker,
            number: hub.add(worker)
        )
    }

    // MARK: Messages

    /// Brings the messages to the reader.
    func deliver() {
        for envelope in channel.take() { reader.bus.receive(envelope) }
        carryOut()
    }

    /// Loses the messages.
    func lose() { _ = channel.take() }

    /// Loses some messages, and brings the others to the reader.
    func lose(_ isLost: (NoticeEnvelope) -> Bool) async {
        await writer.queries.waitUntilIdle()
        for envelope in channel.take() where !isLost(envelope) { reader.bus.receive(envelope) }
        carryOut()
    }

    func sweep() {
        reader.sweep.sweep()
        carryOut()
    }

    private func carryOut() {
        for order in reader.worker.take() { reader.registry.perform(order) }
    }

    // MARK: Users

    /// Connects a device to the reader; its frames begin with those after it caught up, unless it has a token.
    func device(_ name: String, of user: String = "alice", since token: String? = nil) async -> TestDevice {
        let device = TestDevice()
        await device.connect(
            .hello(
                NoticeHello(
                    deviceID: name,
                    apiToken: "x",
                    webAuthToken: "dev-\(user)",
                    since: token.map { [.private: $0] } ?? [:]
                )
            ),
            path: "/push/1/\(container)/development",
            hub: reader.hub,
            worker: reader.number,
            registry: reader.registry,
            admission: reader.admission
        )
        carryOut()
        if token == nil { device.forget() }
        return device
    }

    /// Subscribes to a whole database.
    func subscribe(in database: String = "private", as user: String = "alice") async throws {
        try await subscribe(#"{"subscriptionID":"all","subscriptionType":"database"}"#, database, user)
    }

    /// Subscribes to the records of the type `Note`.
    func subscribe(toNotes id: String, as user: String) async throws {
        try await subscribe(
            #"{"subscriptionID":"\#(id)","subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create"]}"#,
            "private",
            user
        )
    }

    private func subscribe(_ subscription: String, _ database: String, _ user: String) async throws {
        let answer = try await ask(
            "\(database)/subscriptions/modify",
            as: user,
            #"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#
        )
        let item = try #require(try answer.items("subscriptions").first)
        #expect(item.text("serverErrorCode") == nil, "\(item.text("reason") ?? "")")
    }

    func change(
        _ name: String,
        zone: String = "Notes",
        type: String = "Note",
        as user: String = "alice",
        from device: String? = nil
    ) async throws {
        let answer = try await ask(
            "private/records/modify",
            as: user,
            """
            {"zoneID":{"zoneName":"\(zone)"},"operations":[{"operationType":"forceUpdate",
            "record":{"recordName":"\(name)","recordType":"\(type)","fields":{}}}]}
            """,
            from: device
        )
        #expect(try answer.items("records").first?.text("serverErrorCode") == nil)
    }

    func changes(zone: String) async throws -> JSONValue { try await base.changes(zone: zone) }
}

/// Stores that cannot be read for a time.
private final class BreakingCatalog: StoreCatalog {
    let isBroken = Mutex(false)
    var executor: (any TaskExecutor)? { nil }
    private let stores: any ServedStores

    init(_ stores: any ServedStores) { self.stores = stores }

    func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
        guard !isBroken.withLock({ $0 }) else { throw RelayError(.tryAgainLater, "The store cannot be read.") }
        return try stores.store(of: home)
    }

    func isThere(_ home: ContainerEnvironment) -> Bool { stores.isThere(home) }

    func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore { try stores.assets(of: home) }
}
