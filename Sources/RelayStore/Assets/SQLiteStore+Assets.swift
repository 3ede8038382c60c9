package import Records
import RelayCore

extension SQLiteStore {
    /// Removes the assets that came before `limit` and that no record uses; tells how many.
    ///
    /// Inside of writes, so that none is removed while a record takes it into use.
    package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
        var removed = 0
        var rest = assets.assets(before: limit)[...]
        while !rest.isEmpty {
            let batch = Array(rest.prefix(200))
            rest = rest.dropFirst(batch.count)
            let assets = assets
            removed += try await write { writer throws(RelayError) in
                guard let writer = writer as? SQLiteWriter else { return 0 }
                let unused = try writer.attempt { try batch.filter { try !writer.isUsed($0) } }
                for hash in unused { assets.remove(hash, ifBefore: limit) }
                return unused.count
            }
        }
        return removed
    }
}
