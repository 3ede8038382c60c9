import Records
import RelayCore

/// Reads storage use and transfer from the file.
extension SQLiteReader {
    func committedUse(of owner: UserID) throws(RelayError) -> StorageUse {
        try attempt {
            guard let number = try number(of: owner) else { return StorageUse() }
            let statement = try SQL(
                "SELECT sum(record_bytes), sum(asset_bytes) FROM zone WHERE \(Self.living)",
                in: database
            )
            defer { statement.reset() }
            statement.bind(1, number)
            guard try statement.step() else { return StorageUse() }
            return StorageUse(records: statement.int(0), assets: statement.int(1))
        }
    }

    /// Returns the number of users, counted by their default zones.
    ///
    /// A user has a default zone from the first request on. A user that was only named by others has none.
    func committedUserCount() throws(RelayError) -> Int {
        try attempt {
            let statement = try SQL(
                "SELECT count(*) FROM zone_row WHERE owner <> 1 AND name = ? AND deleted = 0",
                in: database
            )
            defer { statement.reset() }
            statement.bind(1, ZoneID.defaultName)
            return try statement.step() ? Int(statement.int(0)) : 0
        }
    }

    func transfer(in month: CalendarMonth) throws(RelayError) -> Int64 {
        try attempt {
            let statement = try SQL("SELECT bytes FROM transfer WHERE month = ?", in: database)
            defer { statement.reset() }
            statement.bind(1, Int64(month.number))
            return try statement.step() ? statement.int(0) : 0
        }
    }
}

extension SQLiteReader {
    func assetUses(of hashes: Set<AssetHash>, in zone: Zone) throws(RelayError) -> [AssetHash: Int] {
        try attempt {
            var uses: [AssetHash: Int] = [:]
            for hash in hashes { uses[hash] = try self.uses(of: hash, in: zone.number) }
            return uses
        }
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
        try requireOwner(Zone.publicOwner)
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
