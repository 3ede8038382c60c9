import Records
import RelayCore

extension SQLiteReader {
    func assetUses(_ hash: AssetHash, in zone: Zone) throws(RelayError) -> Int {
        try attempt { try uses(of: hash, in: zone.number) }
    }

    /// Returns how many of a zone's records use an asset; more than two count as two.
    func uses(of hash: AssetHash, in zone: Int64) throws -> Int {
        let statement = try SQL("SELECT 1 FROM asset_use WHERE hash = ? AND zone = ? LIMIT 2", in: database)
        defer { statement.reset() }
        statement.bind(1, blob: hash.bytes)
        statement.bind(2, zone)
        var count = 0
        while try statement.step() { count += 1 }
        return count
    }
}

extension SQLiteWriter {
    func addTransfer(_ bytes: Int64, in month: CalendarMonth) throws(RelayError) {
        try attempt {
            let statement = try SQL(
                """
                INSERT INTO transfer (month, bytes) VALUES (?1, ?2)
                ON CONFLICT (month) DO UPDATE SET bytes = bytes + ?2
                """,
                in: database
            )
            statement.bind(1, Int64(month.number))
            statement.bind(2, bytes)
            try statement.run()
        }
    }
}
