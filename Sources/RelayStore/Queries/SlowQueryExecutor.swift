import Foundation
package import GRDB
import GRDBSQLite
package import Records
import RelayCore
import Synchronization

/// Runs long queries, a few at a time, away from the threads that answer all other requests.
package final class SlowQueryExecutor: TaskExecutor {
    static let shared = SlowQueryExecutor()

    private let queue = OperationQueue()
    private let count = Mutex(0)

    private let most: Int

    /// At most `most` queries may run or wait: they take seconds each, and no client would wait for more.
    package init(most: Int = 32) {
        self.most = most
        queue.name = "zonecast long queries"
        queue.maxConcurrentOperationCount = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.addOperation { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    /// Runs `body` when it is its turn.
    package func run<Result>(_ body: () throws(RelayError) -> Result) async throws(RelayError) -> Result {
        let hasRoom = count.withLock { count in
            guard count < most else { return false }
            count += 1
            return true
        }
        guard hasRoom else {
            throw RelayError(
                .tryAgainLater,
                "Too many long queries are waiting. Try again in a few seconds, or narrow the query down.",
                retryAfter: .seconds(5)
            )
        }
        defer { count.withLock { $0 -= 1 } }
        return try await withTaskExecutorPreference(self) { () async throws(RelayError) -> Result in try body() }
    }
}

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
