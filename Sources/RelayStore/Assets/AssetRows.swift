package import Records
import RelayCore
import Wire

extension SQLiteStore {
    /// Removes assets that are older than `limit` and that no record uses; returns their number.
    ///
    /// Unused assets are found inside a write, after which no record can start to use them, and are removed after its
    /// commit. If a deletion fails because the disk is full or the process ends, the record therefore still has its
    /// asset.
    package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
        var removed = 0
        var rest = assets.assets(before: limit)[...]
        while !rest.isEmpty {
            let batch = Array(rest.prefix(200))
            rest = rest.dropFirst(batch.count)
            let assets = assets
            defer { assets.unmarkForRemoval(batch) }
            let unused = try await writeRows { writer throws(RelayError) -> [AssetHash] in
                let unused = try writer.attempt { try batch.filter { try !writer.needs($0) } }
                assets.markForRemoval(unused)
                return unused
            }
            for hash in unused { assets.remove(hash, ifBefore: limit) }
            removed += unused.count
        }
        return removed
    }
}

/// Maintains the table of asset uses, in the transaction that changes a record; types without assets cost nothing.
extension SQLiteWriter {
    /// The types that have an asset field.
    private var assetTypes: Set<String> {
        if let known = cache.assetTypes, known.version == cache.schema.version { return known.names }
        let names = cache.schema.assetTypes
        cache.assetTypes = (cache.schema.version, names)
        return names
    }

    /// Returns by how many bytes the zone's assets grow.
    func updateAssetUses(of record: StoredRecord, over before: StoredRecord?, in zone: Zone) throws -> Int64 {
        guard assetTypes.contains(record.type) else { return 0 }
        let old = try Self.assets(of: before)
        let new = try Self.assets(of: record)
        guard old != new else { return 0 }
        var growth: Int64 = 0
        for hash in old.keys where new[hash] == nil {
            let statement = try SQL("DELETE FROM asset_use WHERE hash = ? AND zone = ? AND name = ?", in: database)
            statement.bind(1, blob: hash.bytes)
            statement.bind(2, zone.number)
            statement.bind(3, record.name)
            try statement.run()
            if let size = old[hash], try uses(of: hash, in: zone.number) == 0 { growth -= size }
        }
        for (hash, size) in new where old[hash] == nil {
            if try uses(of: hash, in: zone.number) == 0 { growth += size }
            let statement = try SQL(
                "INSERT OR REPLACE INTO asset_use (hash, zone, name, size) VALUES (?, ?, ?, ?)",
                in: database
            )
            statement.bind(1, blob: hash.bytes)
            statement.bind(2, zone.number)
            statement.bind(3, record.name)
            statement.bind(4, size)
            try statement.run()
        }
        return growth
    }

    private static func assets(of record: StoredRecord?) throws -> [AssetHash: Int64] {
        guard let record, !record.isDeleted else { return [:] }
        var found: [AssetHash: Int64] = [:]
        for asset in try FieldsJSON.assets(in: record.fields) {
            if let hash = AssetHash(checksum: asset.fileChecksum) { found[hash] = asset.size }
        }
        return found
    }

    func isUsed(_ hash: AssetHash) throws -> Bool {
        let statement = try SQL("SELECT 1 FROM asset_use WHERE hash = ? LIMIT 1", in: database)
        defer { statement.reset() }
        statement.bind(1, blob: hash.bytes)
        return try statement.step()
    }
}
