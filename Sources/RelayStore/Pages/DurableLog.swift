import GRDB

extension DatabaseQueue {
    /// Turns the write-ahead log on, where it is not yet, with a flush for each commit.
    ///
    /// Not by GRDB's setting: that makes and drops a table at every opening, which a full disk refuses, so that nobody could
    /// even read; and it flushes less than keeps an answered change through a power cut.
    func keepDurableLog() throws {
        try inDatabase { database in
            let mode = try String.fetchOne(database, sql: "PRAGMA journal_mode = WAL")
            guard mode == "wal" else {
                throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "The write-ahead log cannot be turned on.")
            }
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // A log that a long read let grow is cut once it begins anew: each start writes all of it.
            try database.execute(sql: "PRAGMA journal_size_limit = \(64 << 20)")
        }
    }
}
