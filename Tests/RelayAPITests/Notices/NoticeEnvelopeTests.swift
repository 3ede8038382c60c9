import Records
import RelayCore
import Synchronization
import Testing

@testable import RelayAPI

/// Messages between nodes as bytes.
@Suite struct NoticeEnvelopeTests {
    private func copy(of message: NoticeMessage?) throws -> NoticeMessage? {
        let envelope = NoticeEnvelope(sender: NodeID("a \"node\""), run: .max, number: 1 << 63, message: message)
        let copy = try #require(NoticeEnvelope(envelope.encoded))
        #expect(copy.sender == envelope.sender && copy.run == envelope.run && copy.number == envelope.number)
        #expect(!envelope.encoded.contains(UInt8(ascii: "\n")))
        return copy.message
    }

    private let address = NoticeAddress(store: store, user: UserID("_a"))

    @Test func changesOfZonesAreUnchanged() throws {
        let changes = [
            ZoneChange(store: store, zone: ZoneID("A", owner: UserID("_a")), syncToken: "token", deviceID: "device"),
            ZoneChange(
                store: store,
                zone: ZoneID("B\n", owner: UserID("_b")),
                scope: .shared,
                syncToken: nil,
                deviceID: nil,
                audience: [UserID("_c"), UserID("_d")],
                namesZone: false
            ),
        ]
        guard case .zonesChanged(let read, _) = try copy(of: .zonesChanged(changes, traces: [])) else {
            throw Mismatch()
        }
        #expect(read == changes)
    }

    @Test func changesOfSubscriptionsAreUnchanged() throws {
        let zone = ZoneID("Z", owner: UserID("_a"))
        let query = SubscribedQuery(
            recordType: "Note",
            json: Array("{}".utf8),
            zone: zone,
            firesOn: .update,
            firesOnce: true
        )
        let subscriptions = [
            Subscription(id: "1", kind: .database, recordType: "Note", notificationInfo: Array("{}".utf8)),
            Subscription(id: "2", kind: .zone(nil)), Subscription(id: "3", kind: .zone(zone)),
            Subscription(id: "4", kind: .query(query)),
        ]
        let changes =
            subscriptions.map {
                CommittedSubscription(user: UserID("_a"), scope: .private, id: $0.id, subscription: $0)
            } + [CommittedSubscription(user: UserID("_a"), scope: .shared, id: "5", subscription: nil)]
        let message = NoticeMessage.subscriptionsChanged(changes, version: 12, in: store)
        guard case .subscriptionsChanged(let read, 12, store) = try copy(of: message) else {
            throw Mismatch()
        }
        #expect(read == changes)
    }

    @Test func presenceAndRevocationsAreUnchanged() throws {
        let connection = NoticeConnectionID(number: 3)
        for isConnected in [true, false] {
            let message = NoticeMessage.presence(
                of: "d",
                at: address,
                as: connection,
                isConnected: isConnected,
                on: NodeID("n")
            )
            guard case .presence("d", address, connection, isConnected, NodeID("n")) = try copy(of: message) else {
                throw Mismatch()
            }
        }
        let devices = [PresentDevice(deviceID: "d", address: address, connection: connection)]
        guard case .pushDevicesChanged(address) = try copy(of: .pushDevicesChanged(at: address)) else {
            throw Mismatch()
        }
        guard case .present(devices, NodeID("n")) = try copy(of: .present(devices, on: NodeID("n"))) else {
            throw Mismatch()
        }
        let revoked = NoticeMessage.credentialsRevoked([.serverKey("k")], generation: 9)
        guard case .credentialsRevoked([], 9) = try copy(of: revoked) else {
            throw Mismatch()
        }
    }

    /// The notices of a match on another node, made of what a message about it contains.
    @Test func aMatchMakesTheSameNotice() throws {
        let info = Array(#"{"alertBody":"changed","additionalFields":["title","secret"]}"#.utf8)
        let query = SubscribedQuery(recordType: "Note", json: Array("{}".utf8), firesOn: .create)
        let record = StoredRecord.note(
            #"{"title":{"type":"STRING","value":"T"},"secret":{"type":"STRING","value":"S"}}"#
        )
        let match = SubscriptionIndex.Match(
            user: UserID("_a"),
            scope: .private,
            subscription: Subscription(id: "s", kind: .query(query), notificationInfo: info),
            event: .create,
            record: record
        )
        let type = RecordType(fields: [
            "title": .init(.scalar(.string)), "secret": .init(.scalar(.string), isEncrypted: true),
        ])
        let matches = RecordMatches(
            address: address,
            matches: [match],
            zone: ZoneID("Z", owner: UserID("_a")),
            device: "d",
            schema: Schema(version: 1, types: ["Note": type]),
            committed: nil
        )
        guard case .recordMatched(let read) = try copy(of: .recordMatched(matches)) else {
            throw Mismatch()
        }
        let made = [matches, read].map { each in
            QueryNotice(each.matches[0], zone: each.zone, schema: each.schema).notice(for: each.address, noticeID: "n")
        }
        #expect(made[0] == made[1])
        #expect(read.address == address && read.device == "d")
        var large = matches
        large.matches[0].record = .note(String(repeating: " ", count: 20_000))
        #expect(try copy(of: .recordMatched(large)) == nil)
    }

    /// Nodes that answered it with a sweep of their own would never come to rest.
    @Test func theBeginOfASweepAsksForNoSweep() throws {
        guard case .sweeping = try copy(of: .sweeping) else { throw Mismatch() }
    }

    /// Others read a schema from the store.
    @Test func aSchemaIsNotSent() throws {
        #expect(try copy(of: .schemaChanged(Schema(version: 3), in: store)) == nil)
        #expect(try copy(of: nil) == nil)
    }

    @Test func malformedBytesAreIgnored() {
        for text in ["", "{}", "[]", #"{"f":1,"s":"a","r":1,"n":1,"zones":[{}]}"#, #"{"f":"1"}"#] {
            #expect(NoticeEnvelope(Array(text.utf8)) == nil)
        }
    }

    @Test func aMessageThatDidNotFitAsksForASweep() {
        final class Channel: NoticeChannel { func send(_ envelope: NoticeEnvelope) {} }
        let count = Mutex(0)
        let bus = NodeNoticeBus(node: NodeID("b"), run: 1, channel: Channel()) { count.withLock { $0 += 1 } }
        for _ in 0..<2 { bus.receive(NoticeEnvelope(sender: NodeID("a"), run: 1, number: 1, message: nil)) }
        #expect(count.withLock { $0 } == 1)
    }
}

private struct Mismatch: Error {}

extension StoredRecord {
    fileprivate static func note(_ fields: String) -> StoredRecord {
        let stamp = Stamp(at: Timestamp(milliseconds: 1), by: UserID("_a"), device: DeviceFingerprint(deviceID: "d"))
        return StoredRecord(
            name: "r",
            type: "Note",
            change: 1,
            created: stamp,
            modified: stamp,
            fields: Array(fields.utf8)
        )
    }
}
