package import Records
import Wire

/// Moves records from one zone of an owner to another: all of them or none, in one commit that changes both feeds.
///
/// An extension of CloudKit, used to share existing records and to take them back when sharing ends. Names, fields,
/// assets, references among the records, and creation and modification stamps are kept; change tags are not, since they
/// belong to a zone. Moving a moved record again succeeds, so that a request can be repeated if its response was lost.
/// For the zone's owner, the tombstone left behind names the destination: otherwise a device that fetches the source's
/// changes first would treat the move as a deletion. See Wire.md, "Moving records".
package struct MoveRecords: Sendable {
    package struct Item: Hashable, Sendable {
        package var name: String
        /// The required change tag; `nil` accepts any.
        package var changeTag: String?

        package init(name: String, changeTag: String?) {
            self.name = name
            self.changeTag = changeTag
        }
    }

    package enum Outcome: Hashable, Sendable {
        /// The record is in the destination now; it may have been there before the request.
        case moved(StoredRecord)
        /// In a repeated request: the record was moved and has left the destination since.
        case leftSince(name: String)
        case failed(name: String, RelayError, server: StoredRecord?)

        package var error: RelayError? {
            if case .failed(_, let error, _) = self { error } else { nil }
        }
    }

    package struct Result: Sendable {
        /// The source zone; `nil` if it was deleted with the move.
        package var source: Zone?
        package var destination: Zone?
        /// In the order of the request; if all records are moved, in the order of their changes.
        package var outcomes: [Outcome]
    }

    package var database: DatabaseAddress
    package var source: ZoneID
    package var destination: ZoneID
    /// The records to move; `nil` moves all records except those of shares.
    package var items: [Item]?
    /// Whether to create the destination if it does not exist.
    package var makesDestination: Bool
    /// Whether to delete the source afterwards, which ends its shares.
    package var deletesSource: Bool
    package var limits: Limits
    package var now: Timestamp
    /// The request's idempotency key; `nil`: a repeated request is judged by the current state.
    package var idempotencyKey: IdempotencyKey?

    package init(
        _ items: [Item]?,
        from source: ZoneID,
        to destination: ZoneID,
        of database: DatabaseAddress,
        makesDestination: Bool,
        deletesSource: Bool,
        limits: Limits,
        now: Timestamp
    ) {
        self.items = items
        self.source = source
        self.destination = destination
        self.database = database
        self.makesDestination = makesDestination
        self.deletesSource = deletesSource
        self.limits = limits
        self.now = now
    }

    /// Throws if records cannot be moved in this database.
    package static func check(_ scope: DatabaseScope) throws(RelayError) {
        switch scope {
        case .public: throw .badRequest("The public database has one zone; nothing can be moved there.")
        case .shared: throw .accessDenied
        case .private: break
        }
    }

    /// Throws if the request is invalid in itself.
    package func check() throws(RelayError) {
        try Self.check(database.scope)
        guard source != destination else { throw .badRequest("The records are in that zone already.") }
        guard !deletesSource || !source.isDefault else { throw .badRequest("The default zone cannot be deleted.") }
        guard (items?.count ?? 0) <= limits.recordsPerMove else { throw tooMany }
        guard Set(items?.map(\.name) ?? []).count == items?.count ?? 0 else {
            throw .badRequest("A request may name each record once.")
        }
    }

    /// What the write reads first.
    package var prefetch: Prefetch {
        let names = items?.map(\.name) ?? []
        return Prefetch([source: names, destination: names], idempotencyKey: idempotencyKey)
    }

    /// Decides everything, then writes.
    package func run(in writer: any StoreWriter) throws(RelayError) -> Result {
        try check()
        if try idempotencyKey?.earlier(in: writer) != nil { return try repeated(in: writer) }
        let from = try writer.zone(source)
        // An earlier attempt of this request may have deleted the source.
        guard from != nil || deletesSource else { throw .zoneNotFound }
        let to = try writer.zone(destination)
        if to == nil { try checkNewZone(in: writer) }
        let requested = if let items { items } else { try all(of: from, in: writer) }
        var move = MovePlan(request: self, source: from, destination: to)
        try move.load(requested, from: writer)
        var outcomes = requested.map { move.decide($0) }
        let moving = requested.indices.filter { outcomes[$0].error == nil && move.moving[requested[$0].name] != nil }
        let ends = try move.crossZoneReferences(of: moving.map { requested[$0].name }, in: writer)
        for index in moving {
            guard let end = ends[requested[index].name] else { continue }
            outcomes[index] = .failed(name: requested[index].name, .referenceAcrossZones(end), server: nil)
        }
        if deletesSource, let from, try live(in: from, writer).contains(where: { move.moving[$0.name] == nil }) {
            throw .badRequest("The source still holds other records. Move them too, or do not delete it.")
        }
        guard !outcomes.contains(where: { $0.error != nil }) else {
            try checkRoom(for: outcomes)
            return Result(source: from, destination: to, outcomes: outcomes)
        }
        let result = try carryOut(move, outcomes, in: writer)
        if let idempotencyKey {
            try writer.keep(
                IdempotencyRecord(fingerprint: idempotencyKey.fingerprint),
                as: idempotencyKey.id,
                by: idempotencyKey.user
            )
        }
        return result
    }

    /// Returns the current location of the records of a repeated request, without moving anything.
    private func repeated(in writer: any StoreWriter) throws(RelayError) -> Result {
        let to = try writer.zone(destination)
        let names = items?.map(\.name) ?? []
        var there: [String: StoredRecord] = [:]
        for part in Self.parts(of: names) {
            guard let to else { break }
            // Responses to moves have no fields.
            for (name, var record) in try writer.records(named: part, in: to) where !record.isDeleted {
                record.fields = FieldsJSON.empty
                there[name] = record
            }
        }
        return Result(
            source: try writer.zone(source),
            destination: to,
            outcomes: names.map { name in
                there[name].map { .moved($0) } ?? .leftSince(name: name)
            }
        )
    }

    private func carryOut(_ move: MovePlan, _ outcomes: [Outcome], in writer: any StoreWriter) throws(RelayError)
        -> Result
    {
        let device = database.caller.deviceID
        let to = if let zone = move.destination { zone } else { try writer.makeZone(destination, by: device) }
        var arrived: [String: StoredRecord] = [:]
        for (name, record) in move.moving.sorted(by: { $0.value.change < $1.value.change }) {
            arrived[name] = try arrival(of: record, number: writer.takeChangeNumber())
        }
        let sorted = arrived.values.sorted { $0.change < $1.change }
        // If the last record's modifier is another user, `device` is not one of that user's devices.
        let isOwn = sorted.last?.modified.by == source.owner
        try writer.put(sorted, replacing: move.before, in: to, by: isOwn ? device : "")
        if let from = move.source {
            if deletesSource {
                try writer.deleteZone(try writer.zone(source) ?? from, by: device)
            } else {
                let departures = Self.leaving(sorted).compactMap { move.moving[$0.name] }.map {
                    departure(of: $0, writer)
                }
                try writer.put(departures, replacing: move.moving, in: try writer.zone(source) ?? from, by: device)
            }
        }
        return Result(
            source: deletesSource ? nil : try writer.zone(source),
            destination: try writer.zone(destination),
            outcomes: outcomes.map { outcome in
                guard case .moved(let record) = outcome else { return outcome }
                // Responses to moves have no fields, and outcomes are kept until the response is encoded.
                var moved = arrived[record.name] ?? record
                moved.fields = FieldsJSON.empty
                return .moved(moved)
            }
        )
    }

    /// Conflicting records are part of the response.
    private func checkRoom(for outcomes: [Outcome]) throws(RelayError) {
        let bytes = outcomes.reduce(0) { sum, outcome in
            if case .failed(_, _, let server?) = outcome { sum + server.fields.count } else { sum }
        }
        guard bytes <= limits.answerBytes else { throw .tooMuch(for: limits) }
    }

    // MARK: Records

    /// Splits names into parts that are loaded together, because record sizes are not known beforehand.
    static func parts(of names: [String]) -> [[String]] {
        stride(from: 0, to: names.count, by: 200).map { Array(names[$0..<min($0 + 200, names.count)]) }
    }

    private func arrival(of record: StoredRecord, number: UInt64) throws(RelayError) -> StoredRecord {
        var record = record
        record.change = number
        record.share = nil
        do {
            record.fields = try FieldsJSON.movingReferences(from: source, to: destination, in: record.fields)
        } catch {
            throw RelayError(.internalError, "A stored record could not be read; the operator should check the store.")
        }
        return record
    }

    private func departure(of record: StoredRecord, _ writer: any StoreWriter) -> StoredRecord {
        var record = record
        record.change = writer.takeChangeNumber()
        record.isDeleted = true
        record.fields = StoredRecord.fields(movedTo: destination)
        record.parent = nil
        record.share = nil
        record.modified = stamp
        return record
    }

    private var stamp: StoredRecord.Stamp {
        .init(at: now, by: source.owner, device: DeviceFingerprint(deviceID: database.caller.deviceID))
    }

    private func all(of zone: Zone?, in writer: any StoreWriter) throws(RelayError) -> [Item] {
        guard let zone else { return [] }
        return try live(in: zone, writer).map { Item(name: $0.name, changeTag: nil) }
    }

    /// Returns names and change numbers only; records of shares are left out.
    private func live(in zone: Zone, _ writer: any StoreWriter) throws(RelayError) -> [(name: String, change: UInt64)] {
        var found: [(name: String, change: UInt64)] = []
        var start: UInt64 = 1
        while start <= zone.lastChange, found.count <= limits.recordsPerMove {
            var (count, last) = (0, zone.lastChange)
            let range = start...zone.lastChange
            try writer.visitRecords(in: zone, changes: range, backwards: false, limit: 1_000) { record, position in
                (count, last) = (count + 1, position)
                if !record.isDeleted, !record.isShare { found.append((record.name, position)) }
            }
            guard count == 1_000 else { break }
            start = last + 1
        }
        guard found.count <= limits.recordsPerMove else { throw tooMany }
        return found
    }

    private var tooMany: RelayError {
        RelayError(
            .badRequest,
            "At most \(limits.recordsPerMove) records can be moved at once.",
            fineCode: .limitExceeded
        )
    }

    private func checkNewZone(in writer: any StoreWriter) throws(RelayError) {
        guard makesDestination else { throw .zoneNotFound }
        let count = try writer.zoneCount(of: destination.owner)
        guard count <= limits.zonesPerUser else {
            throw RelayError(.quotaExceeded, "A user may have \(limits.zonesPerUser) zones. Delete one first.")
        }
    }
}

/// The records that a move concerns, read before anything is written.
struct MovePlan {
    let request: MoveRecords
    let source: Zone?
    let destination: Zone?
    /// The live records to move.
    var moving: [String: StoredRecord] = [:]
    /// The records with the same names in the destination, tombstones included.
    var before: [String: StoredRecord] = [:]

    mutating func load(_ items: [MoveRecords.Item], from writer: any StoreWriter) throws(RelayError) {
        let names = items.map(\.name)
        var bytes = 0
        for part in MoveRecords.parts(of: names) {
            if let destination {
                for (name, record) in try writer.records(named: part, in: destination) {
                    before[name] = record
                    bytes += record.fields.count
                }
            }
            if let source {
                for (name, record) in try writer.records(named: part, in: source) where !record.isDeleted {
                    moving[name] = record
                    bytes += record.fields.count
                }
            }
            guard bytes <= request.limits.bytesPerMove else { throw .tooManyBytes(request.limits.bytesPerMove) }
        }
    }

    func decide(_ item: MoveRecords.Item) -> MoveRecords.Outcome {
        let there = before[item.name].flatMap { $0.isDeleted ? nil : $0 }
        func refusal(_ error: RelayError) -> MoveRecords.Outcome {
            .failed(name: item.name, error, server: error.code == .conflict ? moving[item.name] : there)
        }
        guard let record = moving[item.name] else { return there.map { .moved($0) } ?? refusal(.recordNotFound) }
        if there != nil {
            return refusal(RelayError(.exists, "The destination has a record of that name already."))
        }
        if record.isShare { return refusal(.badRequest("A share's own record stays in its zone.")) }
        if record.shareReference?.record != nil, !request.deletesSource { return refusal(.alreadyShared) }
        if let tag = item.changeTag, tag != record.changeTag {
            return refusal(RelayError(.conflict, "client oplock error moving record"))
        }
        if record.parent != nil, request.destination.isDefault {
            return refusal(.badRequest("Only records of a custom zone have a parent."))
        }
        return .moved(record)
    }

    /// Returns, for each record that cannot move, a record that would stay behind and that it references or that
    /// references it.
    ///
    /// Only parents, `VALIDATE` and `DELETE_SELF` references count.
    func crossZoneReferences(of names: [String], in writer: any StoreWriter) throws(RelayError) -> [String: String] {
        guard let source else { return [:] }
        var targets: [String: [String]] = [:]
        for name in names {
            guard let record = moving[name] else { continue }
            let references = (try? FieldsJSON.enforcedReferences(in: record.fields)) ?? []
            targets[name] = ([record.parent].compactMap(\.self) + references.map(\.reference.recordName))
                .filter { moving[$0] == nil && before[$0].map(\.isDeleted) ?? true }
        }
        var staying: Set<String> = []
        for part in MoveRecords.parts(of: Array(Set(targets.values.joined()))) {
            let found = try writer.records(named: part, in: source, withFields: false)
            staying.formUnion(found.values.lazy.filter { !$0.isDeleted }.map(\.name))
        }
        var ends: [String: String] = [:]
        for (name, targets) in targets { ends[name] = targets.first(where: staying.contains) }
        try writer.visitReferences(to: names.filter { ends[$0] == nil }, in: source) { reference in
            guard moving[reference.source] == nil else { return .next }
            ends[reference.target] = reference.source
            return .nextTarget
        }
        return ends
    }
}

extension RelayError {
    fileprivate static func tooManyBytes(_ limit: Int) -> RelayError {
        RelayError(
            .badRequest,
            "Records of at most \(limit >> 20) MB can be moved at once. Move fewer.",
            fineCode: .limitExceeded
        )
    }

    fileprivate static func referenceAcrossZones(_ name: String) -> RelayError {
        RelayError(
            .validatingReferenceError,
            "References cannot cross zones, and the record '\(name)' would stay behind. Move it in the same request."
        )
    }
}
