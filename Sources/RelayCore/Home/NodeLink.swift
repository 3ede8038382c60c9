/// What connects a relay with the other relays that serve the same stores: messages, and which of them are alive.
///
/// A message may be lost, for example while the connection is interrupted, and is never changed. The receiver must find
/// what a lost one said in the stores.
package protocol NodeLink: Sendable {
    /// The name of this node. No other live node has it.
    var node: String { get }

    /// Starts to receive messages and to tell the others that this node is alive.
    ///
    /// Returns once the link receives messages and the other nodes are known.
    func start(_ events: NodeLinkEvents) throws(DirectoryError)

    /// Sends a message to all other nodes, in the order of the calls. Must not block.
    func send(_ message: [UInt8])

    /// Tells the other nodes that this one leaves, and ends the link.
    func stop()

    var state: NodeLinkState { get }
}

/// What a link reports, on threads of its own.
package struct NodeLinkEvents: Sendable {
    /// A message of another node.
    package var received: @Sendable ([UInt8]) -> Void
    /// Messages may have been lost: the link was interrupted, or could not read what came.
    package var wasInterrupted: @Sendable () -> Void
    /// The live nodes have changed; this one is among them.
    package var nodesChanged: @Sendable (Set<String>) -> Void

    package init(
        received: @escaping @Sendable ([UInt8]) -> Void,
        wasInterrupted: @escaping @Sendable () -> Void,
        nodesChanged: @escaping @Sendable (Set<String>) -> Void
    ) {
        self.received = received
        self.wasInterrupted = wasInterrupted
        self.nodesChanged = nodesChanged
    }
}

/// The state of a link, for readiness, metrics and `doctor`.
package struct NodeLinkState: Hashable, Sendable {
    /// The live nodes, as the latest answer of the database says.
    package var liveNodes: Set<String> = []
    /// Whether the database has answered within the lease; otherwise this node must refuse requests, not guess.
    package var hasLease = false
    /// Whether messages of the other nodes arrive.
    package var isListening = false
    /// How far this machine's clock is ahead of the database's; negative if it is behind.
    package var clockOffset: Duration = .zero
    /// How often the connection for receiving was lost.
    package var interruptions = 0
    /// The messages that were sent, and the transactions that it took.
    package var sentMessages = 0
    package var sentBatches = 0

    package init() {}
}
