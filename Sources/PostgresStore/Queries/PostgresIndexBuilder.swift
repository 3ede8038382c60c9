#if Postgres
    import Records
    import RelayCore
    import StoreKit

    /// Builds indexes in a transaction of its own, which holds the lock of the schema.
    ///
    /// An index begins under the exclusive lock, so that each write either has ended or knows the index. It is then built in
    /// portions: one locks the owners whose records it reads, for the few milliseconds that it takes.
    final class PostgresIndexBuilder: PostgresIndexReader, IndexBuilder {
        private let schema: Schema
        /// Whether the transaction holds the lock of the schema exclusively.
        private let isExclusive: Bool
        private var entered = PostgresIndexEntries()

        init(_ reader: PostgresReader, isExclusive: Bool) throws {
            schema = try reader.schema
            self.isExclusive = isExclusive
            super.init(reader, limit: .seconds(30))
        }

        func queryableType(_ name: String) throws -> (number: Int64, definition: RecordType)? {
            guard let number = try transaction.number(ofType: name), let definition = schema.queryable(name) else {
                return nil
            }
            return (number, definition)
        }

        /// Begins those of the indexes that do not exist.
        func makeIndexes(_ wanted: Set<WantedIndex>) throws {
            for (name, wanted) in Dictionary(grouping: wanted, by: \.recordType).sorted(by: { $0.key < $1.key }) {
                guard let (type, _) = try queryableType(name) else { continue }
                let known = try indexes(ofType: type)
                for index in wanted where known[index.target] == nil {
                    _ = try makeIndex(index.target, ofType: type)
                }
            }
        }

        /// Returns whether one of the indexes does not exist.
        func lacksIndex(_ wanted: Set<WantedIndex>) throws -> Bool {
            for (name, wanted) in Dictionary(grouping: wanted, by: \.recordType) {
                guard let (type, _) = try queryableType(name) else { continue }
                let known = try indexes(ofType: type)
                if wanted.contains(where: { known[$0.target] == nil }) { return true }
            }
            return false
        }

        func makeIndex(_ target: IndexTarget, ofType type: Int64) throws -> FieldIndex {
            // It was dropped between two steps.
            guard isExclusive else { throw PostgresError(.conflict, "An index was dropped while it was built.") }
            let row = try transaction.query(
                """
                INSERT INTO field_index (home, type, target, goal)
                SELECT $1, $2, $3, last_value FROM change RETURNING \(FieldIndex.columns)
                """,
                .int(reader.home.number),
                .int(type),
                .text(target.text)
            ).first
            guard let row else { throw PostgresError(.failed, "An index was not inserted.") }
            PostgresIndexes.advanceVersion(in: transaction)
            return FieldIndex(row: row)
        }

        /// How many zones, and how many bytes of fields, are read in one step.
        private static let zonesAtOnce: Int64 = 64
        private static let bytesAtOnce: Int64 = 16 << 20

        func records(
            ofType type: Int64,
            after place: IndexProgress,
            upTo goal: IndexProgress,
            limit: Int,
            _ visit: (StoredRecord, Int64) throws -> Void
        ) throws -> IndexProgress {
            let found = try transaction.query(
                "SELECT id, owner FROM zone WHERE home = $1 AND id >= $2 AND NOT deleted ORDER BY id LIMIT $3",
                .int(reader.home.number),
                .int(place.zone),
                .int(Self.zonesAtOnce)
            )
            let zones = found.map { $0.int(0) }
            guard let last = zones.last else { return goal }
            var reads = PostgresPipeline()
            // No record may change between this read and the commit that writes its entries.
            reads.add(
                "SELECT id FROM owner WHERE id = ANY($1) ORDER BY id FOR UPDATE",
                .ints(Set(found.map { $0.int(1) }).sorted())
            )
            reads.add(
                Self.portion,
                .ints(zones),
                .int(place.zone),
                .unsigned(place.change),
                .int(Int64(clamping: goal.change)),
                .int(Int64(limit)),
                .int(type),
                .int(Self.bytesAtOnce)
            )
            let rows = try transaction.run(reads)[1]
            let column = PostgresReader.recordColumnCount
            try reader.learnNames(in: rows)
            for row in rows where !row.isNull(0) { try visit(try reader.record(in: row), row.int(column)) }
            if let row = rows.last, rows.count == limit || row.bool(column + 2) {
                return IndexProgress(zone: row.int(column), change: row.unsigned(column + 1))
            }
            guard zones.count == Self.zonesAtOnce else { return goal }
            return IndexProgress(zone: last, change: UInt64(Int64.max))
        }

        /// Selects the next records of these zones, and those of the type whole; the last column says that others follow,
        /// for which the bytes did not suffice.
        private static let portion = """
            SELECT \(PostgresReader.recordColumns), k.zone, k.change, k.is_cut FROM (
                SELECT k.*, k.before + k.size >= $7 AS is_cut FROM (
                    SELECT k.*, sum(k.size) OVER (ORDER BY k.place, k.change) - k.size AS before FROM (
                        SELECT z.id AS zone, z.place, n.* FROM unnest($1::bigint[]) WITH ORDINALITY AS z (id, place)
                        CROSS JOIN LATERAL (
                            SELECT n.change, n.name, octet_length(n.fields) AS size FROM record n
                            WHERE n.zone = z.id AND NOT n.deleted AND n.change <= $4
                            AND n.change > CASE WHEN z.id = $2 THEN $3 ELSE 0 END
                            ORDER BY n.change LIMIT $5) n
                        ORDER BY z.place, n.change LIMIT $5) k) k
                WHERE k.before < $7) k
            LEFT JOIN \(LookUp.rows(of: "record", where: "zone = k.zone AND name = k.name")) r ON r.type = $6
            ORDER BY k.place, k.change
            """

        func enter(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws {
            entered.enter(key, of: name, index: index, in: zone)
        }

        /// Enters the live records of a zone that came from another database into all indexes.
        func enterArrived(in zone: Zone) throws {
            let all = try PostgresIndexes.read(in: transaction)
            var failure: (any Error)?
            var count = 0
            try reader.visitRecords(
                in: zone,
                changes: 1...UInt64(Int64.max),
                states: .living,
                backwards: false,
                limit: .max,
                rowsExceptFor: nil
            ) { record, _ in
                guard case .whole(let record) = record, !record.isDeleted else { return true }
                do {
                    try enter(record, in: zone, all)
                    count += 1
                    if count.isMultiple(of: 2_000) { try flush() }
                } catch {
                    failure = error
                }
                return failure == nil
            }
            if let failure { throw failure }
            try flush()
        }

        private func enter(_ record: StoredRecord, in zone: Zone, _ all: [Int64: [FieldIndex]]) throws {
            guard let definition = schema.queryable(record.type),
                let type = try transaction.number(ofType: record.type),
                let indexes = all[type]
            else { return }
            let fields = Set(indexes.flatMap { $0.target.fieldNames(in: definition) })
            let values = try QueryValues(record, fields: fields)
            for index in indexes where !isServedByRecords(index.target, in: zone.number) {
                for key in index.target.keys(of: values, in: definition) {
                    try enter(key, of: record.name, index: index.number, in: zone.number)
                }
            }
        }

        private func flush() throws {
            var writes = PostgresPipeline()
            entered.flush(into: &writes)
            if !writes.isEmpty { _ = try transaction.run(writes) }
        }

        func setBuilt(_ index: FieldIndex, to place: IndexProgress) throws {
            var writes = PostgresPipeline()
            entered.flush(into: &writes)
            writes.add(
                "UPDATE field_index SET built_zone = $2, built_change = $3, is_ready = $4 WHERE id = $1",
                .int(index.number),
                .int(place.zone),
                .int(Int64(clamping: place.change)),
                .bool(place >= index.goal)
            )
            _ = try transaction.run(writes)
            if place >= index.goal { PostgresIndexes.advanceVersion(in: transaction) }
        }
    }
#endif
