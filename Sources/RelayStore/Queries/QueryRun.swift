import GRDB
import Records
import RelayCore

/// Runs one query on one state of the store: plans each zone by the available indexes, and fills a page.
final class QueryRun {
    /// The limits on a query's cost.
    struct Allowance: Sendable {
        /// The number of records it may look at while an index is missing.
        var records: Int
        /// The number of records it may look at in any case; `nil` for no limit.
        var atOnce: Int?
    }

    let reader: SQLiteReader
    /// The query for the zone being visited.
    private(set) var query: Query
    private let asked: Query
    let order: QueryOrder
    let type: RecordType
    let typeNumber: Int64
    let after: Query.Position?
    private let allowance: Allowance
    let tuning: QueryTuning
    private let indexes: [IndexTarget: FieldIndex]
    var page: PageOfQuery
    /// The number of records and index entries looked at; tests check that nothing was scanned.
    private(set) var examined = 0
    /// The indexes that the query lacks.
    var missing: Set<IndexTarget> = []
    var zone: Zone

    var zoneNumber: Int64 { zone.number }

    /// `zone` is the first zone to visit.
    init(
        _ query: Query,
        type: (number: Int64, definition: RecordType),
        after: Query.Position?,
        page: PageOfQuery,
        work: QueryWork,
        zone: Zone,
        reader: SQLiteReader
    ) throws {
        self.reader = reader
        self.query = query
        asked = query
        self.type = type.definition
        typeNumber = type.number
        self.after = after
        allowance = work.allowance
        tuning = work.tuning
        self.zone = zone
        order = QueryOrder(query)
        self.page = page
        indexes = try reader.indexes(ofType: type.number)
    }

    /// Visits the zones and returns one page of all of them together.
    func run(in zones: [Zone]) throws -> QueryPage {
        let sorted = zones.sorted { QueryOrder.isBefore($0.id, $1.id) }
        for zone in sorted {
            if order.isZoneByZone {
                if let after, QueryOrder.isBefore(zone.id, after.zone) { continue }
                if page.isFull { break }
            }
            self.zone = zone
            query = zone.aliases.asked(asked.asked(of: zone.id))
            try visit()
        }
        return page.page
    }

    // MARK: One zone

    private func visit() throws {
        let planner = QueryPlanner(query: query, order: order, tuning: tuning, isReady: { self.place(of: $0) != nil })
        if let names = planner.names { return try visit(.names(names)) }
        let options = try counted(planner.options)
        missing = planner.missing(options)
        try visit(planner.plan(options) ?? .scan)
    }

    /// Returns the options whose index is ready, with their entries counted, roughly at first.
    private func counted(_ options: [QueryOption]) throws -> [QueryOption] {
        var ready = options.filter { place(of: $0.target) != nil }
        // Without options there is nothing to count.
        for limit in [tuning.fewEntries, tuning.manyEntries] {
            for index in ready.indices { ready[index].count = try count(ready[index], upTo: limit) }
            if ready.contains(where: { $0.count < limit }) { break }
        }
        return ready
    }

    func count(_ option: QueryOption, upTo limit: Int) throws -> Int {
        guard let place = place(of: option.target) else { return limit }
        var count = 0
        for range in option.ranges where count < limit {
            let scan = IndexScan(place, zone: zone.number, range: range)
            count += try scan.count(upTo: limit - count, in: reader.database)
        }
        return count
    }

    /// Returns where the index is stored, if it is complete.
    func place(of target: IndexTarget) -> IndexPlace? {
        // The public zone has its own index for this field, by which clients poll it.
        if target == .value(.system(.modified)), zone.number == 1 { return .publicModified(type: typeNumber) }
        guard let index = indexes[target], index.isReady else { return nil }
        return .entries(index.number)
    }

    // MARK: Plans

    private func visit(_ plan: QueryPlan) throws {
        switch plan {
        case .names(let names):
            let check = CandidateCheck(query.filters, run: self, through: nil)
            for name in Set(names) { try offer(IndexEntry(key: .absent, name: name), check) }
        case .inOrder(let target, let range):
            let check = CandidateCheck(query.filters, run: self, through: target)
            try visitInOrder(target, range, check)
        case .byName(let target, let keys): try visitByName(target, keys)
        case .gather(let target, let ranges): try gather(target, ranges)
        case .byDistance(let target): try visitByDistance(target)
        case .scan: try scan()
        }
    }

    private func visitByName(_ target: IndexTarget, _ keys: [QueryKey]) throws {
        guard let place = place(of: target) else { return }
        let cursors = keys.map { key in
            IndexCursor(
                place,
                zone: zone.number,
                range: .only(key),
                ascending: order.namesAscend,
                start: start.map { IndexEntry(key: key, name: $0.recordName) },
                in: reader.database
            )
        }
        var merged = MergedCursor(cursors, ascending: order.namesAscend)
        let check = CandidateCheck(query.filters, run: self, through: target, keys: keys)
        while let entry = try merged.advance() {
            guard page.takes(Query.Position(keys: [], recordName: entry.name, zone: zone.id)) else { return }
            try offer(entry, check)
        }
    }

    private func gather(_ target: IndexTarget, _ ranges: [KeyRange]) throws {
        guard let place = place(of: target) else { return }
        let points = ranges.compactMap(\.point)
        if points.count == ranges.count {
            let check = CandidateCheck(query.filters, run: self, through: target, keys: points)
            let cursors = ranges.map { IndexCursor(place, zone: zone.number, range: $0, in: reader.database) }
            var merged = MergedCursor(cursors, ascending: true)
            while let entry = try merged.advance() { try offer(entry, check) }
            return
        }
        let check = CandidateCheck(query.filters, run: self, through: target, ranges: ranges)
        for range in ranges {
            var cursor = IndexCursor(place, zone: zone.number, range: range, in: reader.database)
            while let entry = try cursor.advance() { try offer(entry, check) }
        }
    }

    private func scan() throws {
        let check = CandidateCheck(query.filters, run: self, through: nil)
        try reader.visitNames(ofType: typeNumber, in: zone) { name in
            guard let name else { return try self.countOne() }
            try self.offer(IndexEntry(key: .absent, name: name), check)
        }
    }

    /// Counts a visited record or entry, which is limited while an index is missing.
    func countOne() throws {
        examined += 1
        if !missing.isEmpty, examined > allowance.records { throw IndexMissing(targets: missing) }
        if let most = allowance.atOnce, examined > most { throw TakesLong() }
    }

    // MARK: Candidates

    /// The position in this zone at which the page starts.
    var start: Query.Position? {
        guard let after else { return nil }
        return order.isZoneByZone && after.zone != zone.id ? nil : after
    }

    /// Reads a record that may match, and adds it to the page if it matches and belongs there.
    func offer(_ entry: IndexEntry, _ check: CandidateCheck) throws {
        try countOne()
        guard try check.passesProbes(entry.name), let record = try reader.liveRecord(named: entry.name, in: zone),
            record.type == query.recordType
        else { return }
        let values = try QueryValues(record, fields: check.fieldNames)
        guard check.holds(for: values, under: entry.key) else { return }
        let position = Query.Position(keys: order.keys(of: values), recordName: record.name, zone: zone.id)
        if let start, !order.areInOrder(start, position) { return }
        page.insert(.init(position: position, zone: zone, record: record))
    }
}

/// Thrown if a query looks at more records than it may on a thread that answers requests.
struct TakesLong: Error {}

/// Thrown if a query would look at too many records because these indexes are missing.
struct IndexMissing: Error {
    var targets: Set<IndexTarget>
}
