package import Records
import RelayCore

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
            defer { assets.spare(batch) }
            let unused = try await write { writer throws(RelayError) -> [AssetHash] in
                guard let writer = writer as? SQLiteWriter else { return [] }
                let unused = try writer.attempt { try batch.filter { try !writer.needs($0) } }
                assets.condemn(unused)
                return unused
            }
            for hash in unused { assets.remove(hash, ifBefore: limit) }
            removed += unused.count
        }
        return removed
    }
}
