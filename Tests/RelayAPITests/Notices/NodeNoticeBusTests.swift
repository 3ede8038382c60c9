import Records
import RelayAPI
import RelayCore
import Synchronization
import Testing

/// The bus between two nodes, whose messages the test carries.
///
/// The simulator judges the nodes as a whole.
@Suite struct NodeNoticeBusTests {
    private final class Channel: NoticeChannel {
        let sent = Mutex<[NoticeEnvelope]>([])
        func send(_ envelope: NoticeEnvelope) { sent.withLock { $0.append(envelope) } }
    }

    private final class Receiver: NoticeReceiver {
        let zones = Mutex<[String]>([])

        func receive(_ message: NoticeMessage) {
            guard case .zonesChanged(let changes, _) = message else { return }
            zones.withLock { $0 += changes.map(\.zone.zoneName) }
        }
    }

    private let channel = Channel()
    private let receiver = Receiver()
    private let first: NodeNoticeBus
    private let second: NodeNoticeBus

    init() {
        first = NodeNoticeBus(node: NodeID("first"), run: 1, channel: channel)
        second = NodeNoticeBus(node: NodeID("second"), run: 1, channel: Channel())
        second.add(receiver)
    }

    private func sent(_ zones: String...) -> [NoticeEnvelope] {
        for zone in zones {
            let id = ZoneID(zone, owner: UserID("_a"))
            first.publish(
                .zonesChanged([ZoneChange(store: store, zone: id, syncToken: nil, deviceID: nil)], traces: [])
            )
        }
        return channel.sent.withLock { $0 }
    }

    private var received: [String] { receiver.zones.withLock { $0 } }

    @Test func eachMessageIsReceivedOnceInAnyOrder() {
        let envelopes = sent("A", "B", "C")
        for number in [0, 2, 2, 1, 1, 0] { second.receive(envelopes[number]) }
        #expect(received == ["A", "C", "B"])
    }

    @Test func aMessageOfAnotherFormatIsIgnored() {
        var envelope = sent("A")[0]
        envelope.format += 1
        second.receive(envelope)
        #expect(received == [])
    }

    @Test func aNodeIgnoresItsOwnMessages() {
        first.add(receiver)
        sent("A").forEach { first.receive($0) }
        #expect(received == ["A"])
    }

    @Test func changesOfRecordsStayInTheNode() {
        first.publish(.recordsChanged([], in: store))
        #expect(channel.sent.withLock { $0.isEmpty })
    }
}
