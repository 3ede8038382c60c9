#if Postgres
    import Records
    import RelayCore
    import StoreKit

    /// Reads the indexes and the records of one query, ahead of the engine: a page costs a few round trips.
    ///
    /// The indexes are rows of `field_value`, whose keys are in the order of their bytes.
    class PostgresIndexReader: IndexReader {
        let reader: PostgresReader
        var transaction: PostgresTransaction { reader.transaction }
        /// When the query has taken too long.
        private let deadline: ContinuousClock.Instant
        /// Entries that were read before the engine asked for them.
        private var ahead: [Range: Ahead] = [:]
        /// The zone of what follows.
        private var zone: Int64?
        /// The names that the engine is likely to look up, in this order.
        private var announced: [String] = []
        /// The index of each name in `announced`.
        private var places: [String: Int] = [:]
        private var records: [String: StoredRecord?] = [:]
        /// How many records to read together, and how large they have been.
        private var batch = 32
        private var bytesOfRecord = 1_024
        /// What has been looked up for announced names.
        private var probed: [Int64: Set<String>] = [:]
        private var present: Set<Probe> = []

        init(_ reader: PostgresReader, limit: Duration) {
            self.reader = reader
            deadline = .now + limit
        }

        private struct Range: Hashable {
            var source: IndexSource
            var zone: Int64
            var range: KeyRange
            var isAscending: Bool

            init(_ scan: IndexScan) {
                (source, zone, range, isAscending) = (scan.source, scan.zone, scan.range, scan.isAscending)
            }
        }

        private struct Ahead {
            var entries: ArraySlice<IndexEntry> = []
            var isAtEnd = false
            /// The last entry that was passed on, or the one to start at.
            var from: IndexEntry?
            /// Whether none was passed on.
            var isStart = true

            /// Returns whether the entries are the next ones of a scan.
            func continues(_ scan: IndexScan) -> Bool {
                scan.from?.entry == from && (scan.from?.isIncluded ?? true) == isStart
            }
        }

        private struct Probe: Hashable {
            var index: Int64
            var key: QueryKey
            var name: String
        }

        /// Runs a statement, unless the time is over.
        ///
        /// A statement that hangs is ended by the connection's own limit.
        func ask(_ query: PostgresPipeline) throws(PostgresError) -> [PostgresRows] {
            guard ContinuousClock.now < deadline else {
                throw PostgresError(.timedOut, "A query took longer than it may.")
            }
            return try transaction.run(query)
        }

        // MARK: Indexes

        func indexes(ofType type: Int64) throws -> [IndexTarget: FieldIndex] {
            var query = PostgresPipeline()
            // For the query's own statements, which have less time than others.
            query.add(
                "SELECT set_config('statement_timeout', $1, true)",
                .text("\(max(1, (deadline - .now).wholeMilliseconds))")
            )
            query.add(
                "SELECT \(FieldIndex.columns) FROM field_index WHERE home = $1 AND type = $2 AND NOT dropped",
                .int(reader.home.number),
                .int(type)
            )
            let found = try ask(query)[1].map { FieldIndex(row: $0) }
            return Dictionary(found.map { ($0.target, $0) }) { first, _ in first }
        }

        /// No index is as good as records: those of the public database are indexed by modification time like others.
        func isServedByRecords(_ target: IndexTarget, in zone: Int64) -> Bool { false }

        func count(_ scan: IndexScan, upTo limit: Int) throws -> Int {
            let (text, values) = try scan.statement("1")
            var query = PostgresPipeline()
            query.add(
                "SELECT count(*) FROM (\(text) LIMIT $\(values.count + 1)) AS entry",
                values + [.int(Int64(limit))]
            )
            return Int(try ask(query)[0].first?.int(0) ?? 0)
        }

        func count(_ scans: [IndexScan], upTo limit: Int) throws -> Int {
            var (count, rest) = (0, scans[...])
            while count < limit, !rest.isEmpty {
                var query = PostgresPipeline()
                for scan in rest.prefix(Self.scansAtOnce) {
                    let (text, values) = try scan.statement("1")
                    query.add(
                        "SELECT count(*) FROM (\(text) LIMIT $\(values.count + 1)) AS entry",
                        values + [.int(Int64(limit - count))]
                    )
                }
                count += try ask(query).reduce(0) { $0 + Int($1.first?.int(0) ?? 0) }
                rest = rest.dropFirst(Self.scansAtOnce)
            }
            return min(count, limit)
        }

        /// How many scans are read in one round trip.
        private static let scansAtOnce = 100

        /// Reads the first entries of all scans together; most have few.
        func prefetch(_ scans: [IndexScan]) throws {
            guard scans.count > 1 else { return }
            let limit = max(16, Self.entriesAtOnce / scans.count)
            for start in stride(from: 0, to: scans.count, by: Self.scansAtOnce) {
                let part = scans[start..<min(start + Self.scansAtOnce, scans.count)]
                var query = PostgresPipeline()
                for scan in part {
                    let (text, values) = try scan.statement("value, name")
                    query.add("\(text) LIMIT $\(values.count + 1)", values + [.int(Int64(limit))])
                }
                for (scan, rows) in zip(part, try ask(query)) {
                    let entries = try Self.entries(in: rows)
                    ahead[Range(scan)] = Ahead(
                        entries: entries[...],
                        isAtEnd: entries.count < limit,
                        from: scan.from?.entry
                    )
                }
            }
        }

        /// How many entries are read at least.
        private static let entriesAtOnce = 200

        func portion(of scan: IndexScan, limit: Int, into portion: inout [IndexEntry]) throws {
            let range = Range(scan)
            var found = Ahead()
            if let known = ahead[range], known.continues(scan) { found = known }
            if found.entries.count < limit, !found.isAtEnd {
                var rest = scan
                if let last = found.entries.last { rest.from = (last, false) }
                let wanted = max(limit - found.entries.count, Self.entriesAtOnce)
                let read = try entries(of: rest, limit: wanted)
                found.entries += read
                found.isAtEnd = read.count < wanted
            }
            portion += found.entries.prefix(limit)
            found.entries = found.entries.dropFirst(limit)
            (found.from, found.isStart) = (portion.last, false)
            ahead[range] = found
        }

        private func entries(of scan: IndexScan, limit: Int) throws -> [IndexEntry] {
            let (text, values) = try scan.statement("value, name")
            var query = PostgresPipeline()
            query.add("\(text) LIMIT $\(values.count + 1)", values + [.int(Int64(limit))])
            return try Self.entries(in: ask(query)[0])
        }

        private static func entries(in rows: PostgresRows) throws -> [IndexEntry] {
            try rows.map { row in
                guard let key = QueryKey(ordered: row.borrowedBytes(0)) else {
                    throw PostgresError(.damaged, "An entry of an index has an unknown form.")
                }
                return IndexEntry(key: key, name: row.text(1))
            }
        }

        // MARK: Candidates

        /// Looks up the probes at once, and notes the names that pass them; their records are read when they are needed.
        func prefetch(_ entries: [IndexEntry], in zone: Zone, probing probes: [IndexProbe]) throws {
            enter(zone)
            var asked: Set<String> = []
            var names = entries.map(\.name).filter { places[$0] == nil && asked.insert($0).inserted }
            guard !names.isEmpty else { return }
            if !probes.isEmpty {
                var query = PostgresPipeline()
                for probe in probes {
                    query.add(
                        """
                        SELECT e.value, e.name FROM unnest($3::bytea[]) AS v (value) CROSS JOIN unnest($4::text[]) AS n (name)
                        CROSS JOIN \(LookUp.rows(of: "field_value", where: Self.entry)) e
                        """,
                        .int(probe.index),
                        .int(zone.number),
                        .blobs(probe.probe.keys.map(\.ordered)),
                        .texts(names)
                    )
                }
                for (probe, rows) in zip(probes, try ask(query)) {
                    for row in rows {
                        guard let key = QueryKey(ordered: row.borrowedBytes(0)) else { continue }
                        present.insert(Probe(index: probe.index, key: key, name: row.text(1)))
                    }
                    probed[probe.index, default: []].formUnion(names)
                }
                names = names.filter { name in
                    probes.allSatisfy { probe in
                        let isThere: (QueryKey) -> Bool = { key in
                            self.present.contains(Probe(index: probe.index, key: key, name: name))
                        }
                        let keys = probe.probe.keys
                        let matches =
                            probe.probe.wantsAll ? keys.allSatisfy(isThere) : keys.contains(where: isThere)
                        return matches != probe.probe.isNegative
                    }
                }
            }
            announce(names)
        }

        /// The whole key of an entry.
        private static let entry = "field = $1 AND zone = $2 AND value = v.value AND name = n.name"

        private func announce(_ names: [String]) {
            for name in names where places[name] == nil {
                places[name] = announced.count
                announced.append(name)
            }
        }

        /// Forgets what it knows of another zone.
        private func enter(_ zone: Zone) {
            guard self.zone != zone.number else { return }
            self.zone = zone.number
            (announced, places, records, probed, present) = ([], [:], [:], [:], [])
        }

        func contains(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws -> Bool {
            if zone == self.zone, probed[index]?.contains(name) == true {
                // The probe may have looked for other keys.
                if present.contains(Probe(index: index, key: key, name: name)) { return true }
            }
            var query = PostgresPipeline()
            query.add(
                "SELECT 1 FROM field_value WHERE field = $1 AND zone = $2 AND value = $3 AND name = $4",
                .int(index),
                .int(zone),
                .bytes(key.ordered),
                .text(name)
            )
            return try !ask(query)[0].isEmpty
        }

        /// The most bytes that records read together may have, as far as those before them let expect.
        private static let bytesAtOnce = 8 << 20

        func liveRecord(named name: String, in zone: Zone) throws -> StoredRecord? {
            enter(zone)
            if let known = records.removeValue(forKey: name) { return known }
            var names = [name]
            if let place = places[name] {
                let count = max(1, min(batch, Self.bytesAtOnce / bytesOfRecord))
                names = Array(announced[place..<min(place + count, announced.count)])
                batch = min(batch * 2, 256)
            }
            guard ContinuousClock.now < deadline else {
                throw PostgresError(.timedOut, "A query took longer than it may.")
            }
            let found = try reader.records(named: names, in: zone, withFields: true)
            bytesOfRecord = max(256, found.values.reduce(0) { $0 + $1.fields.count } / max(1, found.count))
            for name in names {
                let record = found[name].flatMap { $0.isDeleted ? nil : $0 }
                records.updateValue(record, forKey: name)
            }
            return records.removeValue(forKey: name) ?? nil
        }

        func names(ofType type: Int64, in zone: Zone, _ visit: (String?) throws -> Void) throws {
            enter(zone)
            var (last, size): (Int64, Int) = (0, 256)
            while true {
                var query = PostgresPipeline()
                query.add(
                    """
                    SELECT change, CASE WHEN type = $2 THEN name END FROM record
                    WHERE zone = $1 AND NOT deleted AND change > $3 ORDER BY change LIMIT $4
                    """,
                    .int(zone.number),
                    .int(type),
                    .int(last),
                    .int(Int64(size))
                )
                let rows = try ask(query)[0]
                announce(rows.compactMap { $0.optionalText(1) })
                for row in rows { try visit(row.optionalText(1)) }
                guard rows.count == size, let change = rows.last?.int(0) else { return }
                (last, size) = (change, min(size * 2, 4_096))
            }
        }
    }

    extension IndexScan {
        /// Returns the statement of the scan without its limit, and its parameters.
        fileprivate func statement(_ columns: String) throws(PostgresError) -> (text: String, values: [PostgresValue]) {
            guard case .entries(let index) = source else {
                throw PostgresError(.failed, "No index is served by records.")
            }
            var values: [PostgresValue] = [.int(index), .int(zone)]
            var text = "SELECT \(columns) FROM field_value WHERE field = $1 AND zone = $2"
            if let lower {
                values.append(.bytes(lower.key.ordered))
                text += " AND value \(lower.isInclusive ? ">=" : ">") $\(values.count)"
            }
            if let upper {
                values.append(.bytes(upper.key.ordered))
                text += " AND value \(upper.isInclusive ? "<=" : "<") $\(values.count)"
            }
            if let from {
                values += [.bytes(from.entry.key.ordered), .text(from.entry.name)]
                let sign = (isAscending ? ">" : "<") + (from.isIncluded ? "=" : "")
                text += " AND (value, name) \(sign) ($\(values.count - 1), $\(values.count))"
            }
            let direction = isAscending ? "ASC" : "DESC"
            return (text + " ORDER BY value \(direction), name \(direction)", values)
        }
    }

    extension FieldIndex {
        static let columns = "id, type, target, built_zone, built_change, goal, is_ready"

        /// Reads a row of `columns`.
        init(row: PostgresRow) {
            // No zone has this number, so the goal is behind all records.
            let goal = IndexProgress(zone: .max, change: row.unsigned(5))
            self.init(
                number: row.int(0),
                type: row.int(1),
                target: IndexTarget(text: row.text(2)),
                builtTo: row.bool(6) ? goal : IndexProgress(zone: row.int(3), change: row.unsigned(4)),
                goal: goal
            )
        }
    }
#endif
