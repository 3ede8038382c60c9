package import Records
import Wire

/// Moves records from one zone of an owner to another, all or none: in one commit they are gone from the one feed and there
/// in the other.
///
/// Ours, no call of CloudKit's: sharing what is there already, and taking it back when the sharing ends, rest on it. Names,
/// fields, assets, the references among the records and who made and changed them when stay; change tags do not, as those
/// belong to a zone. To move again what has been moved is a success, so that a request whose answer was lost can be
/// repeated. The tombstone that stays behind says to its owner where the record went: a device that meets the one zone's
/// feed before the other's would take it for a deletion. See Wire.md, "Moving records".
package struct MoveRecords: Sendable {
    package struct Item: Hashable, Sendable {
        package var name: String
        /// What the record's tag must be; `nil`: any.
        package var changeTag: String?

        package init(name: String, changeTag: String?) {
            self.name = name
            self.changeTag = changeTag
        }
    }

    package enum Outcome: Hashable, Sendable {
        /// It stands in the destination now, and may have stood there before.
        case moved(StoredRecord)
        /// A repeat's: it was moved, and is not there any more.
        case leftSince(name: String)
        case failed(name: String, RelayError, server: StoredRecord?)

        package var error: RelayError? {
            if case .failed(_, let error, _) = self { error } else { nil }
        }
    }

    package struct Result: Sendable {
        /// `nil`: it was deleted with the move.
        package var source: Zone?
        package var destination: Zone?
        /// In the order asked for; of all records, in that of their changes.
        package var outcomes: [Outcome]
    }

    package var database: DatabaseAddress
    package var source: ZoneID
    package var destination: ZoneID
    /// `nil`: all but the shares' own records.
    package var items: [Item]?
    /// Whether to make the destination where there is none.
    package var makesDestination: Bool
    /// Whether to delete the source afterwards, which ends its shares.
    package var deletesSource: Bool
    package var limits: Limits
    package var now: Timestamp
    /// What the client calls this move; `nil`: one that comes again is judged by what it finds.
    package var mark: WriteMark?

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

    /// Refuses databases between whose zones nothing can be moved.
    package static func check(_ scope: DatabaseScope) throws(RelayError) {
        switch scope {
        case .public: throw .badRequest("The public database has one zone; nothing can be moved there.")
        case .shared: throw .accessDenied
        case .private: break
        }
    }

    /// Refuses what cannot be meant.
    package func check() throws(RelayError) {
        try Self.check(database.scope)
        guard source != destination else { throw .badRequest("The records are in that zone already.") }
        guard !deletesSource || !source.isDefault else { throw .badRequest("The default zone cannot be deleted.") }
        guard (items?.count ?? 0) <= limits.recordsPerMove else { throw tooMany }
        guard Set(items?.map(\.name) ?? []).count == items?.count ?? 0 else {
            throw .badRequest("A request may name each record once.")
        }
    }

    /// Decides all, then writes.
    package func run(in writer: any StoreWriter) throws(RelayError) -> Result {
        try check()
        if try mark?.earlier(in: writer) != nil { return try repeated(in: writer) }
        let from = try writer.zone(source)
        // The source may be gone because this very request has deleted it before.
        guard from != nil || deletesSource else { throw .zoneNotFound }
        let to = try writer.zone(destination)
        if to == nil { try checkNewZone(in: writer) }
        let asked = if let items { items } else { try all(of: from, in: writer) }
        var move = FoundForMove(request: self, source: from, destination: to)
        try move.load(asked, from: writer)
        var outcomes = asked.map { move.judge($0) }
        for (index, item) in asked.enumerated() where outcomes[index].error == nil && move.moving[item.name] != nil {
            if let error = try move.tornReference(of: item.name, in: writer) {
                outcomes[index] = .failed(name: item.name, error, server: nil)
            }
        }
        if deletesSource, let from, try live(in: from, writer).contains(where: { move.moving[$0.name] == nil }) {
            throw .badRequest("The source still holds other records. Move them too, or do not delete it.")
        }
        guard !outcomes.contains(where: { $0.error != nil }) else {
            try checkRoom(for: outcomes)
            return Result(source: from, destination: to, outcomes: outcomes)
        }
        let result = try carryOut(move, outcomes, in: writer)
        if let mark { try writer.keep(DoneWrite(print: mark.print), as: mark.id, by: mark.user) }
        return result
    }

    /// The answer to a move that was made when it came first: where its records are now, and nothing is moved.
    private func repeated(in writer: any StoreWriter) throws(RelayError) -> Result {
        let to = try writer.zone(destination)
        let names = items?.map(\.name) ?? []
        var there: [String: StoredRecord] = [:]
        for part in Self.parts(of: names) {
            guard let to else { break }
            // Of their contents nothing is said.
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

    private func carryOut(_ move: FoundForMove, _ outcomes: [Outcome], in writer: any StoreWriter) throws(RelayError)
        -> Result
    {
        let device = database.caller.deviceID
        let to = if let zone = move.destination { zone } else { try writer.makeZone(destination, by: device) }
        var arrived: [String: StoredRecord] = [:]
        for (name, record) in move.moving.sorted(by: { $0.value.change < $1.value.change }) {
            arrived[name] = try arrival(of: record, number: writer.takeChangeNumber())
        }
        let sorted = arrived.values.sorted { $0.change < $1.change }
        // Who changed the last of them may be somebody else, whose device of this name is another one.
        let isOwn = sorted.last?.modified.by == source.owner
        try writer.put(sorted, replacing: move.before, in: to, by: isOwn ? device : "")
        if let from = move.source {
            if deletesSource {
                try writer.deleteZone(try writer.zone(source) ?? from, by: device)
            } else {
                let gone = Self.leaving(sorted).compactMap { move.moving[$0.name] }.map { departure(of: $0, writer) }
                try writer.put(gone, replacing: move.moving, in: try writer.zone(source) ?? from, by: device)
            }
        }
        return Result(
            source: deletesSource ? nil : try writer.zone(source),
            destination: try writer.zone(destination),
            outcomes: outcomes.map { outcome in
                guard case .moved(let record) = outcome else { return outcome }
                // Of their contents nothing is said, and the outcomes are held until the answer is made.
                var moved = arrived[record.name] ?? record
                moved.fields = FieldsJSON.empty
                return .moved(moved)
            }
        )
    }

    /// Records that stand in the way come with the answer.
    private func checkRoom(for outcomes: [Outcome]) throws(RelayError) {
        let bytes = outcomes.reduce(0) { sum, outcome in
            if case .failed(_, _, let server?) = outcome { sum + server.fields.count } else { sum }
        }
        guard bytes <= limits.answerBytes else { throw .tooMuch(for: limits) }
    }

    // MARK: Records

    /// Names of records that are loaded together, before it is known how large they are.
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
        .init(at: now, by: source.owner, device: DeviceMark(deviceID: database.caller.deviceID))
    }

    private func all(of zone: Zone?, in writer: any StoreWriter) throws(RelayError) -> [Item] {
        guard let zone else { return [] }
        return try live(in: zone, writer).map { Item(name: $0.name, changeTag: nil) }
    }

    /// Names alone; the shares' own records are not among them.
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
