package import Records
import Wire

/// Names by which the participants of shared hierarchies know records that the zone keeps under other ones.
///
/// A participant may choose the name of a new record, and the zone may have one of that name where they cannot see it. To
/// refuse the name would tell them so. Instead the new record is kept under a name of the relay's, and whoever sees the
/// hierarchy finds it under the chosen one, unless they see the record that has the name: to them it goes on leading there,
/// and the new one is shown as it is kept. So nobody can make a name that others know lead to a record of his own, and no
/// two records of a view ever have the same.
package struct RecordAliases: Hashable, Sendable {
    private var kept: [String: String] = [:]
    private var shown: [String: String] = [:]

    package init() {}

    /// As nearly always: nobody has ever chosen a name that was taken.
    package var isEmpty: Bool { kept.isEmpty }

    /// Shows the record that is kept as `kept` as `shown`.
    package mutating func add(_ shown: String, for kept: String) {
        // One that had the name before, and has left, has it no more.
        if let former = self.kept[shown] { self.shown[former] = nil }
        self.kept[shown] = kept
        self.shown[kept] = shown
    }

    /// The name kept for one that is shown, and the name shown for one that is kept.
    package func exchanged(_ name: String) -> String { kept[name] ?? shown[name] ?? name }

    /// The name that is kept for a record that references lead to.
    package func target(_ shown: String) -> String { kept[shown] ?? shown }

    /// A record as its viewers know it.
    package func viewed(_ record: StoredRecord) -> StoredRecord {
        guard !isEmpty else { return record }
        var record = record
        record.name = exchanged(record.name)
        record.parent = record.parent.map(exchanged)
        if let root = record.sharing?.root { record.sharing?.root = exchanged(root) }
        // Damaged bytes are met by whoever writes them out.
        let fields = try? FieldsJSON.mappingReferences(in: record.fields) { reference in
            var reference = reference
            reference.recordName = shown[reference.recordName] ?? reference.recordName
            return reference
        }
        record.fields = fields ?? record.fields
        return record
    }

    /// A sentence about records, as those who see them under other names are to read it.
    func viewed(_ error: RelayError) -> RelayError {
        var error = error
        for (kept, shown) in shown { error.reason = error.reason.replacing("'\(kept)'", with: "'\(shown)'") }
        return error
    }

    /// A query by the names that are shown, as the zone is to be asked.
    package func asked(_ query: Query) -> Query {
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
    /// Under which names this view of the zone shows records.
    package var aliases: RecordAliases { view?.aliases ?? RecordAliases() }
}

extension StoreReader {
    /// Whether there is a record of this name in the zone that its view does not show.
    func hides(_ name: String, from zone: Zone) throws(RelayError) -> Bool {
        guard let view = zone.view, let record = try records(named: [name], in: zone.whole)[name], !record.isDeleted
        else { return false }
        return view.permission(in: try shares(covering: [name], in: zone)[name]) == .none
    }
}

extension ModifyRecords {
    /// The request by the names that the zone keeps.
    func byKeptNames(_ aliases: RecordAliases) -> ModifyRecords {
        aliases.isEmpty ? self : renamed { aliases.exchanged($0) }
    }
}

extension ModifyRecords.Decision {
    /// A name that a participant chose and the zone had, with the operation that is to decide whether it counts.
    struct NewAlias {
        var shown: String
        var kept: String
        var outcome: Int
        /// The share that covers the record of the operation; `nil` until that is known.
        var share: Int64?
    }

    /// Gives new records whose names are taken out of the caller's sight others to be kept under.
    mutating func avoidTakenNames() {
        var renamed: [String: String] = [:]
        for (place, operation) in request.operations.enumerated() {
            guard !operation.kind.isDelete, !operation.kind.needsChangeTag, isHidden(operation.name) else { continue }
            renamed[operation.name] = addAlias(aliases.exchanged(operation.name), at: place)
        }
        guard !renamed.isEmpty else { return }
        request = request.renamed { renamed[$0] ?? $0 }
    }

    /// Whether the zone has a record of this name that the caller cannot see; of those that the request names.
    private func isHidden(_ name: String) -> Bool {
        guard let record = before[name], !record.isDeleted else { return false }
        return sharing?.permission(name) == Share.Permission.none
    }

    private mutating func addAlias(_ shown: String, at place: Int) -> String {
        let kept = request.newName()
        aliases.add(shown, for: kept)
        newAliases.append(NewAlias(shown: shown, kept: kept, outcome: place))
        return kept
    }

    /// Leads what the caller refers to by name to the records they mean.
    ///
    /// What a field held before it goes on holding. A DELETE_SELF reference to a record out of sight would tell of it by the
    /// count of those, and by going when it goes: it leads to a name of its own instead, as if there were none.
    mutating func settleNames(
        of prepared: inout FieldPreparation,
        over current: StoredRecord?
    ) throws(RelayError) {
        guard let hides, !aliases.isEmpty || !prepared.references.isEmpty else { return }
        var held: [String: Set<String>] = [:]
        for entry in (current.flatMap { try? FieldsJSON.decode($0.fields) }) ?? [] {
            held[entry.name] = Set(entry.value.references.map(\.recordName))
        }
        for (field, reference) in prepared.references where reference.action == .deleteSelf {
            settledReferences += 1
            guard settledReferences <= Self.mostSettledReferences else { throw .tooManyToSettle }
            let name = reference.recordName
            guard held[field]?.contains(name) != true, aliases.target(name) == name else { continue }
            if try hides(name) { _ = addAlias(name, at: outcomes.count) }
        }
        guard !aliases.isEmpty else { return }
        prepared.mapReferences { field, reference in
            guard held[field]?.contains(reference.recordName) != true else { return reference }
            var reference = reference
            reference.recordName = aliases.target(reference.recordName)
            return reference
        }
    }

    /// References with DELETE_SELF in one request, each of which may take another name in the time that is everybody's.
    private static var mostSettledReferences: Int { 2_000 }

    // MARK: Outcomes

    /// The new names with the shares in which they count, once it is known what covers their records.
    func placed(
        _ aliases: [NewAlias],
        _ share: (String) throws(RelayError) -> Int64?
    ) throws(RelayError) -> [NewAlias] {
        try aliases.map { alias throws(RelayError) in
            var alias = alias
            if outcomes[alias.outcome].error == nil { alias.share = try share(request.operations[alias.outcome].name) }
            return alias
        }
    }

    /// The outcomes by the names that the caller gave.
    func viewed(_ outcomes: [ModifyRecords.Outcome], of given: ModifyRecords) -> [ModifyRecords.Outcome] {
        // Other names are those of shared zones, where whoever writes may read.
        guard !aliases.isEmpty else { return readable(outcomes) }
        return zip(given.operations, outcomes).map { operation, outcome in
            switch outcome {
            case .saved(let record): .saved(aliases.viewed(record))
            case .deleted(_, let type): .deleted(name: operation.name, type: type)
            case .failed(_, let error, let server):
                .failed(name: operation.name, aliases.viewed(error), server: server.map(aliases.viewed))
            }
        }
    }
}

extension RelayError {
    fileprivate static let tooManyToSettle = RelayError(
        .badRequest,
        "A participant's request may have 2000 references with DELETE_SELF. Save fewer at once.",
        fineCode: .limitExceeded
    )
}
