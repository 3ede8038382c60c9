import Foundation
package import Records
import Synchronization

/// Runs long queries, a few at a time, away from the threads that answer all other requests.
package final class SlowQueryExecutor: TaskExecutor {
    package static let shared = SlowQueryExecutor()

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
