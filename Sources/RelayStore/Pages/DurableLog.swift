import GRDB
import GRDBSQLite

extension DatabaseQueue {
    /// Turns the write-ahead log on, where it is not yet, with a flush for each commit.
    ///
    /// Not by GRDB's setting: that makes and drops a table at every opening, which a full disk refuses, so that nobody could
    /// even read; and it flushes less than keeps an answered change through a power cut.
    ///
    /// The log and its index stay beside the file, empty, when the last connection closes: to make them anew takes a little of
    /// the disk, and on a full one reads must go on after a start too.
    func keepDurableLog() throws {
        try inDatabase { database in
            // To its end: the file's head is written after the row, and whoever stops there is not told that it failed.
            let mode = try String.fetchAll(database, sql: "PRAGMA journal_mode = WAL").first
            guard mode == "wal" else {
                throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "The write-ahead log cannot be turned on.")
            }
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // A log that a long read let grow is cut once it begins anew: each start writes all of it.
            try database.execute(sql: "PRAGMA journal_size_limit = \(64 << 20)")
            var stays: CInt = 1
            sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &stays)
        }
    }
}
