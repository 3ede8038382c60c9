import Records
import Wire

/// The fourth pass: the list of what is written.
///
/// Nothing is refused any more. See Writes.md, "Write list".
extension ModifyRecords {
    /// A record to write, with the index of its outcome; `nil` for a record that no operation names.
    struct Change {
        var outcome: Int?
        var record: StoredRecord
    }

    /// A record that is deleted through DELETE_SELF; with `isKept`, only in the caller's view.
    struct CascadedDeletion {
        var name: String
        var isKept: Bool
    }

    /// What the write list needs beside the results of the other passes.
    struct WriteListReads {
        /// The shares' records that go with deleted roots, by name.
        var endedShares: [String: StoredRecord] = [:]
        /// Records of the cascade that the caller does not see and the owner keeps.
        var invisible: Set<String> = []
    }

    struct WriteList {
        /// The types that just-in-time growth extends.
        let growth: [String: RecordType]
        /// The names by which the caller knows records.
        let aliases: RecordAliases
        let newAliases: [NewAlias]
        /// The cascading deletions; their records are read and written in parts.
        fileprivate(set) var cascadedDeletions: [CascadedDeletion] = []
        var changes: [Change]
        /// The current states of the changed records.
        fileprivate(set) var replaced: [String: StoredRecord]
        fileprivate(set) var outcomes: [Outcome]
        let stamp: StoredRecord.Stamp
    }

    /// Collects the records to write: those of the operations, and what follows from them for deleted and shared
    /// records.
    static func writeList(
        of write: consuming Validated,
        _ references: CheckedReferences,
        _ shares: CheckedShares,
        cascade: Cascade,
        _ reads: WriteListReads,
        over before: StateBefore
    ) -> WriteList {
        var list = WriteList(
            growth: write.growth,
            aliases: write.aliases,
            newAliases: zip(write.newAliases, shares.aliasShares).map { alias, share in
                var alias = alias
                alias.share = share
                return alias
            },
            changes: write.writes,
            replaced: before.records,
            outcomes: write.outcomes,
            stamp: before.stamp
        )
        for (outcome, error) in write.refused {
            list.outcomes[outcome] = .failed(name: write.request.operations[outcome].name, error, server: nil)
        }
        let kept = references.viewOnlyDeletions
        for name in cascade.cascadedDeletions {
            let isKept = cascade.roots[name].map(kept.contains) ?? false
            if isKept, reads.invisible.contains(name) { continue }
            list.cascadedDeletions.append(CascadedDeletion(name: name, isKept: isKept))
        }
        if !kept.isEmpty { list.keep(kept, before.records) }
        if let sharing = before.sharing, !(write.request.isAtomic && write.hasFailed) {
            list.endShares(write.deletions(beside: cascade, keeping: kept, over: before), reads.endedShares, sharing)
            list.markRoots(write.newShares, sharing)
        }
        return list
    }
}

extension ModifyRecords.Validated {
    /// The records that this write deletes.
    struct Deletions {
        var names: Set<String> = []
        /// Those of them that may be share roots or share records.
        var shared: [StoredRecord] = []

        /// The records of shares whose roots are deleted, where the write does not delete them anyway.
        var endedShares: [String] {
            shared.compactMap { $0.shareReference?.record }.filter { !names.contains($0) }
        }
    }

    func deletions(
        beside cascade: ModifyRecords.Cascade,
        keeping kept: Set<Int>,
        over before: ModifyRecords.StateBefore
    ) -> Deletions {
        var deletions = Deletions()
        for change in writes where change.record.isDeleted && isLive(change) {
            if let outcome = change.outcome, kept.contains(outcome) { continue }
            deletions.names.insert(change.record.name)
            if let record = before.records[change.record.name] { deletions.shared.append(record) }
        }
        for name in cascade.cascadedDeletions where !(cascade.roots[name].map(kept.contains) ?? false) {
            deletions.names.insert(name)
            if let record = cascade.sharedCascadedDeletions[name] { deletions.shared.append(record) }
        }
        return deletions
    }
}

extension ModifyRecords.WriteReads {
    /// Reads what the write list needs.
    func writeList(
        of write: ModifyRecords.Validated,
        beside cascade: ModifyRecords.Cascade,
        keeping kept: Set<Int>
    ) throws(RelayError) -> ModifyRecords.WriteListReads {
        var reads = ModifyRecords.WriteListReads()
        if !kept.isEmpty {
            let names = cascade.cascadedDeletions.filter { name in cascade.roots[name].map(kept.contains) ?? false }
            reads.invisible = try invisible(among: Set(names))
        }
        if before.sharing != nil {
            let ended = write.deletions(beside: cascade, keeping: kept, over: before).endedShares
            if !ended.isEmpty { reads.endedShares = try writer.records(named: ended, in: before.zone.whole) }
        }
        return reads
    }
}

extension ModifyRecords.WriteList {
    private func isLive(_ change: ModifyRecords.Change) -> Bool {
        change.outcome.map { outcomes[$0].error == nil } ?? true
    }

    /// Deletes the shares of deleted roots, and unmarks roots whose shares are deleted, which ends their links.
    fileprivate mutating func endShares(
        _ deletions: ModifyRecords.Validated.Deletions,
        _ ended: [String: StoredRecord],
        _ sharing: SharingState
    ) {
        for (name, record) in ended where !record.isDeleted {
            replaced[name] = record
            changes.append(ModifyRecords.Change(outcome: nil, record: record.tombstone(stamp)))
        }
        for record in deletions.shared {
            guard let root = record.sharing?.root, !deletions.names.contains(root) else { continue }
            change(root, sharing) { $0.share = nil }
        }
    }

    fileprivate mutating func markRoots(_ newShares: [Int: Share], _ sharing: SharingState) {
        for (outcome, share) in newShares {
            guard let root = share.root, case .saved(let record) = outcomes[outcome] else { continue }
            change(root, sharing) {
                $0.shareReference = ShareReference(shortGUID: share.shortGUID, record: record.name)
            }
        }
    }

    /// Changes a record that this write saves, or adds an unchanged record to the write.
    private mutating func change(_ name: String, _ sharing: SharingState, _ body: (inout StoredRecord) -> Void) {
        if let index = changes.lastIndex(where: { $0.record.name == name && isLive($0) }) {
            body(&changes[index].record)
            if let outcome = changes[index].outcome { outcomes[outcome] = .saved(changes[index].record) }
            return
        }
        guard var record = sharing.others[name] ?? replaced[name], !record.isDeleted else { return }
        replaced[name] = record
        body(&record)
        record.modified = stamp
        changes.append(ModifyRecords.Change(outcome: nil, record: record))
    }

    /// Assigns change numbers to the records and writes them; saved outcomes then contain the numbers.
    mutating func write(to writer: any StoreWriter, _ zone: Zone, by device: String) throws(RelayError) {
        guard !changes.isEmpty else { return }
        if !growth.isEmpty { try writer.define(growth) }
        let shown = newAliases.compactMap { alias in
            alias.share.map { NewRecordAlias(alias.kept, shownAs: alias.shown, in: $0) }
        }
        if !shown.isEmpty { try writer.show(shown, of: zone) }
        try writeCascadedDeletions(to: writer, zone, by: device)
        var records: [StoredRecord] = []
        records.reserveCapacity(changes.count)
        for place in changes.indices {
            let index = changes[place].outcome
            if let index, case .failed = outcomes[index] { continue }
            changes[place].record.change = writer.takeChangeNumber()
            records.append(changes[place].record)
            if let index, case .saved = outcomes[index] { outcomes[index] = .saved(changes[place].record) }
        }
        try writer.put(records, replacing: replaced, in: zone, by: device)
    }

    /// Writes the cascading deletions in parts, because all of them together may exceed the available memory.
    ///
    /// Deletes the records farthest from the cascade's start first, as a caller who deletes them one by one would.
    private func writeCascadedDeletions(
        to writer: any StoreWriter,
        _ zone: Zone,
        by device: String
    ) throws(RelayError) {
        var rest = cascadedDeletions[...]
        while !rest.isEmpty {
            let part = rest.suffix(32).reversed()
            rest = rest.dropLast(part.count)
            let stored = try writer.records(named: part.map(\.name), in: zone.whole)
            let changed = part.compactMap { deletion -> StoredRecord? in
                guard let record = stored[deletion.name] else { return nil }
                var changed = deletion.isKept ? record.removedFromView(stamp) : record.tombstone(stamp)
                changed.change = writer.takeChangeNumber()
                return changed
            }
            try writer.put(changed, replacing: stored, in: zone, by: device)
        }
    }
}

extension StoredRecord {
    /// Returns the record's tombstone.
    func tombstone(_ stamp: Stamp) -> StoredRecord {
        let modified = stamp.later(than: self)
        var record = self
        record.update {
            $0.isDeleted = true
            $0.fields = FieldsJSON.empty
            $0.parent = nil
            $0.share = nil
            $0.sharing = nil
            $0.modified = modified
        }
        return record
    }
}
