import Records
import RelayAPI
import RelayCore
import Synchronization
import Testing

/// From a commit to the bus, and from there to the hub.
@Suite struct NoticeBusTests {
    /// Keeps what it receives.
    private final class Receiver: NoticeReceiver {
        let received = Mutex<[String]>([])

        func receive(_ message: NoticeMessage) {
            let text =
                switch message {
                case .zonesChanged(let changes, _): "zones \(changes.map(\.zone.zoneName))"
                case .recordsChanged(let records, _): "records \(records.map(\.after.name))"
                case .subscriptionsChanged(let changes, _, _): "subscriptions \(changes.map(\.id))"
                case .schemaChanged(let schema, _): "schema \(schema.version)"
                case .credentialsRevoked: "revoked"
                case .recordMatched, .present, .pushDevicesChanged, .nodesChanged, .sweeping: "\(message)"
                case .presence(let device, _, _, let isConnected, _): "\(device) \(isConnected)"
                }
            received.withLock { $0.append(text) }
        }

        func take() -> [String] {
            received.withLock { received in
                defer { received = [] }
                return received
            }
        }
    }

    private func commit(
        zones: [String] = [],
        subscription: String? = nil,
        record: String? = nil,
        schema: Int = 1
    ) -> Commit {
        let owner = UserID("_a")
        return Commit(
            zones: zones.map { CommittedChange(zone: ZoneID($0, owner: owner), token: nil, device: nil) },
            records: record.map {
                [CommittedRecord(zone: ZoneID("Notes", owner: owner), before: nil, after: .test($0), device: "d")]
            } ?? [],
            subscriptions: subscription.map {
                [CommittedSubscription(user: owner, scope: .private, id: $0, subscription: nil)]
            } ?? [],
            schema: Schema(version: schema)
        )
    }

    @Test func aCommitBecomesMessagesInOrder() {
        let bus = InProcessNoticeBus()
        let receiver = Receiver()
        bus.add(receiver)
        let notices = CommitNotices(bus)
        notices.publish(commit(zones: ["A", "B"], subscription: "s", record: "r"), of: store)
        #expect(receiver.take() == [#"zones ["A", "B"]"#, "schema 1", #"subscriptions ["s"]"#, #"records ["r"]"#])
        notices.publish(commit(record: "r"), of: store)
        #expect(receiver.take() == [#"records ["r"]"#])
        notices.publish(commit(record: "r", schema: 2), of: store)
        #expect(receiver.take() == ["schema 2", #"records ["r"]"#])
    }

    @Test func nothingIsPublishedForUsersWithoutDevices() async {
        let world = NoticeWorld()
        let receiver = Receiver()
        world.hub.bus.add(receiver)
        let notices = CommitNotices(world.hub.bus)
        notices.publish(commit(zones: ["A"], record: "r"), of: store)
        #expect(receiver.take() == [])
        let device = TestDevice()
        await device.connect("_a", "phone", to: world)
        #expect(receiver.take() == ["phone true"])
        notices.publish(commit(zones: ["A"]), of: store)
        world.carryOut()
        #expect(receiver.take() == [#"zones ["A"]"#])
        #expect(device.zones == ["A"])
        device.disconnect()
        #expect(receiver.take() == ["phone false"])
    }

    @Test func aReceiverIsNotRetained() {
        let bus = InProcessNoticeBus()
        weak var receiver: Receiver?
        do {
            let known = Receiver()
            bus.add(known)
            receiver = known
        }
        #expect(receiver == nil)
        bus.publish(.credentialsRevoked([], generation: 1))
    }
}

extension StoredRecord {
    /// A record without fields.
    fileprivate static func test(_ name: String) -> StoredRecord {
        let stamp = Stamp(at: Timestamp(milliseconds: 1), by: UserID("_a"), device: DeviceFingerprint(deviceID: "d"))
        return StoredRecord(
            name: name,
            type: "Note",
            change: 1,
            created: stamp,
            modified: stamp,
            fields: Array("{}".utf8)
        )
    }
}
