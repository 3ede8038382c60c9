package import Records
import Wire

extension ModifyRecords {
    /// The references of a saved record.
    struct Source {
        var outcome: Int
        /// The references that the record has after this write.
        var references: [StoredReference] = []
        /// The fields whose stored references this write replaces; `nil` for all.
        var replaced: Set<String>?

        func keeps(_ reference: StoredReference) -> Bool { replaced.map { !$0.contains(reference.field) } ?? false }
    }

    /// All records that this write deletes, by its own operations and through DELETE_SELF.
    ///
    /// Contains names only, because the cascade may exceed the available memory.
    struct Cascade {
        /// The index of the operation that causes each deletion.
        var roots: [String: Int] = [:]
        /// The records that are deleted only through DELETE_SELF, nearest first.
        var cascadedDeletions: [String] = []
        /// Those of them that are share roots or share records, without their fields.
        var sharedCascadedDeletions: [String: StoredRecord] = [:]
        /// References between these records, by source.
        var enforcedReferences: [String: [StoredReference]] = [:]
        /// References from other records that block deletions; for a caller who sees everything, one per target is
        /// enough.
        var blockingReferences: [StoredReference] = []
    }

    /// What the references pass decides on, read anew in each turn: it depends on what is refused so far.
    struct ReferenceReads {
        /// The saved records that are not refused by validation, by name.
        var sources: [String: Source] = [:]
        /// The records to which their references lead, as the caller sees them, without their fields.
        var targets: [String: StoredRecord] = [:]
        var cascade = Cascade()
        /// The sources and targets of blocking references, and of those between deleted records, that the caller does
        /// not see.
        var invisible: Set<String> = []
        /// The number of DELETE_SELF references to each record that this write does not set itself.
        ///
        /// Exact only near the limit; counts what the caller sees.
        var otherDeleteSelf: [String: Int] = [:]
    }
}

extension ModifyRecords.Validated {
    /// Whether the write deletes records, or saves references that affect other records.
    var concernsReferences: Bool { !references.isEmpty || writes.contains { $0.record.isDeleted } }

    /// The references of the saved records, by the record's name.
    fileprivate var sources: [String: ModifyRecords.Source] {
        var sources: [String: ModifyRecords.Source] = [:]
        for write in writes where !write.record.isDeleted {
            guard let outcome = write.outcome else { continue }
            let operation = request.operations[outcome]
            var source = ModifyRecords.Source(outcome: outcome, references: references[outcome] ?? [])
            if operation.kind.mergesFields {
                var replaced = Set(operation.record.fields.map(operation.record.name))
                if operation.record.parent != nil { replaced.insert("") }
                source.replaced = replaced
            }
            sources[operation.name] = source
        }
        return sources
    }

    /// Returns whether a save of this write removes the reference; if the save sets it again, the save is responsible
    /// for it.
    fileprivate func removes(_ reference: StoredReference, _ sources: [String: ModifyRecords.Source]) -> Bool {
        guard let source = sources[reference.source], isLive(source.outcome) else { return false }
        return !source.keeps(reference)
    }
}

extension ModifyRecords.WriteReads {
    /// Reads what the references pass decides on, given the operations that are not refused so far.
    mutating func references(of write: ModifyRecords.Validated) throws(RelayError) -> ModifyRecords.ReferenceReads {
        var reads = ModifyRecords.ReferenceReads()
        reads.sources = write.sources
        reads.targets = try targets(of: reads.sources)
        reads.cascade = try cascade(of: write, reads.sources)
        let near = try countOtherDeleteSelf(beside: write, in: &reads)
        // Most writes end here: the caller sees everything, or nothing blocks a deletion.
        var names: Set<String> = []
        if before.sight == .hierarchies { names.formUnion(near.values.joined()) }
        if !reads.cascade.blockingReferences.isEmpty, before.sight != .everything {
            let between = reads.cascade.enforcedReferences.values.joined().filter { $0.kind != .deleteSelf }
            for reference in reads.cascade.blockingReferences + between {
                names.insert(reference.source)
                names.insert(reference.target)
            }
        }
        if !names.isEmpty { reads.invisible = try invisible(among: names) }
        for (target, sources) in near {
            // The limit must not disclose what the caller does not see.
            reads.otherDeleteSelf[target] =
                before.sight == .hierarchies ? sources.count { !reads.invisible.contains($0) } : sources.count
        }
        return reads
    }

    private mutating func targets(of sources: [String: ModifyRecords.Source]) throws(RelayError) -> [String:
        StoredRecord]
    {
        if let targets { return targets }
        var names: Set<String> = []
        for source in sources.values {
            for reference in source.references where before.records[reference.target] == nil {
                names.insert(reference.target)
            }
        }
        // A participant cannot reference what they do not see.
        let found = names.isEmpty ? [:] : try writer.outlines(named: names.sorted(), in: before.zone)
        targets = found
        return found
    }

    // MARK: Deletions

    /// Reads, level by level, what the deletions of this write delete with them, and what blocks them.
    ///
    /// References also apply to records that a participant cannot see.
    private mutating func cascade(
        of write: ModifyRecords.Validated,
        _ sources: [String: ModifyRecords.Source]
    ) throws(RelayError) -> ModifyRecords.Cascade {
        var cascade = ModifyRecords.Cascade()
        var blocked: [String] = []
        var level: [String] = []
        for deletion in write.writes where deletion.record.isDeleted {
            guard let outcome = deletion.outcome, write.isLive(outcome) else { continue }
            level.append(deletion.record.name)
            cascade.roots[deletion.record.name] = outcome
        }
        while !level.isEmpty {
            var found: [String: Int] = [:]
            try visitReferences(to: level) { reference in
                guard reference.kind == .deleteSelf else {
                    blocked.append(reference.target)
                    return .nextTarget
                }
                guard !write.removes(reference, sources) else { return .next }
                cascade.enforcedReferences[reference.source, default: []].append(reference)
                if cascade.roots[reference.source] == nil { found[reference.source] = cascade.roots[reference.target] }
                return .next
            }
            level = try add(found, to: &cascade)
        }
        try readBlockingReferences(to: blocked, of: write, sources, into: &cascade)
        return cascade
    }

    /// Adds the records of `found` that can be deleted, each with its causing operation, and returns their names.
    private func add(_ found: [String: Int], to cascade: inout ModifyRecords.Cascade) throws(RelayError) -> [String] {
        var added: [String] = []
        var rest = found.keys.sorted()[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(200))
            rest = rest.dropFirst(part.count)
            let records = try writer.records(named: part, in: before.zone.whole, withFields: false)
            for name in part {
                guard let root = found[name], var record = records[name], !record.isDeleted,
                    record.type != RecordType.usersName
                else { continue }
                cascade.roots[name] = root
                cascade.cascadedDeletions.append(name)
                added.append(name)
                guard record.share != nil else { continue }
                record.fields = FieldsJSON.empty
                cascade.sharedCascadedDeletions[name] = record
            }
        }
        return added
    }

    /// Reads references that block the deletion of records unless their sources are deleted too.
    private mutating func readBlockingReferences(
        to blocked: [String],
        of write: ModifyRecords.Validated,
        _ sources: [String: ModifyRecords.Source],
        into cascade: inout ModifyRecords.Cascade
    ) throws(RelayError) {
        // The owner can always end a share, even if other records reference the share's record.
        let targets = blocked.filter { target in
            (before.records[target] ?? cascade.sharedCascadedDeletions[target])?.isShare != true
        }
        guard !targets.isEmpty else { return }
        // One suffices for a caller who sees it. In the public database, usually the first source is readable.
        let most =
            switch before.sight {
            case .everything: 1
            case .readableRecords: 64
            case .hierarchies: Int.max
            }
        var (target, count) = ("", 0)
        try visitReferences(to: targets) { reference in
            guard reference.kind != .deleteSelf, !write.removes(reference, sources) else { return .next }
            guard cascade.roots[reference.source] == nil else {
                cascade.enforcedReferences[reference.source, default: []].append(reference)
                return .next
            }
            cascade.blockingReferences.append(reference)
            count = reference.target == target ? count + 1 : 1
            target = reference.target
            return count < most ? .next : .nextTarget
        }
    }

    /// Visits references as the store does, and throws if the write has examined too many.
    private mutating func visitReferences(
        to targets: [String],
        _ visit: (StoredReference) -> ReferenceVisit
    ) throws(RelayError) {
        budget.add(targets.count)
        var budget = budget
        try writer.visitReferences(to: targets, in: before.zone.whole) { reference in
            budget.add()
            return budget.isExceeded ? .stop : visit(reference)
        }
        self.budget = budget
        try budget.check()
    }

    // MARK: Saves

    /// Counts, for each target of a saved DELETE_SELF reference, the other such references.
    ///
    /// Returns their sources for targets near the limit, where the exact number matters; it is not set for these.
    private mutating func countOtherDeleteSelf(
        beside write: ModifyRecords.Validated,
        in reads: inout ModifyRecords.ReferenceReads
    ) throws(RelayError) -> [String: [String]] {
        var own: [String: Int] = [:]
        var targets: Set<String> = []
        for source in reads.sources.values {
            for reference in source.references {
                own[reference.target, default: 0] += 1
                if reference.kind == .deleteSelf, write.isLive(source.outcome) { targets.insert(reference.target) }
            }
        }
        guard !targets.isEmpty else { return [:] }
        let limit = StoredReference.mostDeleteSelf
        let most = limit + (targets.compactMap { own[$0] }.max() ?? 0)
        let counts = try writer.countDeleteSelf(to: targets.sorted(), in: before.zone.whole, atMost: most)
        var near: [String: [String]] = [:]
        for target in targets {
            let count = counts[target] ?? 0
            if count + (own[target] ?? 0) > limit { near[target] = [] } else { reads.otherDeleteSelf[target] = count }
        }
        guard !near.isEmpty else { return [:] }
        let (sources, cascade) = (reads.sources, reads.cascade)
        try visitReferences(to: near.keys.sorted()) { reference in
            guard reference.kind == .deleteSelf else { return .nextTarget }
            let goes = cascade.roots[reference.source] != nil || write.removes(reference, sources)
            if !goes { near[reference.target]?.append(reference.source) }
            return .next
        }
        return near
    }
}

extension StoreReader {
    /// Returns records without their fields: a request may name thousands, each with up to 1 MB.
    package func outlines(named names: [String], in zone: Zone) throws(RelayError) -> [String: StoredRecord] {
        try records(named: names, in: zone, withFields: false).mapValues { record in
            guard record.isShare else { return record }
            var record = record
            record.fields = FieldsJSON.empty
            return record
        }
    }
}
