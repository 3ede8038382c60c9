import Records
import Wire

/// Deletions by somebody who sees but a hierarchy of the zone, of records that something out of their sight holds.
///
/// To refuse them would tell of what is hidden, and to carry them out would break what the owner relies on. So the caller,
/// and whoever else sees the hierarchy, finds the records deleted, and the owner keeps them, beside the hierarchy. Ours:
/// Apple's page knows VALIDATE references but not who sees them.
extension ModifyRecords.Decision {
    /// The operations, by their places, whose deletions take effect in the caller's sight alone.
    func deletionsForTheCaller(
        _ sources: [String: Source],
        _ cascade: Cascade,
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) -> Set<Int> {
        guard hides != nil else { return [] }
        var kept: Set<Int> = []
        for target in cascade.held {
            guard let root = cascade.roots[target], outcomes[root].error == nil else { continue }
            if try !holders(of: target, sources, cascade, in: writer, zone).isEmpty { kept.insert(root) }
        }
        // What stays holds in turn.
        var count = 0
        while count < kept.count {
            count = kept.count
            for (target, root) in cascade.roots where !kept.contains(root) {
                var sourcesThatStay: [StoredReference] = []
                try writer.visitReferences(to: target, in: zone) { reference in
                    if let other = cascade.roots[reference.source], kept.contains(other) {
                        sourcesThatStay.append(reference)
                    }
                    return true
                }
                for reference in sourcesThatStay {
                    if try binds(reference) { kept.insert(root) }
                }
            }
        }
        return kept
    }

    /// Whether a record that stays goes on saying so: those in sight lose their parents.
    private func binds(_ reference: StoredReference) throws(RelayError) -> Bool {
        guard reference.kind == .parent, let hides else { return true }
        return try hides(reference.source)
    }

    /// Deletes what goes along, and takes out of the hierarchy what is kept.
    mutating func carryOut(_ cascade: Cascade, keeping kept: Set<Int>) throws(RelayError) {
        for record in cascade.records {
            before[record.name] = record
            guard let root = cascade.roots[record.name], kept.contains(root) else {
                writes.append((nil, tombstone(of: record)))
                continue
            }
            if let hides, try hides(record.name) { continue }
            writes.append((nil, outOfSight(record)))
        }
        guard !kept.isEmpty else { return }
        for index in writes.indices {
            guard let outcome = writes[index].outcome, writes[index].record.isDeleted, kept.contains(outcome),
                let record = before[writes[index].record.name]
            else { continue }
            writes[index] = (nil, outOfSight(record))
        }
    }

    private func outOfSight(_ record: StoredRecord) -> StoredRecord {
        var record = record
        record.update {
            $0.parent = nil
            $0.modified = stamp
        }
        return record
    }
}
