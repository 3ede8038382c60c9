#if Postgres
    package import Records
    package import RelayCore
    import StoreKit
    import Synchronization

    /// The indexes that writes of a container must keep, as of a version.
    ///
    /// An index is made and dropped under the exclusive lock of the schema, so a write, which reads the version under the
    /// shared one, knows each index that exists when it commits.
    final class PostgresIndexes: Sendable {
        private let known = Mutex<(version: UInt64, ofType: [Int64: [FieldIndex]])>((0, [:]))

        /// Returns the indexes of each record type, by its number.
        func read(_ version: UInt64, in transaction: PostgresTransaction) throws(PostgresError) -> [Int64: [FieldIndex]]
        {
            let known = known.withLock { $0 }
            guard known.version != version else { return known.ofType }
            let found = try Self.read(in: transaction)
            self.known.withLock { if $0.version < version { $0 = (version, found) } }
            return found
        }

        static func read(in transaction: PostgresTransaction) throws(PostgresError) -> [Int64: [FieldIndex]] {
            let rows = try transaction.query(
                "SELECT \(FieldIndex.columns) FROM field_index WHERE home = $1 AND NOT dropped ORDER BY id",
                .int(transaction.home.number)
            )
            return Dictionary(grouping: rows.map { FieldIndex(row: $0) }, by: \.type)
        }

        /// Drops the indexes that the new schema does not want; returns whether there are any.
        ///
        /// Queries no longer use them; their entries are removed gradually.
        static func drop(
            from old: Schema,
            to new: Schema,
            in transaction: PostgresTransaction
        ) throws(PostgresError) -> Bool {
            var dropped: [Int64] = []
            for (number, indexes) in try read(in: transaction) {
                let name = try transaction.type(number)
                dropped += indexes.filter { !$0.target.survives(from: old.queryable(name), to: new.queryable(name)) }
                    .map(\.number)
            }
            guard !dropped.isEmpty else { return false }
            transaction.later("UPDATE field_index SET dropped = true WHERE id = ANY($1)", .ints(dropped))
            advanceVersion(in: transaction)
            return true
        }

        static func advanceVersion(in transaction: PostgresTransaction) {
            transaction.later(
                "UPDATE home SET indexes_version = indexes_version + 1 WHERE id = $1",
                .int(transaction.home.number)
            )
        }

        /// Removes up to `limit` entries of a dropped index; returns whether there may be more.
        ///
        /// Needs no lock: these entries are no longer read, and another relay skips the index meanwhile.
        static func purgeDropped(
            of home: Int64,
            limit: Int64,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> Bool {
            var choice = PostgresPipeline()
            choice.add(
                "SELECT id FROM field_index WHERE home = $1 AND dropped LIMIT 1 FOR UPDATE SKIP LOCKED",
                .int(home)
            )
            guard let index = try connection.begin(choice).last?.first?.int(0) else {
                connection.rollBack()
                return false
            }
            let removed = try connection.query(
                """
                DELETE FROM field_value WHERE field = $1 AND (field, zone, value, name) IN (
                    SELECT field, zone, value, name FROM field_value WHERE field = $1 LIMIT $2)
                """,
                .int(index),
                .int(limit)
            ).changed
            var end = PostgresPipeline()
            if removed < limit { end.add("DELETE FROM field_index WHERE id = $1", .int(index)) }
            try connection.commit(end)
            return true
        }
    }

    extension PostgresReader {
        package func page(
            of query: Query,
            in zones: [Zone],
            after position: Query.Position?,
            limit: Int,
            bytes: Int
        ) throws(RelayError) -> QueryPage {
            try attempt {
                guard let type = try schema.queryable(query.recordType),
                    let number = try transaction.number(ofType: query.recordType)
                else { return QueryPage(records: [], next: nil) }
                return try queryWork.page(
                    of: query,
                    type: (number, type),
                    in: zones,
                    after: position,
                    limit: limit,
                    bytes: bytes,
                    reading: PostgresIndexReader(self, limit: queryWork.tuning.longestRun)
                )
            }
        }
    }

    extension PostgresWriter {
        /// Enters the values of `record` and removes those of the record it replaces.
        func updateIndexes(
            for record: StoredRecord,
            ofType type: Int64,
            over replaced: StoredRecord?,
            in zone: Zone
        ) throws {
            guard let indexes = known.indexes[type], let definition = known.state.schema.queryable(record.type) else {
                return
            }
            try indexes.update(
                for: record,
                over: replaced,
                of: definition,
                where: { _ in true },
                remove: { indexEntries.remove($1, of: record.name, index: $0.number, in: zone.number) },
                enter: { indexEntries.enter($1, of: record.name, index: $0.number, in: zone.number) }
            )
        }
    }
#endif
