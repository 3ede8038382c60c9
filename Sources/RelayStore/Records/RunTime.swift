import GRDB
import GRDBSQLite

/// Bounds how long statements of one access may run.
///
/// SQLite asks back every few thousand steps of its machine; past the deadline the statement fails as interrupted.
/// See Reliability.md, "Limits".
enum RunTime {
    /// The longest a query may take.
    static let query = Duration.seconds(5)

    /// Runs `body`, whose statements on `database` are stopped once `limit` is over.
    static func limited<Result>(
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
