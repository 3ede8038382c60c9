package import Records
package import RelayCore
import Synchronization

/// Something that connected devices may have to be told, and what the caches of a relay depend on.
package enum NoticeMessage: Sendable {
    /// A commit has changed zones; with the traces of its writes. Each change has its zone's token, which is its version.
    case zonesChanged([ZoneChange], traces: [RequestTrace])
    /// A commit has changed records of types that query subscriptions watch. Only for the relay that committed.
    case recordsChanged([CommittedRecord], in: ContainerEnvironment)
    /// A changed record matches query subscriptions of a user; published by the relay that committed, for all others.
    case recordMatched(RecordMatches)
    /// A commit has changed subscriptions; `version` is the store's `subscriptionsVersion` after it.
    case subscriptionsChanged([CommittedSubscription], version: UInt64, in: ContainerEnvironment)
    /// The schema by which the records that follow are matched with query subscriptions.
    case schemaChanged(Schema, in: ContainerEnvironment)
    /// Sessions or keys have ended. `generation` is the directory's after that; the set has those with a connection to
    /// the relay that publishes the message.
    case credentialsRevoked(Set<Credential>, generation: UInt64)
    /// A device has begun or ended to listen on a connection.
    case presence(of: String, at: NoticeAddress, as: NoticeConnectionID, isConnected: Bool, on: NodeID?)
    /// All devices with a push registration that are connected to one node.
    case present([PresentDevice], on: NodeID)
    /// The push registrations of a user have changed; the other nodes read them from the directory.
    case pushDevicesChanged(at: NoticeAddress)
    /// The nodes that are alive have changed. Only for this relay.
    case nodesChanged(Set<NodeID>)
    /// A sweep begins: receivers in this relay may read the directory or the store. Other nodes learn from its number
    /// which messages they have not received.
    case sweeping
}

/// A connected device that has a push registration.
package struct PresentDevice: Hashable, Sendable {
    var deviceID: String
    var address: NoticeAddress
    var connection: NoticeConnectionID
}

/// Carries messages from where something happens to where devices are connected.
///
/// The hub, query subscriptions and pushes learn of changes from the bus only. Safe to call from any thread.
package protocol NoticeBus: Sendable {
    /// Passes a message to all receivers, in the order of the calls of one thread.
    ///
    /// Called on the thread of a commit, before its writes are answered. Must not block.
    func publish(_ message: NoticeMessage)

    /// Passes a message to the receivers of the other nodes only; does nothing if there can be none.
    func share(_ message: NoticeMessage)

    /// Called when a device at this address has joined the hub and is about to read what it has missed.
    ///
    /// May read the store.
    func follow(_ address: NoticeAddress)

    /// This relay, if devices may be connected to others that serve the same stores; `nil` if it is the only one.
    var node: NodeID? { get }

    /// Adds a receiver, which is not retained.
    func add(_ receiver: any NoticeReceiver)

    /// Returns the part of a commit that may concern a connected device, so that messages are made for no more.
    func receivable(_ commit: Commit, in home: ContainerEnvironment) -> Commit
}

/// A receiver of the bus's messages.
package protocol NoticeReceiver: AnyObject, Sendable {
    /// Must not block.
    func receive(_ message: NoticeMessage)

    /// Returns the part of a commit that may concern one of this receiver's devices; `nil` if it has none of its own.
    func receivable(_ commit: Commit, in home: ContainerEnvironment) -> Commit?
}

extension NoticeReceiver {
    package func receivable(_ commit: Commit, in home: ContainerEnvironment) -> Commit? { nil }
}

/// The bus of a relay of one process: passes each message on at once.
///
/// It loses nothing, so its relay has no `NoticeSweep`.
package final class InProcessNoticeBus: NoticeBus {
    private struct Weak: Sendable { weak var receiver: (any NoticeReceiver)? }

    private let receivers = Mutex<[Weak]>([])

    package init() {}

    package var node: NodeID? { nil }

    package func publish(_ message: NoticeMessage) {
        for each in receivers.withLock({ $0 }) { each.receiver?.receive(message) }
    }

    package func share(_ message: NoticeMessage) {}

    package func follow(_ address: NoticeAddress) {}

    package func add(_ receiver: any NoticeReceiver) {
        receivers.withLock { $0.append(Weak(receiver: receiver)) }
    }

    package func receivable(_ commit: Commit, in home: ContainerEnvironment) -> Commit {
        for each in receivers.withLock({ $0 }) {
            if let receivable = each.receiver?.receivable(commit, in: home) { return receivable }
        }
        return commit
    }
}
