import Crypto
package import RelayCore
import Synchronization

/// Decides which of several nodes sends the pushes to a device.
///
/// By rendezvous hashing: each node computes the same owner from the nodes that are alive, and when a node leaves, only its
/// devices change their owner.
package final class PushOwner: Sendable {
    private let node: NodeID?
    private let live: Mutex<Set<NodeID>>

    /// `node` is this node; `nil` if it is the only one, which sends everything.
    package init(_ node: NodeID?) {
        self.node = node
        live = Mutex(node.map { [$0] } ?? [])
    }

    package func nodesChanged(to live: Set<NodeID>) { self.live.withLock { $0 = live } }

    package func sends(to device: PushDevice) -> Bool {
        guard let node, Self.isOneNode else { return true }
        return live.withLock { Self.owner(of: device.id, among: $0) } == node
    }

    private static func owner(of device: String, among nodes: Set<NodeID>) -> NodeID? {
        nodes.max { a, b in
            (weight(a, device), a.name) < (weight(b, device), b.name)
        }
    }

    private static func weight(_ node: NodeID, _ device: String) -> UInt64 {
        SHA256.hash(data: Array("\(node.name)/\(device)".utf8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
