import Records
import Wire

/// Deletions by a participant who sees one hierarchy, of records that are referenced from outside it.
///
/// An error would disclose the hidden references, and deleting the records would break what the owner relies on. So the
/// records disappear from the hierarchy, for the caller and everyone else who sees it, while the owner keeps them
/// outside of it. Apple's documentation covers VALIDATE references but not who can see them.
extension ModifyRecords.Decision {
    /// Returns the indexes of the operations whose deletions take effect only in the caller's view.
    func deletionsForTheCaller(_ cascade: Cascade) throws(RelayError) -> Set<Int> {
        guard hides != nil else { return [] }
        var kept: Set<Int> = []
        var waiting = cascade.holders.compactMap { cascade.roots[$0.target] }
        if waiting.isEmpty { return [] }
        // A record that stays also blocks the deletion of the records that it references.
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

    /// Whether a record that stays keeps the reference: visible records lose their parents.
    private func binds(_ reference: StoredReference) throws(RelayError) -> Bool {
        guard reference.kind == .parent, let hides else { return true }
        return try hides(reference.source)
    }

    /// Collects the cascading deletions, and takes the records that the owner keeps out of the hierarchy.
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
