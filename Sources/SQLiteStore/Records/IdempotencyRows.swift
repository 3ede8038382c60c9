import GRDB
import Records
import RelayCore

/// The current generation of a store's idempotency records.
struct IdempotencyRows {
    /// The number of records in a generation; those of the current generation and the one before are used.
    private let size: Int
    var generation: Int64
    var count: Int
    /// Whether rows of older generations may be left.
    var hasOld: Bool

    init(_ database: Database, size: Int) throws {
        self.size = size
        generation = try Int64.fetchOne(database, sql: "SELECT max(generation) FROM done_write") ?? 1
        count =
            try Int.fetchOne(
                database,
                sql: "SELECT count(*) FROM done_write WHERE generation = ?",
                arguments: [generation]
            ) ?? 0
        hasOld = true
    }

    /// Counts one more row, and starts a new generation if the current one is full.
    mutating func add() {
        count += 1
        guard count > size else { return }
        (generation, count, hasOld) = (generation + 1, 1, true)
    }
}

extension SQLiteWriter {
    func idempotencyRecord(_ id: String, by user: UserID) throws(RelayError) -> IdempotencyRecord? {
        try attempt {
            guard let number = try number(of: user) else { return nil }
            let generation = try currentIdempotencyRows().generation
            let statement = try SQL(
                """
                SELECT print, places FROM done_write WHERE generation IN (?1, ?1 - 1) AND user = ?2 AND id = ?3
                ORDER BY generation DESC
                """,
                in: database
            )
            defer { statement.reset() }
            statement.bind(1, generation)
            statement.bind(2, number)
            statement.bind(3, id)
            guard try statement.step() else { return nil }
            return IdempotencyRecord(fingerprint: statement.unsigned(0), completedOperations: statement.blob(1))
        }
    }

    func keep(_ done: IdempotencyRecord, as id: String, by user: UserID) throws(RelayError) {
        try attempt {
            var rows = try currentIdempotencyRows()
            rows.add()
            if rows.hasOld { rows.hasOld = try deleteIdempotencyRecords(before: rows.generation - 1) }
            cache.idempotencyRows = rows
            let statement = try SQL("INSERT OR REPLACE INTO done_write VALUES (?, ?, ?, ?, ?)", in: database)
            statement.bind(1, rows.generation)
            statement.bind(2, try ensureNumber(of: user))
            statement.bind(3, id)
            statement.bind(4, done.fingerprint)
            statement.bind(5, blob: done.completedOperations)
            try statement.run()
        }
    }

    private func currentIdempotencyRows() throws -> IdempotencyRows {
        if let rows = cache.idempotencyRows { return rows }
        let rows = try IdempotencyRows(database, size: idempotencyRecordLimit)
        cache.idempotencyRows = rows
        return rows
    }

    /// Removes two old rows for each row that is added, so that no write removes many.
    ///
    /// - Returns: whether there were any.
    private func deleteIdempotencyRecords(before generation: Int64) throws -> Bool {
        let statement = try SQL(
            """
            DELETE FROM done_write WHERE (generation, user, id) IN (
                SELECT generation, user, id FROM done_write WHERE generation < ? LIMIT 2)
            """,
            in: database
        )
        statement.bind(1, generation)
        try statement.run()
        return database.changesCount > 0
    }
}

extension SQLiteWriter {
    func keep(_ signature: UsedSignature) throws(RelayError) -> Bool {
        try attempt {
            try forgetSignatures(before: signature.oldest)
            let statement = try SQL("INSERT OR IGNORE INTO signed_write VALUES (?, ?)", in: database)
            statement.bind(1, signature.signed.milliseconds)
            statement.bind(2, blob: withUnsafeBytes(of: signature.fingerprint.bigEndian) { Array($0) })
            try statement.run()
            return database.changesCount > 0
        }
    }

    /// Removes two expired rows for each row that is added, so that no write removes many.
    private func forgetSignatures(before oldest: Timestamp) throws {
        let statement = try SQL(
            """
            DELETE FROM signed_write WHERE (signed_at, fingerprint) IN (
                SELECT signed_at, fingerprint FROM signed_write WHERE signed_at < ? ORDER BY signed_at LIMIT 2)
            """,
            in: database
        )
        statement.bind(1, oldest.milliseconds)
        try statement.run()
    }
}
