package import Records
package import RelayCore
import Synchronization

/// Something that connected devices may have to be told.
package enum NoticeMessage: Sendable {
    /// A commit has changed zones; with the traces of its writes.
    case zonesChanged([ZoneChange], traces: [RequestTrace])
    /// A commit has changed records of types that query subscriptions watch.
    case recordsChanged([CommittedRecord], in: ContainerEnvironment)
    /// A commit has changed subscriptions.
    case subscriptionsChanged([CommittedSubscription], in: ContainerEnvironment)
    /// The schema by which the records that follow are matched with query subscriptions.
    case schemaChanged(Schema, in: ContainerEnvironment)
    /// Sessions or keys have ended.
    case credentialsRevoked(Set<Credential>)
    /// A device has begun or ended to listen on a connection.
    case presence(of: String, at: NoticeAddress, as: NoticeConnectionID, isConnected: Bool)
}

/// Carries messages from where something happens to where devices are connected.
///
/// The hub, query subscriptions and pushes learn of changes from the bus only. Safe to call from any thread.
package protocol NoticeBus: Sendable {
    /// Passes a message to all receivers, in the order of the calls of one thread.
    ///
    /// Called on the thread of a commit, before its writes are answered. Must not block.
    func publish(_ message: NoticeMessage)

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
package final class InProcessNoticeBus: NoticeBus {
    private struct Weak: Sendable { weak var receiver: (any NoticeReceiver)? }

    private let receivers = Mutex<[Weak]>([])

    package init() {}

    package func publish(_ message: NoticeMessage) {
        for each in receivers.withLock({ $0 }) { each.receiver?.receive(message) }
    }

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
