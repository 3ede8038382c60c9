import GRDB
import Records

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
