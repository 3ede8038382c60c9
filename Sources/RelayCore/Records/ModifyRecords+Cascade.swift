import Records
import Wire

/// The cascading deletions of a write, and the references that block them.
extension ModifyRecords.Decision {
    /// All records that this write deletes, by its own operations and through DELETE_SELF.
    ///
    /// Contains names only, because the cascade may exceed the available memory.
    struct Cascade {
        /// The index of the operation that causes each deletion.
        var roots: [String: Int] = [:]
        /// The records that are deleted only through DELETE_SELF, nearest first.
        var followers: [String] = []
        /// Those followers that are share roots or share records, without their fields.
        var sharedFollowers: [String: StoredRecord] = [:]
        /// References between these records, by source.
        var bonds: [String: [StoredReference]] = [:]
        /// References from other records that block deletions; for a caller who sees everything, one per target is
        /// enough.
        var holders: [StoredReference] = []
    }

    /// A record that is deleted through DELETE_SELF; with `isKept`, only in the caller's view.
    struct Follower {
        var name: String
        var isKept: Bool
    }

    func deletions(
        with sources: [String: Source],
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) -> Cascade {
        var cascade = Cascade()
        var held: [String] = []
        var targets: [(name: String, root: Int)] = []
        for write in writes where write.record.isDeleted {
            guard let outcome = write.outcome, isLive(outcome) else { continue }
            targets.append((write.record.name, outcome))
            cascade.roots[write.record.name] = outcome
        }
        while !targets.isEmpty {
            var found: [String: Int] = [:]
            for target in targets {
                try bondCount.visit(target.name, in: zone, of: writer) { reference in
                    guard reference.kind == .deleteSelf else {
                        held.append(target.name)
                        return false
                    }
                    guard !isGivenUp(reference, sources) else { return true }
                    cascade.bonds[reference.source, default: []].append(reference)
                    if cascade.roots[reference.source] == nil { found[reference.source] = target.root }
                    return true
                }
            }
            targets = try cascade.add(found, from: writer, zone)
        }
        for target in held { try findHolders(of: target, sources, &cascade, in: writer, zone) }
        return cascade
    }

    /// Returns whether a save of this write removes the reference; if the save sets it again, the save is responsible
    /// for it.
    func isGivenUp(_ reference: StoredReference, _ sources: [String: Source]) -> Bool {
        guard let source = sources[reference.source], isLive(source.outcome) else { return false }
        return !source.keeps(reference)
    }

    /// Finds references that block the deletion of a record unless their sources are deleted too.
    private func findHolders(
        of target: String,
        _ sources: [String: Source],
        _ cascade: inout Cascade,
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) {
        // The owner can always end a share, even if other records reference the share's record.
        if (before[target] ?? cascade.sharedFollowers[target])?.isShare == true { return }
        let seesAll = hides == nil && isUnreadable == nil
        var count = 0
        try bondCount.visit(target, in: zone, of: writer) { reference in
            guard reference.kind != .deleteSelf, !isGivenUp(reference, sources) else { return true }
            guard cascade.roots[reference.source] == nil else {
                cascade.bonds[reference.source, default: []].append(reference)
                return true
            }
            cascade.holders.append(reference)
            count += 1
            return !seesAll && (hides != nil || count < Self.holdersLookedAt)
        }
    }

    /// Bounds the work in the public database, where usually the first source is readable.
    private static var holdersLookedAt: Int { 64 }

    /// Rejects a participant's deletions that would cascade to a share's root or record: only the owner may end a
    /// share.
    mutating func refuseOthersShares(_ cascade: Cascade) {
        guard sharing?.zone.view != nil else { return }
        for name in cascade.sharedFollowers.keys {
            if let root = cascade.roots[name] { refuse(root, .accessDenied) }
        }
    }

    /// Rejects the deletion of records that are still referenced, if the caller sees both ends of the reference.
    mutating func refuseHeldTargets(_ cascade: Cascade) throws(RelayError) {
        var staying: [(name: String, error: RelayError)] = []
        var seen: Set<String> = []
        for holder in cascade.holders where !seen.contains(holder.target) {
            guard try isInSight(holder) else { continue }
            seen.insert(holder.target)
            staying.append((holder.target, .held(holder)))
        }
        // A record that stays also blocks the deletion of what it references, and of what it would have been deleted
        // with.
        while let (name, error) = staying.popLast() {
            if let root = cascade.roots[name] { refuse(root, error) }
            for bond in cascade.bonds[name] ?? [] where !seen.contains(bond.target) {
                if bond.kind != .deleteSelf, try !isInSight(bond) { continue }
                seen.insert(bond.target)
                staying.append((bond.target, bond.kind == .deleteSelf ? error : .held(bond)))
            }
        }
    }

    /// Returns whether the caller sees both ends of the reference.
    private func isInSight(_ reference: StoredReference) throws(RelayError) -> Bool {
        guard let hides else {
            guard let isUnreadable else { return true }
            return try !isUnreadable(reference.source)
        }
        if try hides(reference.source) { return false }
        return try !hides(reference.target)
    }

    /// Writes the cascading deletions in parts, because all of them together may exceed the available memory.
    ///
    /// Deletes the records farthest from the cascade's start first, as a caller who deletes them one by one would.
    func writeFollowers(to writer: any StoreWriter, _ zone: Zone) throws(RelayError) {
        var rest = followers[...]
        while !rest.isEmpty {
            let part = rest.suffix(Cascade.part).reversed()
            rest = rest.dropLast(part.count)
            let stored = try writer.records(named: part.map(\.name), in: zone.whole)
            let changed = part.compactMap { follower -> StoredRecord? in
                guard let record = stored[follower.name] else { return nil }
                var changed = follower.isKept ? outOfSight(record) : tombstone(of: record)
                changed.change = writer.takeChangeNumber()
                return changed
            }
            try writer.put(changed, replacing: stored, in: zone, by: request.database.caller.deviceID)
        }
    }
}

extension ModifyRecords.Decision.Cascade {
    /// The number of records that are loaded together.
    fileprivate static let part = 32

    /// Adds the records of `found` that can be deleted, each with its causing operation, and returns them.
    fileprivate mutating func add(
        _ found: [String: Int],
        from writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) -> [(name: String, root: Int)] {
        var added: [(name: String, root: Int)] = []
        var rest = found.keys.sorted()[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(Self.part))
            rest = rest.dropFirst(part.count)
            let records = try writer.records(named: part, in: zone)
            for name in part {
                guard let root = found[name], var record = records[name], !record.isDeleted,
                    record.type != RecordType.usersName
                else { continue }
                roots[name] = root
                followers.append(name)
                added.append((name, root))
                guard record.share != nil else { continue }
                record.fields = FieldsJSON.empty
                sharedFollowers[name] = record
            }
        }
        return added
    }
}

/// Counts the references that a write has examined, over all attempts to decide it.
final class BondCount {
    private var count = 0
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Visits the references to a record like the store does, counts them, and throws if the write exceeds its limit.
    func visit(
        _ target: String,
        in zone: Zone,
        of writer: any StoreWriter,
        _ visit: (StoredReference) -> Bool
    ) throws(RelayError) {
        count += 1
        try writer.visitReferences(to: target, in: zone) { reference in
            count += 1
            return count <= limit && visit(reference)
        }
        try check()
    }

    /// Counts a step from a record to its parent.
    func step() throws(RelayError) {
        count += 1
        try check()
    }

    private func check() throws(RelayError) {
        guard count <= limit else {
            throw RelayError(
                .badRequest,
                "Too many records refer to those that this request deletes. "
                    + "Delete fewer at once, beginning with some of the referring records.",
                fineCode: .limitExceeded
            )
        }
    }
}

extension RelayError {
    fileprivate static func held(_ reference: StoredReference) -> RelayError {
        let by = reference.kind == .parent ? "is the parent of another record" : "is the target of a VALIDATE reference"
        return RelayError(
            .validatingReferenceError,
            "The record '\(reference.target)' \(by). Delete or change the referring records first, or in the same request."
        )
    }
}
