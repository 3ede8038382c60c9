import Records
import RelayAPI
import RelayCore
import Testing

/// Which of several nodes sends the pushes to a device.
@Suite struct PushOwnerTests {
    private let nodes = (0..<4).map { NodeID("node\($0)") }
    private let devices = (0..<1_000).map { number in
        PushDevice(
            id: "device-\(number)",
            home: store,
            user: UserID("_u"),
            deviceID: "d",
            session: nil,
            apiTokenHash: [],
            target: .fcm(token: "t"),
            registered: Timestamp(milliseconds: 0)
        )
    }

    /// Returns the nodes that send to each device while these nodes are alive.
    private func senders(_ live: [NodeID]) -> [[NodeID]] {
        let owners = live.map { node in
            let owner = PushOwner(node)
            owner.nodesChanged(to: Set(live))
            return (node, owner)
        }
        return devices.map { device in owners.filter { $0.1.sends(to: device) }.map(\.0) }
    }

    @Test func aRelayThatIsAloneSendsEverything() {
        let owner = PushOwner(nil)
        #expect(devices.allSatisfy { owner.sends(to: $0) })
        owner.nodesChanged(to: [nodes[0]])
        #expect(devices.allSatisfy { owner.sends(to: $0) })
    }

    @Test func aNodeSendsEverythingUntilItKnowsOfOthers() {
        let owner = PushOwner(nodes[0])
        #expect(devices.allSatisfy { owner.sends(to: $0) })
    }

    @Test func oneNodeSendsToEachDeviceAndAllHaveAShare() {
        let senders = senders(nodes)
        #expect(senders.allSatisfy { $0.count == 1 })
        for node in nodes {
            let share = senders.count { $0 == [node] }
            #expect((200...300).contains(share), "\(node.name) has \(share) of \(devices.count)")
        }
    }

    @Test func onlyTheDevicesOfANodeThatLeavesChange() {
        let (before, after) = (senders(nodes), senders(Array(nodes.dropLast())))
        #expect(after.allSatisfy { $0.count == 1 })
        for (old, new) in zip(before, after) where old != [nodes[3]] { #expect(old == new) }
        #expect(senders(nodes) == before, "its devices come back with it")
    }

    @Test func aNodeThatIsNotAliveSendsNothing() {
        let owner = PushOwner(nodes[0])
        owner.nodesChanged(to: [nodes[1]])
        #expect(!devices.contains { owner.sends(to: $0) })
    }
}
