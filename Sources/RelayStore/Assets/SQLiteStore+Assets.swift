package import Records
import RelayCore

extension SQLiteStore {
    /// Removes the assets that came before `limit` and that no record uses; tells how many.
    ///
    /// What is unused is found inside of writes, after which no record can take it into use, and is removed once they are
    /// committed: a record whose deletion comes to nothing, since the disk is full or the process ends, has its asset still.
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
