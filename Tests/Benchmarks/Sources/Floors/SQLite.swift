import CSQLite
package import Sockets

/// A SQLite database through its C API, with the relay's settings: WAL, and an fsync per commit.
package final class SQLite {
    private let handle: OpaquePointer

    package init(path: String) throws(LoadError) {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        guard sqlite3_open_v2(path, &opened, flags, nil) == SQLITE_OK, let opened else {
            throw .missing("SQLite cannot open \(path).")
        }
        handle = opened
        try execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=5000")
    }

    deinit { sqlite3_close_v2(handle) }

    package func execute(_ sql: String) throws(LoadError) {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw lastError(sql) }
    }

    package func prepare(_ sql: String) throws(LoadError) -> Statement {
        var prepared: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &prepared, nil) == SQLITE_OK, let prepared else {
            throw lastError(sql)
        }
        return Statement(prepared, of: self)
    }

    fileprivate func lastError(_ doing: String) -> LoadError {
        .missing("SQLite: \(String(cString: sqlite3_errmsg(handle))), at: \(doing)")
    }

    /// A prepared statement, which keeps its database open.
    package final class Statement {
        private let handle: OpaquePointer
        private let database: SQLite

        fileprivate init(_ handle: OpaquePointer, of database: SQLite) {
            self.handle = handle
            self.database = database
        }

        deinit { sqlite3_finalize(handle) }

        package func bind(_ number: Int, at index: Int32) { sqlite3_bind_int64(handle, index, Int64(number)) }

        /// The bytes must stay valid until the statement is reset.
        package func bind(_ bytes: UnsafeRawBufferPointer, at index: Int32) {
            sqlite3_bind_text(handle, index, bytes.baseAddress, Int32(bytes.count), nil)
        }

        /// Steps the statement; returns whether there is a row.
        package func step() throws(LoadError) -> Bool {
            switch sqlite3_step(handle) {
            case SQLITE_ROW: return true
            case SQLITE_DONE: return false
            default: throw database.lastError("step")
            }
        }

        package func reset() { sqlite3_reset(handle) }

        package func number(_ column: Int32) -> Int { Int(sqlite3_column_int64(handle, column)) }

        /// Returns the bytes of a column, valid until the next step.
        package func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
            let start = sqlite3_column_text(handle, column)
            return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
        }
    }
}
