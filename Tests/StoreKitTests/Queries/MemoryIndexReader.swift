import Records
import RelayCore
import StoreKit
import Wire

/// Records and their indexes in arrays, and what the engine asked for.
final class MemoryIndexReader: IndexBuilder {
    static let type = RecordType(fields: [
        "count": .init(.scalar(.int64)), "title": .init(.scalar(.string)), "tags": .init(.list(.string)),
        "spot": .init(.scalar(.location)),
    ])
    static let typeNumber: Int64 = 1
    let zone = Zone(number: 5, id: ZoneID("Notes", owner: UserID("_1")), identity: 1, lastChange: 1)

    private(set) var records: [String: StoredRecord] = [:]
    private var lastChange: UInt64 = 0
    private var indexes: [FieldIndex]
    /// The entries of each index, in order.
    private var entries: [Int64: [IndexEntry]] = [:]
    private var announced: Set<String> = []
    private var probed: Set<Int64> = []
    /// Names and indexes that were looked up without having been announced.
    private(set) var surprises: [String] = []

    init(indexing targets: [IndexTarget]) {
        indexes = targets.enumerated().map { number, target in
            FieldIndex(number: Int64(number), type: Self.typeNumber, target: target, builtTo: .start, goal: .start)
        }
    }

    /// Saves a record, or deletes it without fields.
    func put(_ name: String, _ fields: [String: FieldValue]?) throws {
        let stamp = StoredRecord.Stamp(
            at: Timestamp(milliseconds: 1),
            by: zone.id.owner,
            device: DeviceFingerprint(bits: 1)
        )
        lastChange += 1
        let record = StoredRecord(
            name: name,
            type: "Note",
            change: lastChange,
            created: stamp,
            modified: stamp,
            fields: FieldsJSON.encode((fields ?? [:]).map { .init(name: $0, value: $1) }),
            isDeleted: fields == nil
        )
        try indexes.update(
            for: record,
            over: records[name],
            of: Self.type,
            where: { _ in true },
            remove: { index, key in entries[index.number]?.removeAll { $0 == IndexEntry(key: key, name: name) } },
            enter: { index, key in enter(key, of: name, index: index.number, in: zone.number) }
        )
        records[name] = record.isDeleted ? nil : record
    }

    private static func isBefore(_ a: IndexEntry, _ b: IndexEntry) -> Bool {
        a.key == b.key ? a.name < b.name : a.key < b.key
    }

    func page(of query: Query, after position: Query.Position?, limit: Int, tuning: QueryTuning) throws -> QueryPage {
        var work = QueryWork(tuning: tuning)
        announced = []
        probed = []
        return try work.page(
            of: query,
            type: (Self.typeNumber, Self.type),
            in: [zone],
            after: position,
            limit: limit,
            bytes: .max,
            reading: self
        )
    }

    // MARK: IndexBuilder

    func queryableType(_ name: String) -> (number: Int64, definition: RecordType)? {
        name == "Note" ? (Self.typeNumber, Self.type) : nil
    }

    func makeIndex(_ target: IndexTarget, ofType type: Int64) -> FieldIndex {
        let number = Int64(indexes.count)
        let goal = IndexProgress(change: lastChange)
        let index = FieldIndex(number: number, type: type, target: target, builtTo: .start, goal: goal)
        indexes.append(index)
        return index
    }

    func records(
        ofType type: Int64,
        after place: IndexProgress,
        upTo goal: IndexProgress,
        limit: Int,
        _ visit: (StoredRecord, Int64) throws -> Void
    ) rethrows -> IndexProgress {
        let rest = records.values.filter { $0.change > place.change && $0.change <= goal.change }
            .sorted { $0.change < $1.change }
        for record in rest.prefix(limit) { try visit(record, zone.number) }
        return rest.count < limit ? goal : IndexProgress(change: rest[limit - 1].change)
    }

    func enter(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) {
        var kept = entries[index] ?? []
        let entry = IndexEntry(key: key, name: name)
        guard !kept.contains(entry) else { return }
        kept.insert(entry, at: kept.firstIndex { !Self.isBefore($0, entry) } ?? kept.endIndex)
        entries[index] = kept
    }

    func setBuilt(_ index: FieldIndex, to place: IndexProgress) { indexes[Int(index.number)].builtTo = place }

    // MARK: IndexReader

    func indexes(ofType type: Int64) -> [IndexTarget: FieldIndex] {
        Dictionary(uniqueKeysWithValues: indexes.map { ($0.target, $0) })
    }

    func isServedByRecords(_ target: IndexTarget, in zone: Int64) -> Bool { false }

    private func visited(_ scan: IndexScan) -> [IndexEntry] {
        guard case .entries(let number) = scan.source else { return [] }
        let all = (entries[number] ?? []).filter { scan.range.side(of: $0.key) == 0 }
        let ordered = scan.isAscending ? all : all.reversed()
        guard let (from, isIncluded) = scan.from else { return ordered }
        return ordered.filter { entry in
            if entry == from { return isIncluded }
            return Self.isBefore(entry, from) != scan.isAscending
        }
    }

    func count(_ scan: IndexScan, upTo limit: Int) -> Int { min(limit, visited(scan).count) }

    func portion(of scan: IndexScan, limit: Int, into portion: inout [IndexEntry]) {
        portion += visited(scan).prefix(limit)
    }

    func prefetch(_ entries: [IndexEntry], in zone: Zone, probing probes: [IndexProbe]) {
        announced.formUnion(entries.map(\.name))
        probed.formUnion(probes.map(\.index))
    }

    func contains(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) -> Bool {
        if !announced.contains(name) || !probed.contains(index) { surprises.append("\(name) in \(index)") }
        return entries[index]?.contains(IndexEntry(key: key, name: name)) ?? false
    }

    func liveRecord(named name: String, in zone: Zone) -> StoredRecord? {
        if !announced.contains(name) { surprises.append(name) }
        return records[name]
    }

    func names(ofType type: Int64, in zone: Zone, _ visit: (String?) throws -> Void) rethrows {
        // A reader knows that the engine looks up what it visits.
        announced.formUnion(records.keys)
        for name in records.keys.sorted() { try visit(name) }
    }
}
