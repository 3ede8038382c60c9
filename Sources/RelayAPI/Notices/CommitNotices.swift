package import Records
package import RelayCore
import Synchronization

/// The one place where a commit becomes messages for the notice bus.
package final class CommitNotices: Sendable {
    private let bus: any NoticeBus
    private let tracer: Tracer?
    /// The version of each schema that the bus has carried last.
    private let schemas = Mutex<[ContainerEnvironment: Int]>([:])

    /// - Parameters:
    ///   - bus: Carries the messages.
    ///   - tracer: Knows the traces of a commit's writes; `nil` if tracing is disabled.
    package init(_ bus: any NoticeBus, tracer: Tracer? = nil) {
        self.bus = bus
        self.tracer = tracer
    }

    /// Publishes a commit of a store.
    ///
    /// Call after each commit, in commit order, before its writes are answered. Never blocks on a connection.
    package func publish(_ commit: Commit, of home: ContainerEnvironment) {
        let commit = bus.receivable(commit, in: home)
        if !commit.zones.isEmpty {
            let changes = commit.zones.flatMap { $0.noticed(in: home) }
            bus.publish(.zonesChanged(changes, traces: tracer?.writes(in: home) ?? []))
        }
        // Other nodes need each new schema, also for requests.
        guard !commit.records.isEmpty || !commit.subscriptions.isEmpty || bus.node != nil else { return }
        // Also with subscriptions, as when a store is opened: it may be another one than before.
        let known = schemas.withLock { $0.updateValue(commit.schema.version, forKey: home) }
        if known != commit.schema.version || !commit.subscriptions.isEmpty {
            bus.publish(.schemaChanged(commit.schema, in: home))
        }
        if !commit.subscriptions.isEmpty {
            bus.publish(.subscriptionsChanged(commit.subscriptions, version: commit.subscriptionsVersion, in: home))
        }
        if !commit.records.isEmpty { bus.publish(.recordsChanged(commit.records, in: home)) }
    }
}

extension CommittedChange {
    /// Returns the changes for the owner and for each user with whom the zone is or was shared.
    fileprivate func noticed(in home: ContainerEnvironment) -> [ZoneChange] {
        let isOwners = author.map { $0 == zone.owner } ?? true
        var changes = [
            ZoneChange(store: home, zone: zone, syncToken: token?.encoded, deviceID: isOwners ? device : nil)
        ]
        for participant in audience {
            changes.append(
                ZoneChange(
                    store: home,
                    zone: zone,
                    scope: .shared,
                    syncToken: participant.token?.encoded,
                    deviceID: participant.user == author ? device : nil,
                    audience: [participant.user],
                    namesZone: participant.knowsZone
                )
            )
        }
        return changes
    }
}
