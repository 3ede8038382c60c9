import Records
import Wire

/// What goes with a write's deletions, and what stands in their way.
extension ModifyRecords.Decision {
    /// All that this write deletes: by its own operations, and by DELETE_SELF.
    ///
    /// Names and no contents: what goes along may be more than there is memory for.
    struct Cascade {
        /// Which operation is to answer for the deletion of each record.
        var roots: [String: Int] = [:]
        /// The records that go by DELETE_SELF alone, near ones first.
        var followers: [String] = []
        /// Those of them that are a share's root or its record, without their fields.
        var sharedFollowers: [String: StoredRecord] = [:]
        /// What binds some of these records to others of them, by the record that says it.
        var bonds: [String: [StoredReference]] = [:]
        /// What goes on referring to some of these from outside; one for each is enough for somebody who sees everything.
        var holders: [StoredReference] = []
    }

    /// A record that goes by DELETE_SELF, or from the caller's sight with one that does.
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

    /// Whether a save of this write ends the reference; said anew, it is the save that answers for it.
    func isGivenUp(_ reference: StoredReference, _ sources: [String: Source]) -> Bool {
        guard let source = sources[reference.source], isLive(source.outcome) else { return false }
        return !source.keeps(reference)
    }

    /// Looks for what refers to a record that is to go, and would stop that unless it goes too.
    private func findHolders(
        of target: String,
        _ sources: [String: Source],
        _ cascade: inout Cascade,
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) {
        // To end a share is its owner's to do, whatever others have let refer to its record.
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

    /// Of the public database's, where mostly the first can be read: others' records are not to keep one busy for long.
    private static var holdersLookedAt: Int { 64 }

    /// Refuses a participant's deletion with which a share's root or record would go: to end a share is its owner's to do.
    mutating func refuseOthersShares(_ cascade: Cascade) {
        guard sharing?.zone.view != nil else { return }
        for name in cascade.sharedFollowers.keys {
            if let root = cascade.roots[name] { refuse(root, .accessDenied) }
        }
    }

    /// Refuses the deletion of a record that another one goes on referring to, where the caller sees both.
    mutating func refuseHeldTargets(_ cascade: Cascade) throws(RelayError) {
        var staying: [(name: String, error: RelayError)] = []
        var seen: Set<String> = []
        for holder in cascade.holders where !seen.contains(holder.target) {
            guard try isInSight(holder) else { continue }
            seen.insert(holder.target)
            staying.append((holder.target, .held(holder)))
        }
        // What is held holds in its turn what it refers to, and keeps what it would have gone with.
        while let (name, error) = staying.popLast() {
            if let root = cascade.roots[name] { refuse(root, error) }
            for bond in cascade.bonds[name] ?? [] where !seen.contains(bond.target) {
                if bond.kind != .deleteSelf, try !isInSight(bond) { continue }
                seen.insert(bond.target)
                staying.append((bond.target, bond.kind == .deleteSelf ? error : .held(bond)))
            }
        }
    }

    /// Whether the caller sees both ends of it.
    private func isInSight(_ reference: StoredReference) throws(RelayError) -> Bool {
        guard let hides else {
            guard let isUnreadable else { return true }
            return try !isUnreadable(reference.source)
        }
        if try hides(reference.source) { return false }
        return try !hides(reference.target)
    }

    /// Deletes what goes along, some of it at a time: all together may be more than there is memory for.
    ///
    /// Far ones first, as somebody would who deletes one after the other.
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
    /// Records that are held together with their fields.
    fileprivate static let part = 32

    /// Adds those of `found` that can go, each with the operation that is to answer for it, and gives them.
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

/// How many bonds a write has looked at, however often it had to judge itself anew.
final class BondCount {
    private var count = 0
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Hands over what binds a record, as the store does, and counts it; throws where that is too much for one write.
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

    /// Counts a step from a record to the one above it.
    func step() throws(RelayError) {
        count += 1
        try check()
    }

    private func check() throws(RelayError) {
        guard count <= limit else {
            throw RelayError(
                .badRequest,
                "Too many records refer to those that this request deletes. "
                    + "Delete fewer at once, and first some of those that would go with them.",
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
