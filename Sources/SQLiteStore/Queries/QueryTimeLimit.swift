package import GRDB
import GRDBSQLite
import RelayCore

/// Limits how long the statements of one access may run.
///
/// SQLite calls a handler every few thousand steps of its virtual machine. After the deadline the statement fails with
/// `SQLITE_INTERRUPT`. See Reliability.md, "Limits".
package enum QueryTimeLimit {
    /// The longest a query may take.
    package static let query = QueryTuning().longestRun

    /// Runs `body`, whose statements on `database` are interrupted after `limit`.
    package static func limited<Result>(
        to limit: Duration = query,
        on database: Database,
        _ body: () throws -> Result
    ) rethrows -> Result {
        var deadline = ContinuousClock.now + limit
        return try withUnsafeMutablePointer(to: &deadline) { deadline in
            sqlite3_progress_handler(database.sqliteConnection, 10_000, isOver, deadline)
            defer { sqlite3_progress_handler(database.sqliteConnection, 0, nil, nil) }
            return try body()
        }
    }

    private static let isOver: @convention(c) (UnsafeMutableRawPointer?) -> CInt = { context in
        guard let deadline = context?.assumingMemoryBound(to: ContinuousClock.Instant.self) else { return 0 }
        return ContinuousClock.now > deadline.pointee ? 1 : 0
    }
}
