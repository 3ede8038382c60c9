import GRDB
import GRDBSQLite

extension DatabaseQueue {
    /// Turns on the write-ahead log if it is off, with a flush for each commit.
    ///
    /// GRDB's setting is not used: it creates and drops a table each time a file is opened, which fails on a full disk,
    /// so that nothing could even be read; and it flushes too little to keep an answered change through a power cut.
    ///
    /// The log and its index stay beside the file, empty, when the last connection closes. Creating them again takes
    /// some disk space, and a full disk must serve reads after a restart too.
    func keepDurableLog() throws {
        try inDatabase { database in
            // Fetches all rows: the file's header is written after the row, and a caller that stops there misses an
            // error.
            let mode = try String.fetchAll(database, sql: "PRAGMA journal_mode = WAL").first
            guard mode == "wal" else {
                throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "The write-ahead log cannot be turned on.")
            }
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // Truncates a log that grew during a long read, once it starts over: each start of the relay writes all of
            // it.
            try database.execute(sql: "PRAGMA journal_size_limit = \(64 << 20)")
            var stays: CInt = 1
            sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &stays)
        }
    }
}
