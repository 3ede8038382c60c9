import Records
import RelayCore

/// Runs one query on one state of the store: plans each zone by the available indexes, and fills a page.
final class QueryRun {
    let reader: any IndexReader
    /// The query for the zone being visited.
    private(set) var query: Query
    private let requested: Query
    let order: QueryOrder
    let type: RecordType
    let typeNumber: Int64
    let after: Query.Position?
    private let allowance: QueryWork.Allowance
    let tuning: QueryTuning
    private let indexes: [IndexTarget: FieldIndex]
    var page: QueryPageBuilder
    /// The number of records and index entries looked at; tests check that nothing was scanned.
    private(set) var examined = 0
    /// The indexes that the query lacks.
    var missing: Set<IndexTarget> = []
    var zone: Zone

    /// `zone` is the first zone to visit.
    init(
        _ query: Query,
        type: (number: Int64, definition: RecordType),
        after: Query.Position?,
        page: QueryPageBuilder,
        work: QueryWork,
        zone: Zone,
        reader: any IndexReader
    ) throws {
        self.reader = reader
        self.query = query
        requested = query
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
            query = zone.aliases.withStoredNames(requested.restricted(to: zone.id))
            try visit()
        }
        return page.page
    }

    // MARK: One zone

    private func visit() throws {
        let planner = QueryPlanner(query: query, order: order, tuning: tuning, isReady: { self.source(of: $0) != nil })
        if let names = planner.names { return try visit(.names(names)) }
        let options = try counted(planner.options)
        missing = planner.missing(options)
        try visit(planner.plan(options) ?? .scan)
    }

    /// Returns the options whose index is ready, with their entries counted, roughly at first.
    private func counted(_ options: [QueryOption]) throws -> [QueryOption] {
        var ready = options.filter { source(of: $0.target) != nil }
        // Without options there is nothing to count.
        for limit in [tuning.fewEntries, tuning.manyEntries] {
            for index in ready.indices { ready[index].count = try count(ready[index], upTo: limit) }
            if ready.contains(where: { $0.count < limit }) { break }
        }
        return ready
    }

    func count(_ option: QueryOption, upTo limit: Int) throws -> Int {
        guard let source = source(of: option.target) else { return limit }
        let scans = option.ranges.filter { !$0.isEmpty }.map { IndexScan(source, zone: zone.number, range: $0) }
        return try reader.count(scans, upTo: limit)
    }

    func count(_ source: IndexSource, _ range: KeyRange, upTo limit: Int) throws -> Int {
        guard !range.isEmpty else { return 0 }
        return try reader.count(IndexScan(source, zone: zone.number, range: range), upTo: limit)
    }

    /// Returns where the index is, if it is complete.
    func source(of target: IndexTarget) -> IndexSource? {
        if reader.isServedByRecords(target, in: zone.number) { return .records(ofType: typeNumber) }
        guard let index = indexes[target], index.isReady else { return nil }
        return .entries(index.number)
    }

    // MARK: Plans

    private func visit(_ plan: QueryPlan) throws {
        switch plan {
        case .names(let names):
            let check = CandidateCheck(query.filters, run: self, through: nil)
            let entries = Set(names).map { IndexEntry(key: .absent, name: $0) }
            try reader.prefetch(entries, in: zone, probing: check.probes)
            for entry in entries { try offer(entry, check) }
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
        guard let source = source(of: target) else { return }
        let check = CandidateCheck(query.filters, run: self, through: target, keys: keys)
        let cursors = keys.map { key in
            let start = start.map { IndexEntry(key: key, name: $0.recordName) }
            return cursor(source, .only(key), ascending: order.namesAscend, start: start, check)
        }
        try reader.prefetch(cursors.map(\.scan))
        var merged = MergedCursor(cursors, ascending: order.namesAscend)
        while let entry = try merged.advance() {
            guard page.takes(Query.Position(keys: [], recordName: entry.name, zone: zone.id)) else { return }
            try offer(entry, check)
        }
    }

    private func gather(_ target: IndexTarget, _ ranges: [KeyRange]) throws {
        guard let source = source(of: target) else { return }
        let points = ranges.compactMap(\.point)
        if points.count == ranges.count {
            let check = CandidateCheck(query.filters, run: self, through: target, keys: points)
            let cursors = ranges.map { cursor(source, $0, check) }
            try reader.prefetch(cursors.map(\.scan))
            var merged = MergedCursor(cursors, ascending: true)
            while let entry = try merged.advance() { try offer(entry, check) }
            return
        }
        let check = CandidateCheck(query.filters, run: self, through: target, ranges: ranges)
        for range in ranges {
            var cursor = cursor(source, range, check)
            while let entry = try cursor.advance() { try offer(entry, check) }
        }
    }

    /// Returns a cursor through entries that `check` then decides on, with further probes if necessary.
    func cursor(
        _ source: IndexSource,
        _ range: KeyRange,
        ascending: Bool = true,
        start: IndexEntry? = nil,
        _ check: CandidateCheck,
        probing others: [IndexProbe] = []
    ) -> IndexCursor {
        IndexCursor(
            source,
            range: range,
            ascending: ascending,
            start: start,
            probes: others + check.probes,
            in: self
        )
    }

    private func scan() throws {
        let check = CandidateCheck(query.filters, run: self, through: nil)
        try reader.names(ofType: typeNumber, in: zone) { name in
            guard let name else { return try self.countOne() }
            try self.offer(IndexEntry(key: .absent, name: name), check)
        }
    }

    /// Counts a visited record or entry, which is limited while an index is missing.
    func countOne() throws {
        examined += 1
        if !missing.isEmpty, examined > allowance.records { throw MissingIndexError(targets: missing) }
        if let most = allowance.atOnce, examined > most { throw QueryAllowanceExceeded() }
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
        guard check.matches(for: values, under: entry.key) else { return }
        let position = Query.Position(keys: order.keys(of: values), recordName: record.name, zone: zone.id)
        if let start, !order.areInOrder(start, position) { return }
        page.insert(.init(position: position, zone: zone, record: record))
    }
}

/// Thrown if a query looks at more records than it may on a thread that answers requests.
struct QueryAllowanceExceeded: Error {}

/// Thrown if a query would look at too many records because these indexes are missing.
struct MissingIndexError: Error {
    var targets: Set<IndexTarget>
}

/// The first records in a query's order among those offered: as many as a page holds, and one more.
///
/// A page of large records holds fewer: it is full when its records exceed the byte limit.
struct QueryPageBuilder {
    struct Entry {
        var position: Query.Position
        var zone: Zone
        var record: StoredRecord
    }

    private let order: QueryOrder
    private var limit: Int
    /// The remaining bytes.
    private var room: Int
    private(set) var entries: [Entry] = []

    /// `limit` is the number of records in the page; one more is kept in memory.
    init(_ order: QueryOrder, limit: Int, bytes: Int) {
        self.order = order
        self.limit = limit
        room = bytes
    }

    var isFull: Bool { entries.count > limit }

    /// Returns whether a record at this position would be kept.
    func takes(_ position: Query.Position) -> Bool {
        guard isFull, let last = entries.last else { return true }
        return order.areInOrder(position, last.position)
    }

    mutating func insert(_ entry: Entry) {
        guard takes(entry.position) else { return }
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if order.areInOrder(entries[middle].position, entry.position) { low = middle + 1 } else { high = middle }
        }
        entries.insert(entry, at: low)
        room -= entry.record.fields.count
        if entries.count > limit + 1 { removeLast() }
        // Removed records do not come back, so the page keeps this limit.
        while room < 0, entries.count > 2 {
            removeLast()
            limit = entries.count - 1
        }
    }

    private mutating func removeLast() { room += entries.removeLast().record.fields.count }

    /// The records of the page; an additional record means that there is a next page.
    var page: QueryPage {
        QueryPage(
            records: entries.prefix(limit).map { ($0.zone.id, $0.record) },
            next: isFull ? entries.prefix(limit).last?.position : nil
        )
    }
}

/// Visits records in the order of the results.
extension QueryRun {
    /// A key that all records of a part of the order share in an earlier sort, and the index that contains it.
    private struct Shared {
        var index: Int64
        var key: QueryKey

        var probe: IndexProbe {
            IndexProbe(index: index, probe: KeyProbe(keys: [key], wantsAll: true, false))
        }
    }

    /// Visits the entries of the first sort's index, or of the names, in the order of the results until the page is
    /// full.
    func visitInOrder(_ target: IndexTarget, _ range: KeyRange, _ check: CandidateCheck) throws {
        guard let source = source(of: target) else { return }
        try visitInOrder(source, range, sharing: [], check)
    }

    /// Visits the records that have the keys `shared` in the earlier sorts, through the index of the next sort.
    ///
    /// If many records have the same key and another sort follows, these are visited through that sort's index. A page
    /// sorted by a field with few different values and then by another field thus does not read all records with one
    /// value.
    private func visitInOrder(
        _ source: IndexSource,
        _ range: KeyRange,
        sharing shared: [Shared],
        _ check: CandidateCheck
    ) throws {
        let level = shared.count
        let isAscending = order.sorts.isEmpty ? order.namesAscend : order.sorts[level].isAscending
        // Entries of one key come in the order of names, in the direction of the scan. That is not the order of the
        // results if another sort follows or names are sorted the other way.
        let isLast = level + 1 >= order.sorts.count
        let isExact = isLast && order.namesAscend == isAscending
        let (start, probes) = (first(sharing: shared, isAscending, isExact), shared.map(\.probe))
        var cursor = cursor(source, range, ascending: isAscending, start: start, check, probing: probes)
        var key: QueryKey?
        while let entry = try cursor.advance() {
            if isBeyond(entry, sharing: shared, isExact) { return }
            if !isLast, entry.key != key {
                key = entry.key
                if let (next, known) = try nextIndex(after: source, sharing: shared, entry.key) {
                    try visitInOrder(next, .everything, sharing: known, check)
                    let rest = range.intersection(.after(entry.key, ascending: isAscending))
                    cursor = self.cursor(source, rest, ascending: isAscending, check, probing: probes)
                    continue
                }
            }
            guard try hasShared(shared, entry.name) else {
                try countOne()
                continue
            }
            try offer(entry, check)
        }
    }

    /// Returns the entry to start at; `nil` for the beginning of the range.
    private func first(sharing shared: [Shared], _ isAscending: Bool, _ isExact: Bool) -> IndexEntry? {
        guard let start, start.keys.prefix(shared.count).elementsEqual(shared.map(\.key)) else { return nil }
        if order.sorts.isEmpty { return IndexEntry(key: .text(start.recordName), name: start.recordName) }
        guard shared.count < start.keys.count else { return nil }
        // Sorts before or after every record name.
        let edge = isAscending ? "" : "\u{7F}"
        return IndexEntry(key: start.keys[shared.count], name: isExact ? start.recordName : edge)
    }

    /// Returns whether the entry, and therefore all after it, come after the last record of a full page.
    private func isBeyond(_ entry: IndexEntry, sharing shared: [Shared], _ isExact: Bool) -> Bool {
        guard page.isFull, let last = page.entries.last?.position else { return false }
        let keys = order.sorts.isEmpty ? [] : shared.map(\.key) + [entry.key]
        for ((key, bar), sort) in zip(zip(keys, last.keys), order.sorts) where key != bar {
            return (key > bar) == sort.isAscending
        }
        return isExact && !page.takes(Query.Position(keys: keys, recordName: entry.name, zone: zone.id))
    }

    /// Returns the index of the next sort, if so many records share this key that it is worth using.
    private func nextIndex(
        after source: IndexSource,
        sharing shared: [Shared],
        _ key: QueryKey
    ) throws -> (IndexSource, [Shared])? {
        guard case .entries(let index) = source, order.sorts[shared.count + 1].relativeLocation == nil else {
            return nil
        }
        guard try count(source, .only(key), upTo: tuning.manyEntries) == tuning.manyEntries else { return nil }
        let target = IndexTarget.value(order.sorts[shared.count + 1].field)
        guard let next = self.source(of: target) else {
            missing.insert(target)
            return nil
        }
        return (next, shared + [Shared(index: index, key: key)])
    }

    private func hasShared(_ shared: [Shared], _ name: String) throws -> Bool {
        for one in shared
        where try !reader.contains(one.key, of: name, index: one.index, in: zone.number) {
            return false
        }
        return true
    }
}

extension KeyRange {
    /// Returns the keys after a given one, in ascending or descending order.
    fileprivate static func after(_ key: QueryKey, ascending: Bool) -> KeyRange {
        ascending ? KeyRange(lower: .excluding(key), upper: nil) : KeyRange(lower: nil, upper: .excluding(key))
    }
}

/// Visits records by distance from a place, ascending or descending.
///
/// Divides the globe into squares and those into quarters, always continuing with the square that may contain the next
/// record: a square with few entries is read, one with many is divided. A page therefore costs about the same wherever
/// its places are, and nothing before its start or after its end is read.
extension QueryRun {
    /// A square to visit, and the first rank that a place in it can have.
    private struct Waiting {
        var square: GeoSquare
        /// The distance; negative for a descending order.
        var rank: Double
    }

    /// The number of entries up to which a square is read at once.
    private static let fewInSquare = 16

    func visitByDistance(_ target: IndexTarget) throws {
        guard let source = source(of: target), let sort = order.sorts.first, let center = sort.relativeLocation else {
            return
        }
        let check = CandidateCheck(query.filters, run: self, through: nil)
        // A record without a place is farther than any other: see `QueryOrder`.
        guard sort.isAscending else {
            if try visitWithoutLocation(source, check) { try visitSquares(source, center, isAscending: false, check) }
            return
        }
        if start?.keys.first != .real(.infinity) { try visitSquares(source, center, isAscending: true, check) }
        if !page.isFull || page.entries.last?.position.keys.first == .real(.infinity) {
            _ = try visitWithoutLocation(source, check)
        }
    }

    private func visitSquares(
        _ source: IndexSource,
        _ center: Location,
        isAscending: Bool,
        _ check: CandidateCheck
    ) throws {
        func rank(of distance: Double) -> Double { isAscending ? distance : -distance }
        var from = -Double.infinity
        if case .real(let distance)? = start?.keys.first, distance.isFinite {
            from = rank(of: distance) - Distance.slack
        }
        var waiting = [Waiting(square: .globe, rank: rank(of: isAscending ? 0 : Distance.longest))]
        while let next = waiting.popLast() {
            if let bar = page.entries.last?.position.keys.first, page.isFull, case .real(let distance) = bar,
                next.rank > rank(of: distance) + Distance.slack
            {
                return
            }
            let range = KeyRange(cells: next.square.cells)
            let count = try count(source, range, upTo: Self.fewInSquare)
            guard count == Self.fewInSquare, !next.square.quarters.isEmpty else {
                var cursor = cursor(source, range, check)
                while let entry = try cursor.advance() { try offer(entry, check) }
                continue
            }
            for quarter in next.square.quarters where mayMatch(quarter) {
                let ends = (Distance.least(from: center, to: quarter), Distance.most(from: center, to: quarter))
                let (first, last) = isAscending ? ends : (-ends.1, -ends.0)
                guard last >= from else { continue }
                // The square that comes first is last in the array, from which it is taken.
                let index = waiting.firstIndex { $0.rank <= first } ?? waiting.endIndex
                waiting.insert(Waiting(square: quarter, rank: first), at: index)
            }
        }
    }

    /// Returns whether the square overlaps all circles of the filters.
    private func mayMatch(_ square: GeoSquare) -> Bool {
        query.filters.allSatisfy { filter in
            guard filter.comparator == .near, filter.field == order.sorts.first?.field,
                case .location(let center)? = filter.values.first, let distance = filter.distance
            else { return true }
            return Distance.least(from: center, to: square) <= distance + Distance.slack
        }
    }

    /// Visits records without a place, which all have the same distance.
    ///
    /// - Returns: whether the page may have room for records after them.
    private func visitWithoutLocation(_ source: IndexSource, _ check: CandidateCheck) throws -> Bool {
        let isLast = order.sorts.count == 1
        if let start, start.keys.first != .real(.infinity), !order.sorts[0].isAscending { return true }
        let begin = isLast && start?.keys.first == .real(.infinity) ? start?.recordName : nil
        let first = begin.map { IndexEntry(key: .absent, name: $0) }
        var cursor = cursor(source, .only(.absent), ascending: order.namesAscend, start: first, check)
        while let entry = try cursor.advance() {
            let position = Query.Position(keys: [.real(.infinity)], recordName: entry.name, zone: zone.id)
            if isLast, !page.takes(position) { break }
            try offer(entry, check)
        }
        return !page.isFull || page.entries.last?.position.keys.first != .real(.infinity)
    }
}
