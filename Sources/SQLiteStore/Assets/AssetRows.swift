package import Records
import RelayCore
import RelaySystem
import StoreKit

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

/// The table of asset uses, updated in the transaction that changes a record; types without assets cost nothing.
extension SQLiteWriter {
    /// The types that have an asset field.
    var assetTypes: Set<String> {
        if let known = cache.assetTypes, known.version == cache.schema.version { return known.names }
        let names = cache.schema.assetTypes
        cache.assetTypes = (cache.schema.version, names)
        return names
    }

    func used(among hashes: [AssetHash], in zone: Int64) throws -> Set<AssetHash> {
        Set(try hashes.filter { try uses(of: $0, in: zone) > 0 })
    }

    func insert(_ uses: [AssetUse], in zone: Int64) throws {
        let statement = try SQL(
            "INSERT OR REPLACE INTO asset_use (hash, zone, name, size) VALUES (?, ?, ?, ?)",
            in: database
        )
        for use in uses {
            statement.bind(1, blob: use.hash.bytes)
            statement.bind(2, zone)
            statement.bind(3, use.name)
            statement.bind(4, use.size)
            try statement.run()
        }
    }

    func delete(_ uses: [AssetUse], in zone: Int64) throws {
        let statement = try SQL("DELETE FROM asset_use WHERE hash = ? AND zone = ? AND name = ?", in: database)
        for use in uses {
            statement.bind(1, blob: use.hash.bytes)
            statement.bind(2, zone)
            statement.bind(3, use.name)
            try statement.run()
        }
    }

    func isUsed(_ hash: AssetHash) throws -> Bool {
        let statement = try SQL("SELECT 1 FROM asset_use WHERE hash = ? LIMIT 1", in: database)
        defer { statement.reset() }
        statement.bind(1, blob: hash.bytes)
        return try statement.step()
    }
}
