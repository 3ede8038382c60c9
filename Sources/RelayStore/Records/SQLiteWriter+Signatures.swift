import GRDB
import Records
import RelayCore

extension SQLiteWriter {
    func keep(_ signature: SignatureMark) throws(RelayError) -> Bool {
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
