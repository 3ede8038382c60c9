import Records
import Wire

/// The second pass: references.
///
/// References are checked against the state after the write, so the order of operations does not matter: a target may
/// be saved, and a record that references a deleted one may be deleted, anywhere in the request. A parent blocks its
/// deletion like a VALIDATE reference, as in the live service. See Wire.md, "References", and Writes.md, "References".
extension ModifyRecords {
    struct CheckedReferences {
        /// The operations that the pass refuses.
        var refused: [Int: RelayError] = [:]
        /// The operations whose deletions take effect only in the caller's view; empty if any operation is refused.
        var viewOnlyDeletions: Set<Int> = []
    }

    /// Refuses operations that would break a reference.
    ///
    /// Refuses saves only if no deletion is refused: after a refused deletion, the target remains for those that
    /// reference it. An atomic write has no other turn, so that each of its operations is told what is wrong with it.
    static func checkReferences(
        of write: Validated,
        _ reads: ReferenceReads,
        over before: StateBefore
    ) -> CheckedReferences {
        var pass = ReferencesPass(write: write, reads: reads, before: before)
        pass.refuseShareDeletions()
        pass.refuseBlockedDeletions()
        if pass.refused.isEmpty || write.request.isAtomic {
            pass.refuseDanglingReferences()
            pass.refuseExcessReferences()
        }
        guard pass.refused.isEmpty, before.sight == .hierarchies else {
            return CheckedReferences(refused: pass.refused)
        }
        return CheckedReferences(viewOnlyDeletions: reads.cascade.deletionsOnlyInView(of: write, reads.invisible))
    }
}

private struct ReferencesPass {
    var write: ModifyRecords.Validated
    let reads: ModifyRecords.ReferenceReads
    let before: ModifyRecords.StateBefore
    private let cascade: ModifyRecords.Cascade
    private(set) var refused: [Int: RelayError] = [:]

    init(write: ModifyRecords.Validated, reads: ModifyRecords.ReferenceReads, before: ModifyRecords.StateBefore) {
        self.write = write
        self.reads = reads
        self.before = before
        cascade = reads.cascade
    }

    private mutating func refuse(_ outcome: Int, _ error: RelayError) {
        guard write.isLive(outcome) else { return }
        write.refuse(outcome, error)
        refused[outcome] = error
    }

    // MARK: Deletions

    /// Refuses a participant's deletions that would cascade to a share's root or record: only the owner may end a
    /// share.
    mutating func refuseShareDeletions() {
        guard before.zone.view != nil else { return }
        for name in cascade.sharedCascadedDeletions.keys {
            if let root = cascade.roots[name] { refuse(root, .accessDenied) }
        }
    }

    /// Refuses the deletion of records that are still referenced, if the caller sees both ends of the reference.
    mutating func refuseBlockedDeletions() {
        var staying: [(name: String, error: RelayError)] = []
        var seen: Set<String> = []
        for reference in cascade.blockingReferences where !seen.contains(reference.target) && isVisible(reference) {
            seen.insert(reference.target)
            staying.append((reference.target, .blocked(reference)))
        }
        // A record that stays also blocks the deletion of what it references, and of what it would have been deleted
        // with.
        while let (name, error) = staying.popLast() {
            if let root = cascade.roots[name] { refuse(root, error) }
            for reference in cascade.enforcedReferences[name] ?? [] where !seen.contains(reference.target) {
                if reference.kind != .deleteSelf, !isVisible(reference) { continue }
                seen.insert(reference.target)
                staying.append((reference.target, reference.kind == .deleteSelf ? error : .blocked(reference)))
            }
        }
    }

    /// Returns whether the caller sees both ends of the reference.
    private func isVisible(_ reference: StoredReference) -> Bool {
        switch before.sight {
        case .everything: true
        case .readableRecords: !reads.invisible.contains(reference.source)
        case .hierarchies: !reads.invisible.contains(reference.source) && !reads.invisible.contains(reference.target)
        }
    }

    // MARK: Saves

    /// Refuses saves with a reference to a missing record that must exist, and saves that relied on refused ones.
    mutating func refuseDanglingReferences() {
        let sources = reads.sources.sorted { $0.value.outcome < $1.value.outcome }
        var missing: [String] = []
        for (name, source) in sources where write.isLive(source.outcome) {
            guard let error = fault(of: source, named: name) else { continue }
            refuse(source.outcome, error)
            missing.append(name)
        }
        guard !missing.isEmpty, !write.request.isAtomic else { return }
        var sourcesByTarget: [String: [String]] = [:]
        for (name, source) in sources {
            for reference in source.references { sourcesByTarget[reference.target, default: []].append(name) }
        }
        while let target = missing.popLast() {
            for name in sourcesByTarget[target] ?? [] {
                guard let source = reads.sources[name], write.isLive(source.outcome),
                    let error = fault(of: source, named: name)
                else { continue }
                refuse(source.outcome, error)
                missing.append(name)
            }
        }
    }

    private func fault(of source: ModifyRecords.Source, named name: String) -> RelayError? {
        if cascade.roots[name] != nil { return .deletedWithTarget }
        for reference in source.references {
            if reference.kind == .deleteSelf {
                if cascade.roots[reference.target] != nil { return .deletedWithTarget }
            } else if !exists(reference.target) {
                return .dangling(reference)
            } else if reference.kind == .parent, isShare(reference.target) {
                return .belowShare
            }
        }
        return nil
    }

    /// Returns whether the record exists after the write and is visible to this caller.
    private func exists(_ name: String) -> Bool {
        if cascade.roots[name] != nil { return false }
        if let source = reads.sources[name], write.isLive(source.outcome) { return true }
        // `targets` was read through the view; for records named in the request, the view's permissions decide.
        if let known = before.records[name], before.sharing?.permission(known.name) == Share.Permission.none {
            return false
        }
        guard let record = before.records[name] ?? reads.targets[name], !record.isDeleted else { return false }
        return write.request.database.rights(to: record, in: write.schema).contains(.read)
    }

    /// Returns whether a record that exists after the write is a share.
    private func isShare(_ name: String) -> Bool {
        let isNew = write.newShares.keys.contains { write.request.operations[$0].name == name && write.isLive($0) }
        return isNew || (before.records[name] ?? reads.targets[name])?.isShare == true
    }

    /// Refuses saves that would exceed the maximum number of DELETE_SELF references to a record.
    mutating func refuseExcessReferences() {
        guard !reads.otherDeleteSelf.isEmpty else { return }
        var counts = reads.otherDeleteSelf
        for source in reads.sources.values.sorted(by: { $0.outcome < $1.outcome }) {
            for reference in source.references where reference.kind == .deleteSelf && write.isLive(source.outcome) {
                let count = counts[reference.target] ?? 0
                counts[reference.target] = count + 1
                if count >= StoredReference.mostDeleteSelf { refuse(source.outcome, .tooManyDeleteSelf) }
            }
        }
    }
}

extension RelayError {
    fileprivate static func blocked(_ reference: StoredReference) -> RelayError {
        let by = reference.kind == .parent ? "is the parent of another record" : "is the target of a VALIDATE reference"
        return RelayError(
            .validatingReferenceError,
            "The record '\(reference.target)' \(by). Delete or change the referring records first, or in the same request."
        )
    }

    fileprivate static func dangling(_ reference: StoredReference) -> RelayError {
        let referrer = reference.kind == .parent ? "The parent" : "The reference in field '\(reference.field)'"
        return RelayError(
            .validatingReferenceError,
            "\(referrer) refers to the record '\(reference.target)', which does not exist. Save it first, or in the same request."
        )
    }

    fileprivate static let belowShare = RelayError.badRequest(
        "The parent is a share record, which cannot have children. Name the share's root, or a record below it."
    )

    fileprivate static let deletedWithTarget = RelayError(
        .validatingReferenceError,
        "The record refers with DELETE_SELF to a record that this request deletes."
    )

    fileprivate static let tooManyDeleteSelf = RelayError(
        .badRequest,
        "Limit exceeded for number of owning references to single record: "
            + "at most \(StoredReference.mostDeleteSelf) references with DELETE_SELF may lead to one.",
        fineCode: .limitExceeded
    )
}
