import Records
import RelayAPI
import RelayCore
import Testing
import Wire

@Suite struct NoticeHubTests {
    @Test func allDevicesOfTheUserButTheWriterAreNotified() async {
        let world = NoticeWorld()
        let (phone, laptop, stranger) = (TestDevice(), TestDevice(), TestDevice())
        await phone.connect("_a", "phone", to: world)
        await laptop.connect("_a", "laptop", to: world, worker: 1)
        await stranger.connect("_b", "phone", to: world)
        world.publish(world.change("Notes", of: "_a", by: "phone", token: "7"))
        #expect(phone.zones.isEmpty)
        #expect(stranger.zones.isEmpty)
        #expect(laptop.notices.map(\.syncToken) == ["7"])
        #expect(laptop.notices.first?.zone == ZoneID("Notes", owner: UserID("_a")))
        #expect(laptop.notices.first?.kind == .database)
    }

    @Test func onlyLanesWithARecipientAreWoken() async {
        let world = NoticeWorld(workers: 3)
        let (one, other) = (TestDevice(), TestDevice())
        await one.connect("_a", "one", to: world, worker: 0)
        await other.connect("_b", "one", to: world, worker: 2)
        world.hub.publish([world.change("Notes", of: "_b")])
        #expect(world.workers.map(\.orderCount) == [0, 0, 1])
        other.disconnect()
        _ = world.workers[2].take()
        world.hub.publish([world.change("Notes", of: "_b")])
        #expect(world.workers.map(\.orderCount) == [0, 0, 0])
    }

    @Test func aNoticeIsEncodedOnceForAllRecipients() async {
        let world = NoticeWorld()
        let devices = (0..<10).map { _ in TestDevice() }
        for (index, device) in devices.enumerated() {
            await device.connect("_a", "d\(index)", to: world, worker: index % 2)
        }
        devices.forEach { $0.forget() }
        world.publish(world.change("Notes", of: "_a"))
        let frames = devices.compactMap(\.sent.first)
        #expect(frames.count == 10)
        #expect(frames.allSatisfy { $0 === frames[0] })
    }

    @Test func oneCommitIsOneNoticeForEachZone() async {
        let world = NoticeWorld()
        let (phone, laptop) = (TestDevice(), TestDevice())
        await phone.connect("_a", "phone", to: world)
        await laptop.connect("_a", "laptop", to: world)
        world.publish(
            world.change("A", of: "_a", by: "phone", token: "1"),
            world.change("B", of: "_a", by: "phone", token: "2"),
            world.change("A", of: "_a", by: "phone", token: "3")
        )
        #expect(laptop.notices.map(\.syncToken) == ["3", "2"])
        #expect(phone.notices.isEmpty)
    }

    @Test func twoWritersInOneCommitAreNotifiedOfEachOther() async {
        let world = NoticeWorld()
        let (phone, laptop) = (TestDevice(), TestDevice())
        await phone.connect("_a", "phone", to: world)
        await laptop.connect("_a", "laptop", to: world)
        world.publish(world.change("A", of: "_a", by: "phone"), world.change("A", of: "_a", by: "laptop"))
        #expect(phone.zones == ["A"])
        #expect(laptop.zones == ["A"])
    }

    @Test func aReconnectingDeviceReplacesItsOldConnection() async {
        let world = NoticeWorld()
        let (old, new) = (TestDevice(), TestDevice())
        await old.connect("_a", "phone", to: world)
        await new.connect("_a", "phone", to: world, worker: 1)
        world.carryOut()
        #expect(old.closed?.code == 4409)
        #expect(world.hub.connectionCount == 1)
        world.publish(world.change("A", of: "_a"))
        #expect(new.zones == ["A"])
        #expect(old.zones.isEmpty)
    }

    @Test func theConnectionsPerUserAreLimited() async {
        var limits = NoticeLimits()
        limits.connectionsPerUser = 2
        let world = NoticeWorld(limits: limits)
        let devices = (0..<3).map { _ in TestDevice() }
        for (index, device) in devices.enumerated() { await device.connect("_a", "d\(index)", to: world) }
        #expect(devices.map { $0.closed?.code } == [nil, nil, 4451])
        devices[0].disconnect()
        let again = TestDevice()
        await again.connect("_a", "d2", to: world)
        #expect(again.closed == nil)
    }

    static let zoneOnly = NoticeSubscriptions.Item(
        scope: .private,
        id: "zone",
        kind: .zone(ZoneID("Notes", owner: .caller))
    )
    static let anyZone = NoticeSubscriptions.Item(scope: .private, id: "any", kind: .zone(nil))
    /// The creation or deletion of that subscription.
    private static func change(isDeleted: Bool) -> CommittedSubscription {
        CommittedSubscription(
            user: UserID("_a"),
            scope: .private,
            id: database.id,
            subscription: isDeleted ? nil : Subscription(id: database.id, kind: .database)
        )
    }

    static let database = NoticeSubscriptions.Item(scope: .private, id: "database", kind: .database)
    static let shared = NoticeSubscriptions.Item(scope: .shared, id: "shared", kind: .database)
    static let loudZone = NoticeSubscriptions.Item(
        scope: .private,
        id: "loud",
        kind: .zone(ZoneID("Notes", owner: .caller)),
        aps: Array(#"{"alert":{"body":"new"}}"#.utf8)
    )

    static let coverage: [(items: [NoticeSubscriptions.Item], zone: String, id: String?)] = [
        ([], "Notes", nil), ([zoneOnly], "Notes", "zone"), ([zoneOnly], "Other", nil), ([anyZone], "Other", "any"),
        ([zoneOnly, database], "Notes", "database"), ([shared], "Notes", nil), ([shared, zoneOnly], "Notes", "zone"),
        ([zoneOnly, anyZone], "Notes", "zone"), ([database, loudZone, zoneOnly], "Notes", "loud"),
        ([loudZone, database], "Other", "database"),
    ]

    @Test func theNoticeNamesTheWidestMatchingSubscription() async {
        for (items, zone, id) in Self.coverage {
            let world = NoticeWorld()
            let device = TestDevice()
            await device.connect(
                "_a",
                "d",
                to: world,
                admission: FakeAdmission(subscriptions: NoticeSubscriptions(items))
            )
            world.publish(world.change(zone, of: "_a"))
            #expect(device.notices.map(\.subscriptionID) == [id].compactMap { $0 }, "\(items) \(zone)")
            #expect(device.notices.allSatisfy { ($0.kind == .database) == (id == "database") })
            #expect(device.notices.allSatisfy { $0.aps == (id == "loud" ? Self.loudZone.aps : nil) })
        }
    }

    @Test func changedSubscriptionsTakeEffectAtOnce() async {
        let world = NoticeWorld()
        let device = TestDevice()
        await device.connect("_a", "d", to: world, admission: FakeAdmission(subscriptions: NoticeSubscriptions()))
        world.publish(world.change("Notes", of: "_a"))
        #expect(device.zones.isEmpty)
        world.hub.bus.publish(.subscriptionsChanged([Self.change(isDeleted: false)], version: 1, in: store))
        world.publish(world.change("Notes", of: "_a"))
        #expect(device.zones == ["Notes"])
        world.hub.bus.publish(.subscriptionsChanged([Self.change(isDeleted: true)], version: 1, in: store))
        world.publish(world.change("Notes", of: "_a"))
        #expect(device.zones == ["Notes"])
    }

    @Test func aSubscriptionCreatedWhileADeviceConnectsIsNotLost() async {
        let world = NoticeWorld()
        let device = TestDevice()
        var admission = FakeAdmission(subscriptions: NoticeSubscriptions())
        admission.meanwhile = { [hub = world.hub] in
            hub.bus.publish(.subscriptionsChanged([Self.change(isDeleted: false)], version: 1, in: store))
        }
        await device.connect("_a", "d", to: world, admission: admission)
        world.publish(world.change("Notes", of: "_a"))
        #expect(device.zones == ["Notes"])
    }

    @Test func aChangeMadeWhileADeviceConnectsIsSent() async {
        let world = NoticeWorld()
        let device = TestDevice()
        var admission = FakeAdmission()
        let change = world.change("Notes", of: "_a", token: "9")
        admission.meanwhile = { [hub = world.hub] in hub.publish([change]) }
        await device.connect("_a", "d", to: world, admission: admission)
        world.carryOut()
        #expect(device.notices.map(\.syncToken) == ["9"])
        guard case .ready? = device.frames.first else {
            Issue.record("the ready frame has to come first: \(device.frames)")
            return
        }
    }

    @Test func missedChangesAreSentAfterTheReadyFrame() async {
        let world = NoticeWorld()
        let few = TestDevice()
        let zones = (0..<20).map { NoticeCatchUp.Zone(ZoneID("Z\($0)", owner: UserID("_a")), syncToken: "t\($0)") }
        await few.connect("_a", "few", to: world, admission: FakeAdmission(news: [.private: .zones(zones)]))
        #expect(few.zones == (0..<20).map { "Z\($0)" })
        let many = TestDevice()
        let more = zones + [NoticeCatchUp.Zone(ZoneID("Y", owner: UserID("_a")), syncToken: "t")]
        await many.connect("_a", "many", to: world, admission: FakeAdmission(news: [.private: .zones(more)]))
        #expect(many.zones == ["*"])
        let expired = TestDevice()
        await expired.connect("_a", "old", to: world, admission: FakeAdmission(news: [.private: .manyZones]))
        #expect(expired.zones == ["*"])
        let current = TestDevice()
        await current.connect("_a", "new", to: world, admission: FakeAdmission(news: [.private: .zones([])]))
        #expect(current.zones.isEmpty)
    }

    @Test func revokingASignInClosesItsConnections() async {
        let world = NoticeWorld()
        let (bad, good) = (TestDevice(), TestDevice())
        await bad.connect("_a", "bad", to: world, admission: FakeAdmission(session: Session.ID(1)))
        await good.connect("_a", "good", to: world, worker: 1, admission: FakeAdmission(session: Session.ID(2)))
        let signIns = [1, 2].map { Credential.session(Session.ID($0), apiTokenHash: []) }
        #expect(world.hub.liveCredentials == Set(signIns))
        world.hub.bus.publish(.credentialsRevoked([signIns[0]], generation: 1))
        world.carryOut()
        #expect(bad.closed?.code == 4401)
        #expect(good.closed == nil)
        world.hub.revokeAll(of: NoticeAddress(store: store, user: UserID("_a")))
        world.carryOut()
        #expect(good.closed?.code == 4401)
        #expect(world.hub.connectionCount == 0)
    }

    @Test func noticesOfSeparateOrdersAreNotMergedByTheLane() async {
        let world = NoticeWorld()
        let device = TestDevice()
        await device.connect("_a", "d", to: world)
        for token in 0..<3 { world.hub.publish([world.change("A", of: "_a", token: "\(token)")]) }
        // Each order waits on its lane. Notices are merged by the connection, once its peer is slow.
        world.carryOut()
        #expect(device.notices.map(\.syncToken) == ["0", "1", "2"])
    }

    /// The counts that the console shows of a device: every notice is sent, merged into another one, or dropped with
    /// the connection.
    @Test func noticesAreCounted() async {
        let world = NoticeWorld()
        let device = TestDevice()
        await device.connect("_a", "d", to: world)
        let address = NoticeAddress(store: store, user: UserID("_a"))
        func counts() -> [Int] {
            let found = world.hub.devices(in: store, limit: 10).devices.first?.notices
            return [found?.sent ?? -1, found?.merged ?? -1, found?.dropped ?? -1]
        }
        world.publish(world.change("A", of: "_a"))
        #expect(counts() == [1, 0, 0])
        device.becomeWritable(false)
        for _ in 0..<3 { world.publish(world.change("A", of: "_a")) }
        world.publish(world.change("B", of: "_a"))
        #expect(counts() == [1, 2, 0])
        device.becomeWritable(true)
        #expect(counts() == [3, 2, 0])
        #expect(device.notices.count == 3)
        device.becomeWritable(false)
        world.publish(world.change("A", of: "_a"))
        #expect(world.hub.disconnect("d", of: address))
        world.carryOut()
        #expect(device.closed?.code == 1013)
        #expect(world.hub.devices(in: store, limit: 10).count == 0)
        let all = world.hub.noticeCounts
        #expect([all.sent, all.merged, all.dropped] == [3, 2, 1])
        #expect(!world.hub.disconnect("d", of: address))
    }

    @Test func aTestNoticeGoesOnlyToTheUsersDevices() async {
        let world = NoticeWorld()
        let (phone, stranger) = (TestDevice(), TestDevice())
        await phone.connect("_a", "phone", to: world)
        await stranger.connect("_b", "phone", to: world)
        world.hub.sendTestNotice(to: NoticeAddress(store: store, user: UserID("_a")))
        world.carryOut()
        #expect(phone.zones == ["*"])
        #expect(stranger.zones.isEmpty)
    }
}
