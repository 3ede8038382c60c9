#if Postgres
    package import Records
    import RelayCore

    // Removes tombstones that are older than the horizon. Each zone or share stores its latest removed tombstone and
    // refuses tokens from before it, so no client misses a deletion, and a client that was away for longer starts over.

    extension PostgresStore {
        /// Removes the tombstones of records deleted before `limit`; returns their number.
        ///
        /// Removes a few at a time, so that other writes run in between.
        package func forgetTombstones(before limit: Timestamp) async throws(RelayError) -> Int {
            var forgotten = 0
            while case let count = try await writeRows({ (writer) throws(RelayError) in
                try writer.forgetEntries(before: limit)
            }), count > 0 {
                forgotten += count
            }
            while case let count = try await writeRows({ (writer) throws(RelayError) in
                try writer.forgetTombstones(before: limit)
            }), count > 0 {
                forgotten += count
            }
            return forgotten
        }
    }

    extension PostgresWriter {
        private static let tombstonesAtOnce: Int64 = 2_048

        fileprivate func forgetTombstones(before limit: Timestamp) throws(RelayError) -> Int {
            try attempt {
                let rows = try transaction.query(
                    """
                    WITH gone AS (
                        DELETE FROM record WHERE (zone, name) IN (
                            SELECT r.zone, r.name FROM record r JOIN zone z ON z.id = r.zone AND z.home = $1
                            WHERE r.deleted AND r.modified_at < $2 ORDER BY r.modified_at LIMIT $3)
                        RETURNING zone, change
                    ), latest AS (SELECT zone, max(change) AS change, count(*) AS count FROM gone GROUP BY zone),
                    moved AS (
                        UPDATE zone z SET horizon = greatest(z.horizon, l.change) FROM latest l WHERE z.id = l.zone
                    )
                    SELECT coalesce(sum(count), 0)::bigint FROM latest
                    """,
                    .int(home.number),
                    .int(limit.milliseconds),
                    .int(Self.tombstonesAtOnce)
                )
                return Int(rows.first?.int(0) ?? 0)
            }
        }

        /// Removes some entries of records that have left a shared hierarchy; returns their number.
        ///
        /// Entries have no times: those that are older than every record of the zone that was changed since `limit` are old.
        fileprivate func forgetEntries(before limit: Timestamp) throws(RelayError) -> Int {
            try attempt {
                let rows = try transaction.query(
                    """
                    WITH old AS (
                        SELECT s.id, coalesce(
                            (SELECT min(r.change) FROM record r WHERE r.zone = s.zone AND r.modified_at >= $2) - 1,
                            (SELECT z.last_change FROM zone z WHERE z.id = s.zone)) AS change
                        FROM share s WHERE s.home = $1 AND s.root IS NOT NULL
                    ), gone AS (
                        DELETE FROM share_entry WHERE (share, name) IN (
                            SELECT e.share, e.name FROM old o JOIN share_entry e ON e.share = o.id
                            WHERE e.gone > 0 AND e.change <= o.change LIMIT $3)
                        RETURNING share, change
                    ), latest AS (SELECT share, max(change) AS change, count(*) AS count FROM gone GROUP BY share),
                    moved AS (
                        UPDATE share s SET horizon = greatest(s.horizon, l.change) FROM latest l WHERE s.id = l.share
                    )
                    SELECT coalesce(sum(count), 0)::bigint FROM latest
                    """,
                    .int(home.number),
                    .int(limit.milliseconds),
                    .int(Self.tombstonesAtOnce)
                )
                return Int(rows.first?.int(0) ?? 0)
            }
        }
    }
#endif
