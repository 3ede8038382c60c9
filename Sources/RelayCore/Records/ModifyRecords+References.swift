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
    mutating func keepBonds(in writer: any StoreWriter, _ seen: Zone) throws(RelayError) {
        guard writes.contains(where: { $0.record.isDeleted }) || !bonds.isEmpty else {
            return try refuseOffences(in: writer, beside: Cascade())
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
            refuseOthersShares(cascade)
            try refuseHeldTargets(cascade)
            // Another operation may have relied on a rejected one, so check again. After a rejected deletion, the
            // target remains for those that reference it.
            if failureCount > failures, !request.isAtomic { continue }
            refuseDanglingSources(sources, cascade, stored)
            try refuseCrowdingSources(sources, cascade, in: writer, zone)
            if failureCount > failures, !request.isAtomic { continue }
            // A rejected save leaves the record's old references in place.
            try refuseOffences(in: writer, beside: cascade)
            if failureCount == failures || request.isAtomic { break }
        }
        let kept = try deletionsForTheCaller(cascade)
        keptDeletions = kept
        try carryOut(cascade, keeping: kept)
    }

    private var failureCount: Int { outcomes.count { $0.error != nil } }

    func isLive(_ outcome: Int) -> Bool { outcomes[outcome].error == nil }

    mutating func refuse(_ outcome: Int, _ error: RelayError) {
        guard isLive(outcome) else { return }
        outcomes[outcome] = .failed(name: request.operations[outcome].name, error, server: nil)
    }

    private var savedSources: [String: Source] {
        var sources: [String: Source] = [:]
        for write in writes where !write.record.isDeleted {
            guard let outcome = write.outcome else { continue }
            let operation = request.operations[outcome]
            var source = Source(outcome: outcome, references: bonds[outcome] ?? [])
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
    private mutating func refuseDanglingSources(
        _ sources: [String: Source],
        _ cascade: Cascade,
        _ stored: [String: StoredRecord]
    ) {
        var failures: Int
        repeat {
            failures = failureCount
            for (name, source) in sources where isLive(source.outcome) {
                if cascade.roots[name] != nil { refuse(source.outcome, .goesWithItsTarget) }
                for reference in source.references where isLive(source.outcome) {
                    if reference.kind == .deleteSelf {
                        if cascade.roots[reference.target] != nil { refuse(source.outcome, .goesWithItsTarget) }
                    } else if !isThere(reference.target, sources, cascade, stored) {
                        refuse(source.outcome, .dangling(reference))
                    } else if reference.kind == .parent, isShare(reference.target, stored) {
                        refuse(source.outcome, .belowShare)
                    }
                }
            }
        } while failureCount > failures && !request.isAtomic
    }

    /// Rejects saves that would exceed the maximum number of DELETE_SELF references to a record.
    private mutating func refuseCrowdingSources(
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
                if count >= StoredReference.mostDeleteSelf { refuse(source.outcome, .tooManyDeleteSelf) }
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
        try bondCount.visit(target, in: zone, of: writer) { reference in
            guard reference.kind == .deleteSelf else { return false }
            let goes = cascade.roots[reference.source] != nil || isGivenUp(reference, sources)
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
    private func isThere(
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
        let holder = reference.kind == .parent ? "The parent" : "The reference in field '\(reference.field)'"
        return RelayError(
            .validatingReferenceError,
            "\(holder) refers to the record '\(reference.target)', which does not exist. Save it first, or in the same request."
        )
    }

    fileprivate static let belowShare = RelayError.badRequest(
        "The parent is a share record, which cannot have children. Name the share's root, or a record below it."
    )

    fileprivate static let goesWithItsTarget = RelayError(
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
