import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import TestSupport
import Testing
import Wire

/// Push registrations of devices whose requests go to one node and then to another one, before it has swept.
@Suite struct PushNodeTests {
    /// Keeps the messages of a node.
    private final class Channel: NoticeChannel {
        private let held = Mutex<[NoticeEnvelope]>([])

        func send(_ envelope: NoticeEnvelope) { held.withLock { $0.append(envelope) } }

        func take() -> [NoticeEnvelope] {
            held.withLock { held in
                defer { held = [] }
                return held
            }
        }
    }

    private struct Node: RelayCalling {
        let relay: Relay
        let container: String
        let hub: NoticeHub
        let bus: NodeNoticeBus
        let channel: Channel
    }

    private let directory: any AccountDirectory
    private let base: RelayWorld
    private let nodes: [Node]

    init() throws {
        let directory = try TestStore.current.makeHome().accounts()
        let base = try RelayWorld(directory: directory)
        self.directory = directory
        self.base = base
        nodes = ["a", "b"].map { name in
            let channel = Channel()
            let bus = NodeNoticeBus(node: NodeID(name), run: 1, channel: channel)
            let hub = NoticeHub(relayName: name, bus: bus, noticeID: { "n" })
            let relay = Relay(
                authenticator: base.relay.authenticator,
                stores: base.stores,
                hub: hub,
                push: PushDependencies(gateway: PushPeer(), register: directory),
                time: .system,
                random: .system
            )
            return Node(relay: relay, container: base.container, hub: hub, bus: bus, channel: channel)
        }
    }

    private func ask(_ node: Int, _ operation: String, _ body: String = "{}", from device: String) async throws -> Int {
        try await nodes[node].ask("push/\(operation)", body, root: "/device/1/", from: device).status
    }

    @Test func aRegistrationEndsAtAnotherNode() async throws {
        for device in ["phone", "tablet"] {
            #expect(try await ask(0, "register", PushWorld.apns, from: device) == 200)
        }
        #expect(try await ask(1, "unregister", from: "phone") == 200)
        #expect(try directory.pushDevices().map(\.deviceID) == ["tablet"])
    }

    @Test func aRegistrationThatAnotherNodeHasReplacedEndsToo() async throws {
        #expect(try await ask(0, "register", PushWorld.apns, from: "phone") == 200)
        #expect(try await ask(1, "register", PushWorld.apns, from: "phone") == 200)
        #expect(try await ask(0, "unregister", from: "phone") == 200)
        #expect(try directory.pushDevices().isEmpty)
        #expect(try await ask(0, "unregister", from: "phone") == 200, "it has none")
    }

    /// Without a sweep, which would notice some seconds later.
    @Test func aNodeLearnsOfRegistrationsAtAnotherNodeAtOnce() async throws {
        func deliver() { for envelope in nodes[0].channel.take() { nodes[1].bus.receive(envelope) } }
        for device in ["phone", "tablet"] {
            #expect(try await ask(0, "register", PushWorld.apns, from: device) == 200)
        }
        #expect(nodes[1].relay.pushDeviceCount == 0)
        deliver()
        try await eventually("the other node to know both devices") { nodes[1].relay.pushDeviceCount == 2 }
        #expect(try await ask(0, "register", PushWorld.apns, from: "phone") == 200)
        deliver()
        #expect(try await ask(0, "unregister", from: "tablet") == 200)
        deliver()
        try await eventually("the other node to know that one has left") { nodes[1].relay.pushDeviceCount == 1 }
    }
}
