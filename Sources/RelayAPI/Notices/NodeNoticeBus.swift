package import Records
package import RelayCore
import Synchronization

/// One of the relays that serve the same stores.
package struct NodeID: Hashable, Sendable {
    package var name: String

    package init(_ name: String) { self.name = name }
}

/// Carries envelopes from one node to all others.
///
/// May lose, repeat, delay and reorder them.
package protocol NoticeChannel: Sendable {
    /// Must not block.
    func send(_ envelope: NoticeEnvelope)
}

/// The bus of one of several nodes.
///
/// Passes each message on at once in this relay, as `InProcessNoticeBus` does, and through a channel to the other nodes.
/// What the channel loses, `NoticeSweep` finds in the store.
package final class NodeNoticeBus: NoticeBus {
    private struct Sender {
        var run: UInt64
        var last: UInt64
        /// The numbers below `last` that have not arrived, some of which may still do so.
        var missing: Set<UInt64> = []
        static let maxMissing = 1_000
    }

    private struct WeakSweep { weak var sweep: NoticeSweep? }

    package var node: NodeID? { ownNode }
    private let ownNode: NodeID
    private let run: UInt64
    private let channel: any NoticeChannel
    private let local = InProcessNoticeBus()
    private let sentCount = Atomic<UInt64>(0)
    private let senders = Mutex<[NodeID: Sender]>([:])
    private let attached = Mutex(WeakSweep())
    private let needsSweep: @Sendable () -> Void

    /// - Parameters:
    ///   - node: This relay; no other live node may have the same identifier.
    ///   - run: A number that no earlier run of this node had.
    ///   - channel: Leads to the other nodes.
    ///   - needsSweep: Called for a message whose content is to be read from the store, before the next sweep is due.
    ///     Must not block.
    package init(
        node: NodeID,
        run: UInt64,
        channel: any NoticeChannel,
        needsSweep: @escaping @Sendable () -> Void = {}
    ) {
        self.needsSweep = needsSweep
        ownNode = node
        self.run = run
        self.channel = channel
    }

    private var sweep: NoticeSweep? { attached.withLock { $0.sweep } }

    func attach(_ sweep: NoticeSweep) { attached.withLock { $0.sweep = sweep } }

    package func add(_ receiver: any NoticeReceiver) { local.add(receiver) }

    /// Returns the whole commit: the other nodes' devices are not known here.
    package func receivable(_ commit: Commit, in home: ContainerEnvironment) -> Commit { commit }

    package func follow(_ address: NoticeAddress) { sweep?.follow(address) }

    // MARK: Sending

    package func publish(_ message: NoticeMessage) {
        sweep?.published(message)
        local.publish(message)
        switch message {
        case .recordsChanged, .recordMatched, .nodesChanged, .sweeping: break
        case .zonesChanged(let changes, _): share(.zonesChanged(changes, traces: []))
        case .subscriptionsChanged, .schemaChanged, .credentialsRevoked, .presence, .present, .pushDevicesChanged:
            share(message)
        }
    }

    package func share(_ message: NoticeMessage) {
        let number = sentCount.add(1, ordering: .relaxed).newValue
        channel.send(NoticeEnvelope(sender: ownNode, run: run, number: number, message: message))
    }

    // MARK: Receiving

    /// Receives a message of another node.
    package func receive(_ envelope: NoticeEnvelope) {
        guard envelope.format == NoticeEnvelope.currentFormat, envelope.sender != ownNode, isNew(envelope) else {
            return
        }
        guard let message = envelope.message else {
            sweep?.messagesWereLost()
            return needsSweep()
        }
        guard let sweep else { return local.publish(message) }
        if let new = sweep.received(message) { local.publish(new) }
    }

    /// Notes that messages of other nodes may have been lost, so that the next sweep also looks for lost query notices.
    package func messagesWereLost() { sweep?.messagesWereLost() }

    /// Passes a message to the receivers in this relay only.
    func publishHere(_ message: NoticeMessage) { local.publish(message) }

    /// Announces which nodes are alive.
    ///
    /// A node that has left may have committed something without announcing it.
    package func nodesChanged(to live: Set<NodeID>) {
        senders.withLock { senders in senders = senders.filter { live.contains($0.key) } }
        sweep?.messagesWereLost()
        local.publish(.nodesChanged(live))
    }

    /// Returns `false` for a repeated message, and tells the sweep of gaps.
    private func isNew(_ envelope: NoticeEnvelope) -> Bool {
        let (isNew, hasGap) = senders.withLock { senders -> (Bool, Bool) in
            guard var sender = senders[envelope.sender], sender.run == envelope.run else {
                senders[envelope.sender] = Sender(run: envelope.run, last: envelope.number)
                return (true, envelope.number > 1)
            }
            defer { senders[envelope.sender] = sender }
            guard envelope.number > sender.last else { return (sender.missing.remove(envelope.number) != nil, false) }
            let gap = sender.last + 1..<envelope.number
            sender.last = envelope.number
            if gap.count <= Sender.maxMissing { sender.missing.formUnion(gap) }
            if sender.missing.count > Sender.maxMissing { sender.missing = Set(gap.suffix(Sender.maxMissing)) }
            return (true, !gap.isEmpty)
        }
        if hasGap { sweep?.messagesWereLost() }
        return isNew
    }
}
