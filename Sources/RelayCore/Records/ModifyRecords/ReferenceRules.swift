package import Records
import Wire

/// The rules of references that apply after the operations of a write have been decided individually.
///
/// References are checked against the state after the write, so the order of operations does not matter: a target may
/// be saved, and a record that references a deleted one may be deleted, anywhere in the request. A parent blocks its
/// deletion like a VALIDATE reference, as in the live service. See Wire.md, "References".
extension ModifyRecords.Decision {
    /// The references of a saved record.
    struct Source {
        var outcome: Int
        /// The references that the record has after this write.
        var references: [StoredReference] = []
        /// The fields whose stored references this write replaces; `nil` for all.
        var replaced: Set<String>?

        func keeps(_ reference: StoredReference) -> Bool { replaced.map { !$0.contains(reference.field) } ?? false }
    }

    /// Rejects operations that would break a reference or put a record into two shares, and adds cascading deletions.
    mutating func checkReferences(in writer: any StoreWriter, _ seen: Zone) throws(RelayError) {
        guard writes.contains(where: { $0.record.isDeleted }) || !enforcedReferences.isEmpty else {
            return try rejectSharingViolations(in: writer, beside: Cascade())
        }
        let sources = savedSources
        var targets: Set<String> = []
        for source in sources.values {
            for reference in source.references where before[reference.target] == nil {
                targets.insert(reference.target)
            }
        }
        // References also apply to records that a participant cannot see, but the participant cannot reference those.
        let zone = seen.whole
        let stored = try writer.outlines(named: targets.sorted(), in: seen)
        var cascade = Cascade()
        while true {
            let failures = failureCount
            cascade = try deletions(with: sources, in: writer, zone)
            rejectShareDeletions(cascade)
            try rejectReferencedTargets(cascade)
            // Another operation may have relied on a rejected one, so check again. After a rejected deletion, the
            // target remains for those that reference it.
            if failureCount > failures, !request.isAtomic { continue }
            rejectDanglingReferences(sources, cascade, stored)
            try rejectExcessReferences(sources, cascade, in: writer, zone)
            if failureCount > failures, !request.isAtomic { continue }
            // A rejected save leaves the record's old references in place.
            try rejectSharingViolations(in: writer, beside: cascade)
            if failureCount == failures || request.isAtomic { break }
        }
        let kept = try deletionsOnlyInView(cascade)
        viewOnlyDeletions = kept
        try carryOut(cascade, keeping: kept)
    }

    private var failureCount: Int { outcomes.count { $0.error != nil } }

    func isLive(_ outcome: Int) -> Bool { outcomes[outcome].error == nil }

    mutating func reject(_ outcome: Int, _ error: RelayError) {
        guard isLive(outcome) else { return }
        outcomes[outcome] = .failed(name: request.operations[outcome].name, error, server: nil)
    }

    private var savedSources: [String: Source] {
        var sources: [String: Source] = [:]
        for write in writes where !write.record.isDeleted {
            guard let outcome = write.outcome else { continue }
            let operation = request.operations[outcome]
            var source = Source(outcome: outcome, references: enforcedReferences[outcome] ?? [])
            if operation.kind.mergesFields {
                var replaced = Set(operation.record.fields.map(operation.record.name))
                if operation.record.parent != nil { replaced.insert("") }
                source.replaced = replaced
            }
            sources[operation.name] = source
        }
        return sources
    }

    // MARK: Saves

    /// Rejects saves with a reference to a missing record that must exist, and saves that relied on rejected ones.
    private mutating func rejectDanglingReferences(
        _ sources: [String: Source],
        _ cascade: Cascade,
        _ stored: [String: StoredRecord]
    ) {
        var failures: Int
        repeat {
            failures = failureCount
            for (name, source) in sources where isLive(source.outcome) {
                if cascade.roots[name] != nil { reject(source.outcome, .deletedWithTarget) }
                for reference in source.references where isLive(source.outcome) {
                    if reference.kind == .deleteSelf {
                        if cascade.roots[reference.target] != nil { reject(source.outcome, .deletedWithTarget) }
                    } else if !exists(reference.target, sources, cascade, stored) {
                        reject(source.outcome, .dangling(reference))
                    } else if reference.kind == .parent, isShare(reference.target, stored) {
                        reject(source.outcome, .belowShare)
                    }
                }
            }
        } while failureCount > failures && !request.isAtomic
    }

    /// Rejects saves that would exceed the maximum number of DELETE_SELF references to a record.
    private mutating func rejectExcessReferences(
        _ sources: [String: Source],
        _ cascade: Cascade,
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) {
        var said: [String: Int] = [:]
        for source in sources.values {
            for reference in source.references { said[reference.target, default: 0] += 1 }
        }
        var counts: [String: Int] = [:]
        for source in sources.values.sorted(by: { $0.outcome < $1.outcome }) where isLive(source.outcome) {
            for reference in source.references where reference.kind == .deleteSelf && isLive(source.outcome) {
                let (target, known) = (reference.target, counts[reference.target])
                let count =
                    if let known { known } else {
                        try otherReferences(to: target, beside: said[target] ?? 0, sources, cascade, in: writer, zone)
                    }
                counts[target] = count + 1
                if count >= StoredReference.mostDeleteSelf { reject(source.outcome, .tooManyDeleteSelf) }
            }
        }
    }

    /// Returns the number of DELETE_SELF references to the record that this write does not set itself.
    ///
    /// The write sets `said` references itself. The result is exact only near the limit.
    private func otherReferences(
        to target: String,
        beside said: Int,
        _ sources: [String: Source],
        _ cascade: Cascade,
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) -> Int {
        let all = try writer.countDeleteSelf(to: target, in: zone, atMost: StoredReference.mostDeleteSelf + said)
        guard all + said > StoredReference.mostDeleteSelf else { return all }
        var others: [String] = []
        try referenceCounter.visit(target, in: zone, of: writer) { reference in
            guard reference.kind == .deleteSelf else { return false }
            let goes = cascade.roots[reference.source] != nil || isRemovedByWrite(reference, sources)
            if !goes { others.append(reference.source) }
            return true
        }
        guard let hides else { return others.count }
        // Counts only what the caller sees, so that the limit does not disclose the rest.
        var count = 0
        for source in others {
            if try !hides(source) { count += 1 }
        }
        return count
    }

    /// Returns whether a record that exists after the write is a share.
    private func isShare(_ name: String, _ stored: [String: StoredRecord]) -> Bool {
        let isNew = newShares.keys.contains { request.operations[$0].name == name && isLive($0) }
        return isNew || (before[name] ?? stored[name])?.isShare == true
    }

    /// Returns whether the record exists after the write and is visible to this caller.
    private func exists(
        _ name: String,
        _ sources: [String: Source],
        _ cascade: Cascade,
        _ stored: [String: StoredRecord]
    ) -> Bool {
        if cascade.roots[name] != nil { return false }
        if let source = sources[name], isLive(source.outcome) { return true }
        // `stored` was read through the view; for records named in the request, the view's permissions decide.
        if let known = before[name], sharing?.permission(known.name) == Share.Permission.none { return false }
        guard let record = before[name] ?? stored[name], !record.isDeleted else { return false }
        return request.database.rights(to: record, in: schema).contains(.read)
    }
}

extension StoreReader {
    /// Returns records without their fields, reading 16 at a time: a request may name thousands, each with up to 1 MB.
    package func outlines(named names: [String], in zone: Zone) throws(RelayError) -> [String: StoredRecord] {
        var found: [String: StoredRecord] = [:]
        for start in stride(from: 0, to: names.count, by: 16) {
            let part = Array(names[start..<min(start + 16, names.count)])
            for (name, var record) in try records(named: part, in: zone) {
                record.fields = FieldsJSON.empty
                found[name] = record
            }
        }
        return found
    }
}

extension RelayError {
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

/// The cascading deletions of a write, and the references that block them.
extension ModifyRecords.Decision {
    /// All records that this write deletes, by its own operations and through DELETE_SELF.
    ///
    /// Contains names only, because the cascade may exceed the available memory.
    struct Cascade {
        /// The index of the operation that causes each deletion.
        var roots: [String: Int] = [:]
        /// The records that are deleted only through DELETE_SELF, nearest first.
        var cascadedDeletions: [String] = []
        /// Those followers that are share roots or share records, without their fields.
        var sharedCascadedDeletions: [String: StoredRecord] = [:]
        /// References between these records, by source.
        var enforcedReferences: [String: [StoredReference]] = [:]
        /// References from other records that block deletions; for a caller who sees everything, one per target is
        /// enough.
        var blockingReferences: [StoredReference] = []
    }

    /// A record that is deleted through DELETE_SELF; with `isKept`, only in the caller's view.
    struct CascadedDeletion {
        var name: String
        var isKept: Bool
    }

    func deletions(
        with sources: [String: Source],
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) -> Cascade {
        var cascade = Cascade()
        var blocked: [String] = []
        var targets: [(name: String, root: Int)] = []
        for write in writes where write.record.isDeleted {
            guard let outcome = write.outcome, isLive(outcome) else { continue }
            targets.append((write.record.name, outcome))
            cascade.roots[write.record.name] = outcome
        }
        while !targets.isEmpty {
            var found: [String: Int] = [:]
            for target in targets {
                try referenceCounter.visit(target.name, in: zone, of: writer) { reference in
                    guard reference.kind == .deleteSelf else {
                        blocked.append(target.name)
                        return false
                    }
                    guard !isRemovedByWrite(reference, sources) else { return true }
                    cascade.enforcedReferences[reference.source, default: []].append(reference)
                    if cascade.roots[reference.source] == nil { found[reference.source] = target.root }
                    return true
                }
            }
            targets = try cascade.add(found, from: writer, zone)
        }
        for target in blocked { try findBlockingReferences(of: target, sources, &cascade, in: writer, zone) }
        return cascade
    }

    /// Returns whether a save of this write removes the reference; if the save sets it again, the save is responsible
    /// for it.
    func isRemovedByWrite(_ reference: StoredReference, _ sources: [String: Source]) -> Bool {
        guard let source = sources[reference.source], isLive(source.outcome) else { return false }
        return !source.keeps(reference)
    }

    /// Finds references that block the deletion of a record unless their sources are deleted too.
    private func findBlockingReferences(
        of target: String,
        _ sources: [String: Source],
        _ cascade: inout Cascade,
        in writer: any StoreWriter,
        _ zone: Zone
    ) throws(RelayError) {
        // The owner can always end a share, even if other records reference the share's record.
        if (before[target] ?? cascade.sharedCascadedDeletions[target])?.isShare == true { return }
        let seesAll = hides == nil && isUnreadable == nil
        var count = 0
        try referenceCounter.visit(target, in: zone, of: writer) { reference in
            guard reference.kind != .deleteSelf, !isRemovedByWrite(reference, sources) else { return true }
            guard cascade.roots[reference.source] == nil else {
                cascade.enforcedReferences[reference.source, default: []].append(reference)
                return true
            }
            cascade.blockingReferences.append(reference)
            count += 1
            return !seesAll && (hides != nil || count < Self.maxBlockingReferencesRead)
        }
    }

    /// Bounds the work in the public database, where usually the first source is readable.
    private static var maxBlockingReferencesRead: Int { 64 }

    /// Rejects a participant's deletions that would cascade to a share's root or record: only the owner may end a
    /// share.
    mutating func rejectShareDeletions(_ cascade: Cascade) {
        guard sharing?.zone.view != nil else { return }
        for name in cascade.sharedCascadedDeletions.keys {
            if let root = cascade.roots[name] { reject(root, .accessDenied) }
        }
    }

    /// Rejects the deletion of records that are still referenced, if the caller sees both ends of the reference.
    mutating func rejectReferencedTargets(_ cascade: Cascade) throws(RelayError) {
        var staying: [(name: String, error: RelayError)] = []
        var seen: Set<String> = []
        for referrer in cascade.blockingReferences where !seen.contains(referrer.target) {
            guard try isVisible(referrer) else { continue }
            seen.insert(referrer.target)
            staying.append((referrer.target, .blocked(referrer)))
        }
        // A record that stays also blocks the deletion of what it references, and of what it would have been deleted
        // with.
        while let (name, error) = staying.popLast() {
            if let root = cascade.roots[name] { reject(root, error) }
            for reference in cascade.enforcedReferences[name] ?? [] where !seen.contains(reference.target) {
                if reference.kind != .deleteSelf, try !isVisible(reference) { continue }
                seen.insert(reference.target)
                staying.append((reference.target, reference.kind == .deleteSelf ? error : .blocked(reference)))
            }
        }
    }

    /// Returns whether the caller sees both ends of the reference.
    private func isVisible(_ reference: StoredReference) throws(RelayError) -> Bool {
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
    func writeCascadedDeletions(to writer: any StoreWriter, _ zone: Zone) throws(RelayError) {
        var rest = cascadedDeletions[...]
        while !rest.isEmpty {
            let part = rest.suffix(Cascade.part).reversed()
            rest = rest.dropLast(part.count)
            let stored = try writer.records(named: part.map(\.name), in: zone.whole)
            let changed = part.compactMap { deletion -> StoredRecord? in
                guard let record = stored[deletion.name] else { return nil }
                var changed = deletion.isKept ? removedFromView(record) : tombstone(of: record)
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
                cascadedDeletions.append(name)
                added.append((name, root))
                guard record.share != nil else { continue }
                record.fields = FieldsJSON.empty
                sharedCascadedDeletions[name] = record
            }
        }
        return added
    }
}

/// Counts the references that a write has examined, over all attempts to decide it.
final class ReferenceCounter {
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
    fileprivate static func blocked(_ reference: StoredReference) -> RelayError {
        let by = reference.kind == .parent ? "is the parent of another record" : "is the target of a VALIDATE reference"
        return RelayError(
            .validatingReferenceError,
            "The record '\(reference.target)' \(by). Delete or change the referring records first, or in the same request."
        )
    }
}
