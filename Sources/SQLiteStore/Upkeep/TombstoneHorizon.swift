import GRDB
package import Records
import RelayCore

// Removes tombstones that are older than the horizon. Each zone or share stores its latest removed tombstone and
// refuses tokens from before it, so no client misses a deletion, and a client that was away for longer starts over.

extension SQLiteStore {
    /// Removes the tombstones of records deleted before `limit`; returns their number.
    ///
    /// Removes a few at a time, so that other writes run in between.
    package func forgetTombstones(before limit: Timestamp) async throws(RelayError) -> Int {
        let (last, shares) = try readRows { reader throws(RelayError) -> (UInt64, [Int64]) in
            try reader.attempt {
                let last = try reader.lastChange(before: limit)
                return (last, try reader.sharesWithDeletedEntries(upTo: last))
            }
        }
        var forgotten = 0
        for share in shares {
            while case let count = try await commit({ try $0.forgetEntries(of: share, upTo: last) }), count > 0 {
                forgotten += count
            }
        }
        while let run = try readRows({ reader throws(RelayError) -> Int64? in
            try reader.runOfTombstones(upTo: last, before: limit)
        }) {
            forgotten += try await commit { try $0.forgetTombstones(ofRun: run, upTo: last, before: limit) }
        }
        return forgotten
    }

    private func commit(_ body: @escaping @Sendable (SQLiteWriter) throws -> Int) async throws(RelayError) -> Int {
        try await writeRows { writer throws(RelayError) -> Int in try writer.attempt { try body(writer) } }
    }
}

extension SQLiteReader {
    func horizon(of zone: Zone) throws(RelayError) -> UInt64 {
        try attempt {
            guard let view = zone.view, view.isPartial else {
                return try change("SELECT change FROM zone_horizon WHERE zone = ?", zone.number)
            }
            return try view.shares.map { try change("SELECT horizon FROM share WHERE id = ?", $0.share) }.max() ?? 0
        }
    }

    private func change(_ text: String, _ number: Int64) throws -> UInt64 {
        let statement = try SQL(text, in: database)
        defer { statement.reset() }
        statement.bind(1, number)
        return try statement.step() ? statement.unsigned(0) : 0
    }

    /// Returns the last change made before `limit`; 0 if there is none.
    ///
    /// Reads two dozen records in a binary search: later changes have later times.
    fileprivate func lastChange(before limit: Timestamp) throws -> UInt64 {
        let next = try SQL(
            "SELECT change, modified_at FROM record WHERE change >= ? ORDER BY change LIMIT 1",
            in: database
        )
        var (low, high): (UInt64, UInt64) = (0, try lastStored() + 1)
        while low < high {
            let middle = low + (high - low) / 2
            next.bind(1, middle)
            let isEarlier = try next.step() && next.int(1) < limit.milliseconds
            let change = isEarlier ? next.unsigned(0) : 0
            next.reset()
            if isEarlier { low = change + 1 } else { high = middle }
        }
        return low == 0 ? 0 : low - 1
    }

    private func lastStored() throws -> UInt64 {
        let statement = try SQL("SELECT max(change) FROM record", in: database)
        defer { statement.reset() }
        return try statement.step() ? statement.unsigned(0) : 0
    }

    /// Returns the first run with such a tombstone; `nil` if there is none.
    fileprivate func runOfTombstones(upTo last: UInt64, before limit: Timestamp) throws(RelayError) -> Int64? {
        try attempt {
            let statement = try SQL(
                """
                SELECT run FROM record INDEXED BY dead_by_run
                WHERE deleted = 1 AND run <= ?1 >> \(StoreLayout.runShift) AND change <= ?1 AND modified_at < ?2
                ORDER BY run LIMIT 1
                """,
                in: database
            )
            defer { statement.reset() }
            statement.bind(1, last)
            statement.bind(2, limit.milliseconds)
            return try statement.step() ? statement.int(0) : nil
        }
    }

    fileprivate func sharesWithDeletedEntries(upTo last: UInt64) throws -> [Int64] {
        let statement = try SQL(
            """
            SELECT s.id FROM share s WHERE EXISTS (
                SELECT 1 FROM share_entry e INDEXED BY share_entry_by_change
                WHERE e.share = s.id AND e.change BETWEEN s.horizon AND ?1 AND e.gone > 0)
            """,
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, last)
        var found: [Int64] = []
        while try statement.step() { found.append(statement.int(0)) }
        return found
    }
}

extension SQLiteWriter {
    /// Removes all such tombstones of a run, which has 2,048 changes; returns their number.
    fileprivate func forgetTombstones(ofRun run: Int64, upTo last: UInt64, before limit: Timestamp) throws -> Int {
        let delete = try SQL(
            """
            DELETE FROM record WHERE change IN (
                SELECT change FROM record INDEXED BY dead_by_run
                WHERE deleted = 1 AND run = ?1 AND change <= ?2 AND modified_at < ?3)
            RETURNING zone, change
            """,
            in: database
        )
        delete.bind(1, run)
        delete.bind(2, last)
        delete.bind(3, limit.milliseconds)
        var latest: [Int64: UInt64] = [:]
        var count = 0
        while try delete.step() {
            latest[delete.int(0)] = max(latest[delete.int(0)] ?? 0, delete.unsigned(1))
            count += 1
        }
        delete.reset()
        for (zone, change) in latest.sorted(by: { $0.key < $1.key }) {
            try moveHorizon(ofZone: zone, to: change)
            try leaveRun(run, ofZone: zone)
        }
        return count
    }

    private func moveHorizon(ofZone zone: Int64, to change: UInt64) throws {
        let statement = try SQL(
            """
            INSERT INTO zone_horizon (zone, change) VALUES (?, ?)
            ON CONFLICT (zone) DO UPDATE SET change = max(change, excluded.change)
            """,
            in: database
        )
        statement.bind(1, zone)
        statement.bind(2, change)
        try statement.run()
    }

    /// Removes a run from a zone that has no records left in it, so that the zone's feed skips it.
    ///
    /// Keeps the run of the zone's latest change, which later records continue.
    private func leaveRun(_ run: Int64, ofZone zone: Int64) throws {
        let statement = try SQL(
            """
            DELETE FROM zone_run WHERE zone = ?1 AND run = ?2
                AND run < (SELECT last_change >> \(StoreLayout.runShift) FROM zone_stamp WHERE zone = ?1)
                AND NOT EXISTS (SELECT 1 FROM record INDEXED BY live_by_run WHERE run = ?2 AND zone = ?1 AND deleted = 0)
                AND NOT EXISTS (SELECT 1 FROM record INDEXED BY dead_by_run WHERE run = ?2 AND zone = ?1 AND deleted = 1)
            """,
            in: database
        )
        statement.bind(1, zone)
        statement.bind(2, run)
        try statement.run()
    }

    /// Removes some entries of records that have left a shared hierarchy; returns their number.
    fileprivate func forgetEntries(of share: Int64, upTo last: UInt64) throws -> Int {
        let delete = try SQL(
            """
            DELETE FROM share_entry WHERE share = ?1 AND name IN (
                SELECT name FROM share_entry
                WHERE share = ?1 AND gone > 0 AND change <= ?2 ORDER BY change LIMIT 2048)
            RETURNING change
            """,
            in: database
        )
        delete.bind(1, share)
        delete.bind(2, last)
        var (latest, count): (UInt64, Int) = (0, 0)
        while try delete.step() {
            latest = max(latest, delete.unsigned(0))
            count += 1
        }
        delete.reset()
        let move = try SQL("UPDATE share SET horizon = max(horizon, ?2) WHERE id = ?1", in: database)
        move.bind(1, share)
        move.bind(2, latest)
        try move.run()
        return count
    }
}

extension SQLiteWriter {
    /// Removes up to `limit` records of deleted zones; returns whether there are more.
    func purgeDeletedZones(limit: Int) throws -> Bool {
        let next = try SQL("SELECT id FROM zone_row WHERE deleted = 1 AND purged = 0 LIMIT 1", in: database)
        guard try next.step() else {
            next.reset()
            return false
        }
        let zone = next.int(0)
        next.reset()
        let purge = try SQL(
            """
            DELETE FROM record WHERE change IN (
                SELECT r.change FROM zone_run z CROSS JOIN record r INDEXED BY live_by_run
                ON r.run = z.run AND r.zone = ?1 AND r.deleted = 0 WHERE z.zone = ?1
                UNION ALL
                SELECT r.change FROM zone_run z CROSS JOIN record r INDEXED BY dead_by_run
                ON r.run = z.run AND r.zone = ?1 AND r.deleted = 1 WHERE z.zone = ?1 LIMIT ?2)
            """,
            in: database
        )
        purge.bind(1, zone)
        purge.bind(2, Int64(limit))
        try purge.run()
        if database.changesCount < limit, try !purgeEntries(ofZone: zone, limit: limit) {
            for sql in [
                "DELETE FROM asset_use WHERE zone = ?", "DELETE FROM reference WHERE zone = ?",
                "DELETE FROM zone_run WHERE zone = ?",
                "UPDATE zone_row SET purged = 1 WHERE id = ?",
            ] {
                let statement = try SQL(sql, in: database)
                statement.bind(1, zone)
                try statement.run()
            }
        }
        return true
    }
}
