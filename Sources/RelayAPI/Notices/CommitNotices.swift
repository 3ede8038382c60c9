// The one place where a commit becomes notices: zone changes go to the hub at once, record changes to the query queue.
package import Records
package import RelayCore

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

extension NoticeHub {
    /// Publishes a commit of a store.
    ///
    /// `traces` are the traces of its writes, if any.
    package func publish(_ commit: Commit, of home: ContainerEnvironment, traces: [RequestTrace] = []) {
        let receivableChanges = changes(in: commit.zones, withListenersIn: home)
        if !receivableChanges.isEmpty { publish(receivableChanges.flatMap { $0.noticed(in: home) }, traces: traces) }
        guard !commit.records.isEmpty || !commit.subscriptions.isEmpty else { return }
        var receivableCommit = commit
        receivableCommit.records = receivable(commit.records, in: home)
        guard !receivableCommit.records.isEmpty || !receivableCommit.subscriptions.isEmpty else { return }
        queries.post(receivableCommit, of: home)
    }

    /// Returns the records that a connected device could be notified of.
    ///
    /// One-time subscriptions fire only for a connected device.
    private func receivable(_ records: [CommittedRecord], in home: ContainerEnvironment) -> [CommittedRecord] {
        // Most commits affect one zone, and all records of a zone that is shared as a whole have the same array of
        // viewers; comparing arrays with the same storage is fast.
        var lastZone: (id: ZoneID, isReceivable: Bool)?
        var lastViewers: (list: [CommittedRecord.Viewer], isReceivable: Bool) = ([], false)
        func isReceivable(_ index: Int) -> Bool {
            if lastZone?.id != records[index].zone {
                lastZone = (records[index].zone, mayBeReceived(records[index].zone, in: home))
            }
            guard lastZone?.isReceivable == false else { return true }
            if records[index].viewers != lastViewers.list {
                lastViewers = (records[index].viewers, mayBeReceived(by: records[index].viewers, in: home))
            }
            return lastViewers.isReceivable
        }
        // Uses indices, and returns the array unchanged if possible: copying a record increments many reference counts.
        return records.indices.allSatisfy(isReceivable)
            ? records : records.indices.filter(isReceivable).map { records[$0] }
    }
}
