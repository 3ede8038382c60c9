import Records
import Wire

/// Deletions by somebody who sees but a hierarchy of the zone, of records that something out of their sight holds.
///
/// To refuse them would tell of what is hidden, and to carry them out would break what the owner relies on. So the caller,
/// and whoever else sees the hierarchy, finds the records deleted, and the owner keeps them, beside the hierarchy. Ours:
/// Apple's page knows VALIDATE references but not who sees them.
extension ModifyRecords.Decision {
    /// The operations, by their places, whose deletions take effect in the caller's sight alone.
    func deletionsForTheCaller(_ cascade: Cascade) throws(RelayError) -> Set<Int> {
        guard hides != nil else { return [] }
        var kept: Set<Int> = []
        var waiting = cascade.holders.compactMap { cascade.roots[$0.target] }
        if waiting.isEmpty { return [] }
        // What stays holds in turn.
        let names = Dictionary(grouping: cascade.roots.keys) { cascade.roots[$0] }
        while let root = waiting.popLast() {
            guard isLive(root), kept.insert(root).inserted else { continue }
            for bond in (names[root] ?? []).flatMap({ cascade.bonds[$0] ?? [] }) {
                guard let other = cascade.roots[bond.target], try binds(bond) else { continue }
                waiting.append(other)
            }
        }
        return kept
    }

    /// Whether a record that stays goes on saying so: those in sight lose their parents.
    private func binds(_ reference: StoredReference) throws(RelayError) -> Bool {
        guard reference.kind == .parent, let hides else { return true }
        return try hides(reference.source)
    }

    /// Notes what goes along, and takes out of the hierarchy what is kept.
    mutating func carryOut(_ cascade: Cascade, keeping kept: Set<Int>) throws(RelayError) {
        for name in cascade.followers {
            let isKept = cascade.roots[name].map(kept.contains) ?? false
            if isKept, let hides, try hides(name) { continue }
            followers.append(Follower(name: name, isKept: isKept))
            if !isKept { sharedFollowers[name] = cascade.sharedFollowers[name] }
        }
        guard !kept.isEmpty else { return }
        for index in writes.indices {
            guard let outcome = writes[index].outcome, writes[index].record.isDeleted, kept.contains(outcome),
                let record = before[writes[index].record.name]
            else { continue }
            writes[index] = (nil, outOfSight(record))
        }
    }

    func outOfSight(_ record: StoredRecord) -> StoredRecord {
        var record = record
        record.update {
            $0.parent = nil
            $0.modified = stamp
        }
        return record
    }
}
