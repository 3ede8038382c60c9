package import Records
import Wire

/// Record names that participants of shared hierarchies see instead of the stored names.
///
/// A participant may choose a name that a record outside of the hierarchy has. This file has all that the relay decides
/// in order not to disclose that record; see ParticipantViews.md, "Names".
package struct RecordAliases: Hashable, Sendable {
    private var kept: [String: String] = [:]
    private var shown: [String: String] = [:]

    package init() {}

    /// Nearly always true: aliases exist only after a participant chose a name that was taken.
    package var isEmpty: Bool { kept.isEmpty }

    /// Shows the record stored as `kept` under the name `shown`.
    package mutating func add(_ shown: String, for kept: String) {
        // A record that had the alias before has left the view and loses it.
        if let former = self.kept[shown] { self.shown[former] = nil }
        self.kept[shown] = kept
        self.shown[kept] = shown
    }

    /// Returns the stored name for a shown name, and the shown name for a stored name.
    package func exchanged(_ name: String) -> String { kept[name] ?? shown[name] ?? name }

    /// Returns the stored name of the record to which a reference points.
    package func target(_ shown: String) -> String { kept[shown] ?? shown }

    /// Returns a record as its viewers see it.
    package func viewed(_ record: StoredRecord) -> StoredRecord {
        guard !isEmpty else { return record }
        var record = record
        record.name = exchanged(record.name)
        record.parent = record.parent.map(exchanged)
        if let root = record.sharing?.root { record.sharing?.root = exchanged(root) }
        // Corrupt fields are reported when they are encoded.
        let fields = try? FieldsJSON.mappingReferences(in: record.fields) { reference in
            var reference = reference
            reference.recordName = shown[reference.recordName] ?? reference.recordName
            return reference
        }
        record.fields = fields ?? record.fields
        return record
    }

    /// Returns an error with the stored names in its text replaced by the names that viewers see.
    func viewed(_ error: RelayError) -> RelayError {
        var error = error
        for (kept, shown) in shown { error.reason = error.reason.replacing("'\(kept)'", with: "'\(shown)'") }
        return error
    }

    /// Returns a query with shown names replaced by stored names.
    package func withStoredNames(_ query: Query) -> Query {
        guard !isEmpty else { return query }
        var query = query
        for index in query.filters.indices {
            let isName = query.filters[index].field == .system(.recordName)
            query.filters[index].values = query.filters[index].values.map { value in
                if isName, case .string(let name) = value { return .string(exchanged(name)) }
                return value.mappingReferences { reference in
                    var reference = reference
                    reference.recordName = target(reference.recordName)
                    return reference
                }
            }
        }
        return query
    }
}

extension Zone {
    /// The names under which this view of the zone shows records.
    package var aliases: RecordAliases { view?.aliases ?? RecordAliases() }
}

extension ModifyRecords {
    /// Returns the request with shown names replaced by stored names.
    func withStoredNames(_ aliases: RecordAliases) -> ModifyRecords {
        aliases.isEmpty ? self : renamed { aliases.exchanged($0) }
    }
}

extension ModifyRecords {
    /// An alias that this write creates if its operation succeeds.
    struct NewAlias {
        var shown: String
        var kept: String
        var outcome: Int
        /// The share that covers the operation's record; `nil` until it is determined.
        var share: Int64?
    }
}

extension ModifyRecords.Validation {
    /// Assigns generated names to new records whose names are taken by records that the caller cannot see.
    mutating func avoidTakenNames() {
        var renamed: [String: String] = [:]
        for (place, operation) in request.operations.enumerated() {
            guard !operation.kind.isDelete, !operation.kind.needsChangeTag, isTaken(operation.name) else { continue }
            renamed[operation.name] = addAlias(aliases.exchanged(operation.name), at: place)
        }
        guard !renamed.isEmpty else { return }
        request = request.renamed { renamed[$0] ?? $0 }
    }

    /// Returns whether the zone has a record of this name, among those in the request, that the caller cannot see.
    private func isTaken(_ name: String) -> Bool {
        guard let record = before.records[name], !record.isDeleted else { return false }
        return before.sharing?.permission(name) == Share.Permission.none
    }

    private mutating func addAlias(_ shown: String, at place: Int) -> String {
        let kept = request.newName()
        aliases.add(shown, for: kept)
        newAliases.append(ModifyRecords.NewAlias(shown: shown, kept: kept, outcome: place))
        return kept
    }

    /// Resolves names in the caller's references to the records that they denote in the caller's view.
    ///
    /// References that a field already contains are not changed. A DELETE_SELF reference to an invisible record would
    /// disclose it, through the limit on such references and by being deleted with it. Such a reference gets a
    /// generated name, as if there were no record.
    mutating func resolveReferenceNames(
        of prepared: inout FieldPreparation,
        over current: StoredRecord?
    ) throws(RelayError) {
        guard !aliases.isEmpty || !prepared.references.isEmpty else { return }
        var currentTargets: [String: Set<String>] = [:]
        for entry in (current.flatMap { try? FieldsJSON.decode($0.fields) }) ?? [] {
            currentTargets[entry.name] = Set(entry.value.references.map(\.recordName))
        }
        for (field, reference) in prepared.references where reference.action == .deleteSelf {
            resolvedReferences += 1
            guard resolvedReferences <= Self.maxResolvedReferences else { throw .tooManyToResolve }
            let name = reference.recordName
            guard currentTargets[field]?.contains(name) != true, aliases.target(name) == name else { continue }
            guard let isInvisible = before.isInvisible[name] else {
                unread.visibility.insert(name)
                continue
            }
            if isInvisible { _ = addAlias(name, at: outcomes.count) }
        }
        guard !aliases.isEmpty else { return }
        prepared.mapReferences { field, reference in
            guard currentTargets[field]?.contains(reference.recordName) != true else { return reference }
            var reference = reference
            reference.recordName = aliases.target(reference.recordName)
            return reference
        }
    }

    /// Maximum number of DELETE_SELF references in a participant's request; each may need a lookup while the writer is
    /// held.
    static var maxResolvedReferences: Int { 2_000 }
}

extension RecordAliases {
    /// Returns the outcomes with the names that the caller used.
    func viewed(_ outcomes: [ModifyRecords.Outcome], of given: ModifyRecords) -> [ModifyRecords.Outcome] {
        guard !isEmpty else { return outcomes }
        return zip(given.operations, outcomes).map { operation, outcome in
            switch outcome {
            case .saved(let record): .saved(viewed(record))
            case .deleted(_, let type): .deleted(name: operation.name, type: type)
            case .failed(_, let error, let server):
                .failed(name: operation.name, viewed(error), server: server.map { viewed($0) })
            }
        }
    }
}

extension RelayError {
    fileprivate static let tooManyToResolve = RelayError(
        .badRequest,
        "A participant's request may have at most 2000 references with DELETE_SELF. Save fewer at once.",
        fineCode: .limitExceeded
    )
}

// MARK: Deletions in a view alone

extension ModifyRecords.Cascade {
    /// Returns the operations of a participant whose deletions take effect only in their view, because the caller does
    /// not see what blocks them.
    func deletionsOnlyInView(of write: ModifyRecords.Validated, _ invisible: Set<String>) -> Set<Int> {
        var waiting = blockingReferences.compactMap { roots[$0.target] }
        if waiting.isEmpty { return [] }
        var kept: Set<Int> = []
        // A record that stays also blocks the deletion of the records that it references.
        let names = Dictionary(grouping: roots.keys) { roots[$0] }
        while let root = waiting.popLast() {
            guard write.isLive(root), kept.insert(root).inserted else { continue }
            for reference in (names[root] ?? []).flatMap({ enforcedReferences[$0] ?? [] }) {
                // Visible records lose their parents.
                if reference.kind == .parent, !invisible.contains(reference.source) { continue }
                if let other = roots[reference.target] { waiting.append(other) }
            }
        }
        return kept
    }
}

extension ModifyRecords.WriteList {
    /// Takes the records that the owner keeps out of the hierarchy, in place of deleting them.
    mutating func keep(_ kept: Set<Int>, _ stored: [String: StoredRecord]) {
        for index in changes.indices {
            guard let outcome = changes[index].outcome, changes[index].record.isDeleted, kept.contains(outcome),
                let record = stored[changes[index].record.name]
            else { continue }
            changes[index] = ModifyRecords.Change(outcome: nil, record: record.removedFromView(stamp))
        }
    }
}

extension StoredRecord {
    /// Returns the record as it stays with the owner, outside of the hierarchy in which it was.
    func removedFromView(_ stamp: Stamp) -> StoredRecord {
        var record = self
        record.update {
            $0.parent = nil
            $0.modified = stamp
        }
        return record
    }
}
