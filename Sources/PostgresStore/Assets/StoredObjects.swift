#if Postgres
    import Crypto
    import Foundation
    import Records
    import RelayCore
    import StoreKit
    import Synchronization

    /// The contents of assets as objects of other storage, each under a number that is used once.
    ///
    /// Equal content that is uploaded again is another object, which goes if the asset is there already. So an object that
    /// was found to be unused can never be one that an upload is about to use: whatever deletes it deletes no other. A
    /// number is in `asset_garbage` from before its object is stored until an asset has it, and again from the transaction
    /// that removes the asset. Objects of such numbers are deleted after a time that no upload takes.
    final class StoredObjects: Sendable {
        /// How long an upload to the storage may take, and a download of an asset that was removed meanwhile.
        static let grace = Duration.seconds(24 * 3_600)

        private let objects: any AssetObjects
        private let pool: PostgresPool

        init(_ objects: any AssetObjects, _ pool: PostgresPool) {
            self.objects = objects
            self.pool = pool
        }

        private func attempt<Value>(
            _ body: (PostgresConnection) throws(PostgresError) -> Value
        ) throws(RelayError) -> Value {
            do throws(PostgresError) { return try pool.use(.writing, body) } catch { throw error.relayError }
        }

        private func name(of content: Int64) throws(RelayError) -> String {
            // Two clusters may share a bucket and have the same numbers.
            let cluster = try attempt { connection throws(PostgresError) in try PostgresLayout.cluster(of: connection) }
            return "\(cluster)/assets/\(content)"
        }

        /// Stores the content of a file as an asset, unless it is stored already.
        func store(_ file: AssetFile, _ hash: AssetHash, home: Int64) throws(RelayError) {
            let isThere = try attempt { connection throws(PostgresError) in
                // Keeps it from being removed as unused, too.
                let rows = try connection.query(
                    "UPDATE asset SET touched_at = now() WHERE home = $1 AND hash = $2 RETURNING content",
                    .int(home),
                    .bytes(hash.bytes)
                )
                return !rows.isEmpty
            }
            guard !isThere else { return }
            let content = try attempt { connection throws(PostgresError) in
                let rows = try connection.query(
                    "INSERT INTO asset_garbage (content) VALUES (nextval('asset_content')) RETURNING content"
                )
                guard let content = rows.first?.int(0) else { throw .missing("a content") }
                return content
            }
            try objects.put(file: file.path, size: file.size, as: try name(of: content))
            let kept = try attempt { connection throws(PostgresError) in
                try Self.enter(content, of: hash, size: file.size, home: home, connection)
            }
            // Another upload of the same content was faster.
            if kept != content { try removeNow(content) }
        }

        /// Enters the asset; returns the content that it has.
        private static func enter(
            _ content: Int64,
            of hash: AssetHash,
            size: Int64,
            home: Int64,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> Int64 {
            var start = PostgresPipeline()
            start.add("SELECT content FROM asset_garbage WHERE content = $1 FOR UPDATE", .int(content))
            guard try connection.begin(start).last?.isEmpty == false else {
                connection.rollBack()
                throw PostgresError(.conflict, "The upload took so long that its content was removed.")
            }
            let row = try connection.query(
                """
                INSERT INTO asset (home, hash, size, content, is_object) VALUES ($1, $2, $3, $4, true)
                ON CONFLICT (home, hash) DO UPDATE SET touched_at = now() RETURNING content
                """,
                .int(home),
                .bytes(hash.bytes),
                .int(size),
                .int(content)
            ).first
            guard let kept = row?.int(0) else { throw .missing("an asset") }
            var end = PostgresPipeline()
            if kept == content { end.add("DELETE FROM asset_garbage WHERE content = $1", .int(content)) }
            try connection.commit(end)
            return kept
        }

        /// Passes the content to an upload into the cache.
        func fetch(_ content: Int64, to path: String, into upload: any AssetUpload) throws(RelayError) {
            defer { unlink(path) }
            guard try objects.get(try name(of: content), to: path), let file = FileHandle(forReadingAtPath: path) else {
                // The cache finds that this is not the asset.
                return
            }
            defer { try? file.close() }
            while let piece = try? file.read(upToCount: 1 << 20), !piece.isEmpty { try upload.take(Array(piece)) }
        }

        /// Returns the SHA-256 of an object in hex; `nil` if it cannot be read.
        func checksum(of content: Int64) -> String? {
            let path = NSTemporaryDirectory() + "zonecast-object-\(UUID().uuidString)"
            defer { unlink(path) }
            guard (try? objects.get(name(of: content), to: path)) == true,
                let file = FileHandle(forReadingAtPath: path)
            else { return nil }
            defer { try? file.close() }
            var sum = SHA256()
            while let piece = try? file.read(upToCount: 1 << 20), !piece.isEmpty { sum.update(data: piece) }
            return Hex.encode(sum.finalize())
        }

        private func removeNow(_ content: Int64) throws(RelayError) {
            try objects.delete(try name(of: content))
            try attempt { connection throws(PostgresError) in
                _ = try connection.query("DELETE FROM asset_garbage WHERE content = $1", .int(content))
            }
        }

        /// Deletes objects that no asset has had for the time of grace; returns their number.
        @discardableResult
        func removeGarbage(olderThan grace: Duration = StoredObjects.grace) throws(RelayError) -> Int {
            var removed = 0
            while true {
                let contents = try attempt { connection throws(PostgresError) in
                    try connection.query(
                        """
                        SELECT content FROM asset_garbage WHERE at < now() - $1 * interval '1 second'
                        ORDER BY content LIMIT 100
                        """,
                        .int(grace.components.seconds)
                    ).map { $0.int(0) }
                }
                for content in contents { try remove(content, olderThan: grace) }
                removed += contents.count
                if contents.count < 100 { return removed }
            }
        }

        /// Deletes an object while its row is locked, so that no upload can enter the content as an asset meanwhile.
        private func remove(_ content: Int64, olderThan grace: Duration) throws(RelayError) {
            let name = try name(of: content)
            var failure: RelayError?
            try attempt { connection throws(PostgresError) in
                var choice = PostgresPipeline()
                choice.add(
                    """
                    SELECT content FROM asset_garbage WHERE content = $1 AND at < now() - $2 * interval '1 second'
                    AND NOT EXISTS (SELECT FROM asset WHERE content = $1 AND is_object) FOR UPDATE SKIP LOCKED
                    """,
                    .int(content),
                    .int(grace.components.seconds)
                )
                guard try connection.begin(choice).last?.isEmpty == false else { return connection.rollBack() }
                do throws(RelayError) { try objects.delete(name) } catch {
                    failure = error
                    return connection.rollBack()
                }
                var end = PostgresPipeline()
                end.add("DELETE FROM asset_garbage WHERE content = $1", .int(content))
                try connection.commit(end)
            }
            if let failure { throw failure }
        }
    }

    /// An upload that arrives in the cache and is stored as an object at its end.
    ///
    /// If it is interrupted, what has arrived also becomes rows of the database, with which another relay continues.
    // Unchecked: its parts are used by one thread at a time, as the protocol says, and `copy` is guarded by its lock.
    final class ObjectUpload: AssetUpload, @unchecked Sendable {
        private let upload: any AssetUpload
        /// The file of what has arrived.
        private let path: String
        private let home: Int64
        private let cache: AssetCache
        private let objects: StoredObjects
        private let beginCopy: @Sendable () -> PostgresUpload
        /// The rows; they go with this object, unless another relay has taken them over.
        private let copy = Mutex<PostgresUpload?>(nil)
        private var size: Int64 = 0

        init(
            into cache: AssetCache,
            home: Int64,
            objects: StoredObjects,
            beginCopy: @escaping @Sendable () -> PostgresUpload
        ) throws(RelayError) {
            (upload, path) = try cache.begin()
            self.home = home
            self.cache = cache
            self.objects = objects
            self.beginCopy = beginCopy
        }

        func rest() { upload.rest() }

        /// Copies in the background, since the caller's thread may be one that must not wait.
        func rest(keepingAs key: String) {
            upload.rest()
            // The client may continue here meanwhile, so that the file grows.
            let size = size
            PostgresUpload.background.async { [self] in
                // Without the rows the client begins again at another relay.
                guard let rows = try? copied(size) else { return }
                rows.rest(keepingAs: key)
                keep(rows)
            }
        }

        /// Keeps the rows with what has arrived until the upload ends.
        func keep(_ rows: PostgresUpload) { copy.withLock { $0 = rows } }

        private func copied(_ size: Int64) throws -> PostgresUpload? {
            guard let file = FileHandle(forReadingAtPath: path) else { return nil }
            defer { try? file.close() }
            let rows = beginCopy()
            var rest = size
            while rest > 0, let piece = try file.read(upToCount: Int(min(rest, 1 << 20))), !piece.isEmpty {
                try rows.take(Array(piece))
                rest -= Int64(piece.count)
            }
            return rest == 0 ? rows : nil
        }

        func take(_ piece: [UInt8]) throws(RelayError) {
            try upload.take(piece)
            size += Int64(piece.count)
        }

        func finish() throws(RelayError) -> (hash: AssetHash, size: Int64) {
            let (hash, size) = try upload.finish()
            guard let file = cache.known(hash) else {
                throw RelayError(.tryAgainLater, "The upload was lost. Try again.", retryAfter: .seconds(2))
            }
            try objects.store(file, hash, home: home)
            cache.grew(by: size)
            return (hash, size)
        }
    }
#endif
