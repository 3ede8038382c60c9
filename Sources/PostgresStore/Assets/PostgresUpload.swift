#if Postgres
    import Dispatch
    import Foundation
    import Records
    import RelayCore
    import RelaySystem

    /// An upload whose pieces are rows as soon as there are enough bytes for one.
    ///
    /// Until its end, a row of `asset_upload` says which relay it belongs to, by a random number. Another relay takes it over
    /// by writing its own number there; whatever this one tries after that fails.
    // Unchecked: all mutable state is guarded by `lock`.
    final class PostgresUpload: AssetUpload, @unchecked Sendable {
        /// The most bytes of one piece.
        private static let pieceSize = 1 << 20
        /// Where uploads that were interrupted or given up are noted, one after the other.
        static let background = DispatchQueue(label: "zonecast interrupted uploads", qos: .utility)

        private let pool: PostgresPool
        private let home: Int64
        private let holder: UInt64
        private let hasher = PieceHasher()
        private let lock = NSLock()
        private var buffer: [UInt8] = []
        /// The number of the content, once it has rows.
        private(set) var content: Int64?
        private var pieces: Int64 = 0
        /// The bytes in rows.
        private var size: Int64 = 0

        init(into pool: PostgresPool, home: Int64, holder: UInt64) {
            self.pool = pool
            self.home = home
            self.holder = holder
        }

        /// Takes over an upload; `nil` if there is none with so many bytes.
        init?(
            resuming key: String,
            at size: Int64,
            into pool: PostgresPool,
            home: Int64,
            holder: UInt64,
            _ connection: PostgresConnection
        ) throws(PostgresError) {
            let row = try connection.query(
                """
                UPDATE asset_upload SET holder = $4, key = NULL, touched_at = now()
                WHERE home = $1 AND key = $2 AND size = $3 RETURNING content, chunks
                """,
                .int(home),
                .text(key),
                .int(size),
                .unsigned(holder)
            ).first
            guard let row else { return nil }
            self.pool = pool
            self.home = home
            self.holder = holder
            content = row.int(0)
            pieces = row.int(1)
            self.size = size
            // The hash so far is known only to the relay that received the bytes.
            for n in 0..<pieces {
                let piece = try connection.query(
                    "SELECT bytes FROM asset_chunk WHERE content = $1 AND n = $2",
                    .int(row.int(0)),
                    .int(n)
                ).first
                guard let piece else { throw PostgresError(.damaged, "A piece of an upload is missing.") }
                hasher.add(piece.bytes(0))
            }
        }

        deinit {
            guard let content else { return }
            let (pool, holder) = (pool, holder)
            // If this fails, the upload is removed when it is old.
            Self.background.async {
                _ = try? pool.use(.writing) { connection throws(PostgresError) in
                    try connection.query(
                        """
                        WITH ended AS (
                            DELETE FROM asset_upload WHERE content = $1 AND holder = $2 RETURNING content)
                        DELETE FROM asset_chunk c USING ended e WHERE c.content = e.content
                        """,
                        .int(content),
                        .unsigned(holder)
                    )
                }
            }
        }

        private func attempt<Value>(
            _ body: (PostgresConnection) throws(PostgresError) -> Value
        ) throws(RelayError) -> Value {
            do throws(PostgresError) { return try pool.use(.writing, body) } catch { throw error.relayError }
        }

        func take(_ piece: [UInt8]) throws(RelayError) {
            lock.lock()
            defer { lock.unlock() }
            hasher.add(piece)
            var rest = piece[...]
            while !rest.isEmpty {
                let part = rest.prefix(Self.pieceSize - buffer.count)
                buffer += part
                rest = rest.dropFirst(part.count)
                if buffer.count == Self.pieceSize { try writePiece(keepingAs: nil) }
            }
        }

        func rest() {}

        /// Does so in the background, since the caller's thread may be one that must not wait.
        func rest(keepingAs key: String) {
            Self.background.async {
                self.lock.lock()
                defer { self.lock.unlock() }
                // Without its rows the client begins again at another relay.
                try? self.writePiece(keepingAs: key)
            }
        }

        private static let taken = PostgresError(.conflict, "Another relay has continued this upload.")

        /// Writes the bytes that have arrived as the next piece.
        private func writePiece(keepingAs key: String?) throws(RelayError) {
            let (home, holder, buffer, pieces) = (home, holder, buffer, pieces)
            let total = size + Int64(buffer.count)
            let count = pieces + (buffer.isEmpty ? 0 : 1)
            let known = content
            content = try attempt { connection throws(PostgresError) in
                var note = PostgresPipeline()
                if let key {
                    // A client may have begun again at the same address.
                    note.add("UPDATE asset_upload SET key = NULL WHERE home = $1 AND key = $2", .int(home), .text(key))
                }
                if let known {
                    note.add(
                        """
                        UPDATE asset_upload SET size = $3, chunks = $4, key = $5, touched_at = now()
                        WHERE content = $1 AND holder = $2 RETURNING content
                        """,
                        .int(known),
                        .unsigned(holder),
                        .int(total),
                        .int(count),
                        .text(key)
                    )
                } else {
                    note.add(
                        """
                        INSERT INTO asset_upload (content, home, holder, size, chunks, key)
                        VALUES (nextval('asset_content'), $1, $2, $3, $4, $5) RETURNING content
                        """,
                        .int(home),
                        .unsigned(holder),
                        .int(total),
                        .int(count),
                        .text(key)
                    )
                }
                guard let content = try connection.begin(note).last?.first?.int(0) else {
                    connection.rollBack()
                    throw Self.taken
                }
                var writes = PostgresPipeline()
                if !buffer.isEmpty { Self.addPiece(buffer, n: pieces, of: content, to: &writes) }
                try connection.commit(writes)
                return content
            }
            (self.buffer, self.size, self.pieces) = ([], total, count)
        }

        private static func addPiece(_ bytes: [UInt8], n: Int64, of content: Int64, to writes: inout PostgresPipeline) {
            writes.add(
                "INSERT INTO asset_chunk (content, n, bytes) VALUES ($1, $2, $3)",
                .int(content),
                .int(n),
                .bytes(bytes)
            )
        }

        func finish() throws(RelayError) -> (hash: AssetHash, size: Int64) {
            lock.lock()
            defer { lock.unlock() }
            guard let hash = hasher.finish() else { throw PostgresError(.failed, "A hash is too short.").relayError }
            let (home, holder, buffer, pieces) = (home, holder, buffer, pieces)
            let total = size + Int64(buffer.count)
            let known = content
            try attempt { connection throws(PostgresError) in
                var start = PostgresPipeline()
                if let known {
                    start.add(
                        "DELETE FROM asset_upload WHERE content = $1 AND holder = $2 RETURNING content",
                        .int(known),
                        .unsigned(holder)
                    )
                } else {
                    start.add("SELECT nextval('asset_content')")
                }
                guard let content = try connection.begin(start).last?.first?.int(0) else {
                    connection.rollBack()
                    throw Self.taken
                }
                var end = PostgresPipeline()
                end.add(
                    """
                    INSERT INTO asset (home, hash, size, content) VALUES ($1, $2, $3, $4)
                    ON CONFLICT (home, hash) DO UPDATE SET touched_at = now()
                    """,
                    .int(home),
                    .bytes(hash.bytes),
                    .int(total),
                    .int(content)
                )
                if !buffer.isEmpty { Self.addPiece(buffer, n: pieces, of: content, to: &end) }
                // The same content may have been there already.
                end.add(
                    """
                    DELETE FROM asset_chunk WHERE content = $3
                    AND NOT EXISTS (SELECT FROM asset WHERE home = $1 AND hash = $2 AND content = $3)
                    """,
                    .int(home),
                    .bytes(hash.bytes),
                    .int(content)
                )
                try connection.commit(end)
            }
            content = nil
            self.buffer = []
            return (hash, total)
        }
    }
#endif
