#if Postgres
    package import Records
    package import RelayCore
    package import StoreKit

    /// The assets of one container in one environment: rows of the database, and a cache of them in a folder.
    ///
    /// An upload is written piece by piece under the number of its content. Its end inserts the asset's row, in the same
    /// transaction as the last piece, so an asset is complete. Equal content is stored once. A download reads the pieces into
    /// the cache, whose files are served; while the pieces of a large asset arrive, clients read what is there.
    package final class PostgresAssets: AssetStore {
        private let pool: PostgresPool
        private let home: Int64
        private let cache: AssetCache
        private let objects: StoredObjects?
        private let draw: @Sendable () -> UInt64

        package var uploads: (any SharedUploads)? { PostgresUploads(pool, home: home) }

        /// - Parameters:
        ///   - pool: the connections.
        ///   - home: the number of the container and environment.
        ///   - cache: the files of this relay.
        ///   - objects: the storage for the contents of new assets; `nil` keeps them in the database.
        ///   - draw: returns 64 random bits, by which an upload is known to belong to this relay.
        package init(
            _ pool: PostgresPool,
            home: Int64,
            cache: AssetCache,
            objects: (any AssetObjects)? = nil,
            draw: @escaping @Sendable () -> UInt64
        ) {
            self.pool = pool
            self.home = home
            self.cache = cache
            self.objects = objects.map { StoredObjects($0, pool) }
            self.draw = draw
        }

        private func attempt<Value>(
            _ purpose: PostgresConnection.Purpose,
            _ body: (PostgresConnection) throws(PostgresError) -> Value
        ) throws(RelayError) -> Value {
            do throws(PostgresError) { return try pool.use(purpose, body) } catch { throw error.relayError }
        }

        // MARK: Uploads

        package func begin() throws(RelayError) -> any AssetUpload {
            guard let objects else { return PostgresUpload(into: pool, home: home, holder: draw()) }
            return try beginObject(objects)
        }

        private func beginObject(_ objects: StoredObjects) throws(RelayError) -> ObjectUpload {
            try ObjectUpload(into: cache, home: home, objects: objects) { [pool, home, draw] in
                PostgresUpload(into: pool, home: home, holder: draw())
            }
        }

        package func resume(_ key: String, at size: Int64) throws(RelayError) -> (any AssetUpload)? {
            let (pool, home, holder) = (pool, home, draw())
            let resumed = try attempt(.writing) { connection throws(PostgresError) in
                try PostgresUpload(resuming: key, at: size, into: pool, home: home, holder: holder, connection)
            }
            guard let objects, let resumed, let content = resumed.content else { return resumed }
            // An object is stored as a whole.
            let upload = try beginObject(objects)
            try fetch(content, into: upload)
            upload.keep(resumed)
            return upload
        }

        package func receivedSize(of key: String) throws(RelayError) -> Int64 {
            try attempt(.brief) { connection throws(PostgresError) in
                let rows = try connection.query(
                    "SELECT size FROM asset_upload WHERE home = $1 AND key = $2",
                    .int(home),
                    .text(key)
                )
                return rows.first?.int(0) ?? 0
            }
        }

        package func renew(_ hash: AssetHash) {
            // An asset that is not renewed is as old as before; the receipt for it may then come to nothing.
            _ = try? pool.use(.brief) { connection throws(PostgresError) in
                try connection.query(
                    "UPDATE asset SET touched_at = now() WHERE home = $1 AND hash = $2",
                    .int(home),
                    .bytes(hash.bytes)
                )
            }
        }

        // MARK: Downloads

        /// What is stored under a hash.
        private struct Row {
            var size: Int64
            var content: Int64
            var isObject: Bool
        }

        private func row(of hash: AssetHash) throws(RelayError) -> Row? {
            // A read of the store may be open on the same thread.
            try attempt(.brief) { connection throws(PostgresError) in
                let row = try connection.query(
                    "SELECT size, content, is_object FROM asset WHERE home = $1 AND hash = $2",
                    .int(home),
                    .bytes(hash.bytes)
                ).first
                return row.map { Row(size: $0.int(0), content: $0.int(1), isObject: $0.bool(2)) }
            }
        }

        package func size(of hash: AssetHash) throws(RelayError) -> Int64? { try row(of: hash)?.size }

        package func file(of hash: AssetHash) throws(RelayError) -> AssetFile? {
            guard let row = try row(of: hash) else { return nil }
            return try cache.file(of: hash, size: row.size, fetch: fetch(row))
        }

        /// The size up to which an asset is fetched before its download begins: one round trip for the whole.
        private static let mostAtOnce = piecesAtOnce << 20

        package func content(of hash: AssetHash) throws(RelayError) -> AssetContent? {
            guard let row = try row(of: hash) else { return nil }
            // Other storage brings an object as a whole.
            guard row.size > Self.mostAtOnce, !row.isObject else {
                return try cache.file(of: hash, size: row.size, fetch: fetch(row)).map { .file($0) }
            }
            return try cache.content(of: hash, size: row.size, fetch: fetch(row))
        }

        private func fetch(_ row: Row) -> AssetCache.Fetch {
            { [self] (upload) throws(RelayError) in
                guard row.isObject else { return try fetch(row.content, into: upload) }
                guard let objects else {
                    throw RelayError(
                        .tryAgainLater,
                        "The asset is in storage that this relay was not told of; the operator should set asset-storage.",
                        retryAfter: .seconds(60)
                    )
                }
                try objects.fetch(row.content, to: cache.temporaryPath(draw()), into: upload)
            }
        }

        /// How many pieces are read in one round trip.
        private static let piecesAtOnce: Int64 = 4

        private func fetch(_ content: Int64, into upload: any AssetUpload) throws(RelayError) {
            var last: Int64 = -1
            while true {
                let rows = try attempt(.reading) { connection throws(PostgresError) in
                    try connection.query(
                        "SELECT n, bytes FROM asset_chunk WHERE content = $1 AND n > $2 ORDER BY n LIMIT $3",
                        .int(content),
                        .int(last),
                        .int(Self.piecesAtOnce)
                    )
                }
                for row in rows { try upload.take(row.bytes(1)) }
                guard rows.count == Self.piecesAtOnce, let row = rows.last else { return }
                last = row.int(0)
            }
        }

        /// Fetches the content again if the cache's file has changed.
        package func isSound(_ file: AssetFile, of hash: AssetHash) async throws(RelayError) -> Bool {
            if try await cache.isSound(file, of: hash) { return true }
            cache.remove(hash)
            guard let again = try self.file(of: hash), again.size == file.size else { return false }
            return try await cache.isSound(again, of: hash)
        }
    }

    // MARK: Removal

    extension PostgresAssets {
        /// How many assets are removed in one transaction.
        private static let removalsAtOnce = 200

        /// Removes assets that are older than `limit` and that no record uses, and unfinished uploads that are as old;
        /// returns the number of assets.
        ///
        /// Locks an asset's row before it looks for uses, as a write does that begins to use one: see
        /// `PostgresSharingRows.lockStored`. So either sees what the other has done.
        ///
        /// `usedElsewhere` returns those of some assets that records of other databases use. A write there renews the age of
        /// what it begins to use before it is committed.
        package func removeUnused(
            before limit: Timestamp,
            usedElsewhere: UsedElsewhere = { _ in [] }
        ) throws(RelayError) -> Int {
            var removed = 0
            var last: [UInt8] = []
            while true {
                let (count, end) = try attempt(.writing) { connection throws(PostgresError) in
                    try removeSome(before: limit, after: last, usedElsewhere, connection)
                }
                removed += count
                guard let end else { break }
                last = end
            }
            try attempt(.writing) { connection throws(PostgresError) in
                _ = try connection.query(
                    """
                    WITH ended AS (
                        DELETE FROM asset_upload WHERE home = $1 AND touched_at < to_timestamp(least($2, 9000000000000000) / 1000.0)
                        RETURNING content)
                    DELETE FROM asset_chunk c USING ended e WHERE c.content = e.content
                    """,
                    .int(home),
                    .int(limit.milliseconds)
                )
                _ = try connection.query("DELETE FROM asset_pending WHERE ends < $1", .int(limit.milliseconds))
            }
            try objects?.removeGarbage()
            return removed
        }

        private static let isUnused = """
            NOT EXISTS (
                SELECT FROM asset_use u JOIN zone z ON z.id = u.zone WHERE u.hash = a.hash AND z.home = a.home)
            """

        package typealias UsedElsewhere = (_ hashes: [[UInt8]]) throws(PostgresError) -> Set<[UInt8]>

        /// - Returns: the number of removed assets, and the last one that was looked at; `nil` if there are no more.
        private func removeSome(
            before limit: Timestamp,
            after last: [UInt8],
            _ usedElsewhere: UsedElsewhere,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> (Int, [UInt8]?) {
            var choice = PostgresPipeline()
            choice.add(
                """
                SELECT a.hash FROM asset a
                WHERE a.home = $1 AND a.touched_at < to_timestamp(least($2, 9000000000000000) / 1000.0) AND \(Self.isUnused)
                AND a.hash > $4 ORDER BY a.hash LIMIT $3 FOR UPDATE SKIP LOCKED
                """,
                .int(home),
                .int(limit.milliseconds),
                .int(Int64(Self.removalsAtOnce)),
                .bytes(last)
            )
            let chosen = try connection.begin(choice).last.map { rows in rows.map { $0.bytes(0) } } ?? []
            guard let end = chosen.last else {
                connection.rollBack()
                return (0, nil)
            }
            // Their rows are locked, so that no other write can begin to use one.
            let used = try usedElsewhere(chosen)
            let hashes = chosen.filter { !used.contains($0) }.map(Optional.some)
            guard !hashes.isEmpty else {
                connection.rollBack()
                return (0, end)
            }
            // A statement of its own, which sees the uses that were committed before the rows were locked.
            var removal = PostgresPipeline()
            let place = removal.add(
                """
                WITH gone AS (
                    DELETE FROM asset a USING \(LookUp.parameters("$1::bigint AS home", "$2::bytea[]", as: "hash")) n
                    WHERE a.home = n.home AND a.hash = n.hash AND \(Self.isUnused)
                    RETURNING a.content, a.is_object),
                garbage AS (
                    INSERT INTO asset_garbage (content) SELECT content FROM gone WHERE is_object ON CONFLICT DO NOTHING),
                pieces AS (DELETE FROM asset_chunk c USING gone g WHERE c.content = g.content)
                SELECT count(*) FROM gone
                """,
                .int(home),
                .blobs(hashes)
            )
            return (Int(try connection.commit(removal)[place].first?.int(0) ?? 0), end)
        }
    }

    extension PostgresSharingRows {
        /// Selects and locks the assets of the home `$1` that have the hashes `$2`, in the order of these, so that two
        /// transactions never wait for each other.
        static func lockedAssets(_ strength: String) -> String {
            """
            SELECT a.home, a.hash FROM (SELECT DISTINCT unnest($2::bytea[]) AS hash ORDER BY 1) h
            CROSS JOIN LATERAL (SELECT home, hash FROM asset WHERE home = $1 AND hash = h.hash FOR \(strength)) a
            """
        }

        /// Returns those of the assets that are stored, and keeps them from being removed before the transaction ends.
        package func lockStored(among hashes: Set<AssetHash>) throws(PostgresError) -> Set<AssetHash> {
            guard !hashes.isEmpty else { return [] }
            if let peers = transaction.peers { return try peers.renewStored(hashes) }
            let rows = try transaction.query(
                Self.lockedAssets("KEY SHARE"),
                .int(transaction.home.number),
                .blobs(hashes.map(\.bytes))
            )
            return Set(rows.compactMap { AssetHash($0.bytes(1)) })
        }
    }
#endif
