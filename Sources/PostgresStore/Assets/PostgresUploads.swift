#if Postgres
    import Dispatch
    import Records
    import RelayCore

    /// Uploads that no record uses yet, of one container in one environment, in the table `asset_pending`.
    final class PostgresUploads: SharedUploads {
        private static let background = DispatchQueue(label: "zonecast upload reservations", qos: .utility)

        private let pool: PostgresPool
        private let home: Int64

        init(_ pool: PostgresPool, home: Int64) {
            self.pool = pool
            self.home = home
        }

        private func run(_ pipeline: PostgresPipeline) throws(RelayError) -> PostgresRows? {
            do throws(PostgresError) {
                // A read of the store may be open on the same thread.
                return try pool.use(.brief) { connection throws(PostgresError) in try connection.run(pipeline) }.last
            } catch {
                throw error.relayError
            }
        }

        private func query(_ sql: String, _ values: PostgresValue...) throws(RelayError) -> PostgresRows? {
            var pipeline = PostgresPipeline()
            pipeline.add(sql, [.int(home)] + values)
            return try run(pipeline)
        }

        /// Begins a transaction that is the only one about the owner's uploads.
        private func locked(_ owner: UserID) -> PostgresPipeline {
            var pipeline = PostgresPipeline()
            pipeline.add(
                "SELECT pg_advisory_xact_lock(hashtextextended($1::text || ' uploads ' || $2, 0))",
                .int(home),
                .text(owner.recordName)
            )
            return pipeline
        }

        /// Lets entries that were made by a clock that was ahead last no longer than others.
        private func addClock(_ owner: UserID, _ now: Timestamp, to pipeline: inout PostgresPipeline) {
            pipeline.add(
                """
                UPDATE asset_pending SET began = $3, ends = $3 + ends - began
                WHERE home = $1 AND owner = $2 AND began > $3
                """,
                .int(home),
                .text(owner.recordName),
                .int(now.milliseconds)
            )
        }

        private static let sum = """
            (SELECT coalesce(sum(size), 0)::bigint FROM asset_pending WHERE home = $1 AND owner = $2 AND ends > $3)
            """

        func bytes(of owner: UserID, at now: Timestamp) throws(RelayError) -> Int64 {
            var pipeline = PostgresPipeline()
            addClock(owner, now, to: &pipeline)
            pipeline.add("SELECT \(Self.sum)", .int(home), .text(owner.recordName), .int(now.milliseconds))
            return try run(pipeline)?.first?.int(0) ?? 0
        }

        func holds(_ hash: AssetHash, of owner: UserID, at now: Timestamp) throws(RelayError) -> Bool {
            let rows = try query(
                "SELECT 1 FROM asset_pending WHERE home = $1 AND owner = $2 AND ends > $3 AND hash = $4",
                .text(owner.recordName),
                .int(now.milliseconds),
                .bytes(hash.bytes)
            )
            return rows?.isEmpty == false
        }

        func reserve(
            _ size: Int64,
            of room: Int64?,
            for owner: UserID,
            until end: Timestamp,
            at now: Timestamp
        ) throws(RelayError) -> Int64? {
            var pipeline = locked(owner)
            addClock(owner, now, to: &pipeline)
            pipeline.add(
                """
                INSERT INTO asset_pending (home, owner, size, began, ends)
                SELECT $1, $2, $4, $3, $5 WHERE $6::bigint IS NULL OR $4 <= $6 - \(Self.sum) RETURNING id
                """,
                .int(home),
                .text(owner.recordName),
                .int(now.milliseconds),
                .int(size),
                .int(end.milliseconds),
                .int(room)
            )
            return try run(pipeline)?.first?.int(0)
        }

        func release(_ reservation: Int64) {
            Self.background.async { [self] in
                // If this fails, it expires.
                _ = try? query("DELETE FROM asset_pending WHERE home = $1 AND id = $2", .int(reservation))
            }
        }

        func keep(
            _ reservation: Int64,
            as hash: AssetHash,
            of owner: UserID,
            until end: Timestamp,
            at now: Timestamp
        ) throws(RelayError) {
            var pipeline = locked(owner)
            pipeline.add(
                "DELETE FROM asset_pending WHERE home = $1 AND owner = $2 AND hash = $3",
                .int(home),
                .text(owner.recordName),
                .bytes(hash.bytes)
            )
            pipeline.add(
                "UPDATE asset_pending SET hash = $2, began = $3, ends = $4 WHERE id = $1",
                .int(reservation),
                .bytes(hash.bytes),
                .int(now.milliseconds),
                .int(end.milliseconds)
            )
            _ = try run(pipeline)
        }

        func remove(_ hashes: [AssetHash], of owner: UserID) throws(RelayError) {
            _ = try query(
                "DELETE FROM asset_pending WHERE home = $1 AND owner = $2 AND hash = ANY($3)",
                .text(owner.recordName),
                .blobs(hashes.map(\.bytes))
            )
        }
    }
#endif
