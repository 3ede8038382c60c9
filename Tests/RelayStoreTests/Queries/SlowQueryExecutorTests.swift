import Dispatch
import GRDB
import Records
import RelayStore
import Testing

/// The queue of long queries.
@Suite struct SlowQueryExecutorTests {
    private let queue = SlowQueryExecutor(most: 2)

    /// A query that finds the queue full is refused with a time to retry; queued queries keep their places.
    @Test func aFullQueueRefusesFurtherQueries() async throws {
        let (isIn, semaphore) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
        let first = Task {
            try await queue.run { () throws(RelayError) -> Int in
                isIn.continuation.yield()
                semaphore.wait()
                return 1
            }
        }
        for await _ in isIn.stream { break }
        // One of these is queued behind the first; either one may be.
        async let second = refusal(unblocking: semaphore)
        async let third = refusal(unblocking: semaphore)
        let refusals = await [second, third].compactMap { $0 }
        #expect(refusals.map(\.code) == [.tryAgainLater] && refusals.first?.retryAfter == .seconds(5))
        #expect(try await first.value == 1)
        // There is room again.
        #expect(await refusal(unblocking: semaphore) == nil)
    }

    /// Returns the refusal of a query, if any.
    ///
    /// After a refusal, lets the blocking query continue.
    private func refusal(unblocking semaphore: DispatchSemaphore) async -> RelayError? {
        do throws(RelayError) {
            _ = try await queue.run { () throws(RelayError) -> Int in 0 }
            return nil
        } catch {
            semaphore.signal()
            return error
        }
    }
}

/// Queries that run too long are interrupted.
///
/// See Reliability.md, "Limits".
@Suite struct QueryTimeLimitTests {
    private static let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    private let database: DatabaseQueue

    init() throws { database = try DatabaseQueue() }

    @Test func anEndlessQueryIsRefusedWithAdvice() throws {
        do {
            try database.read { database in
                _ = try QueryTimeLimit.limited(to: .milliseconds(1), on: database) { try count(Self.endless, database) }
            }
            Issue.record("an endless query ended")
        } catch {
            let told = StoreFailure.relayError(for: error)
            #expect(told.code == .tryAgainLater && told.retryAfter != nil)
            #expect(told.reason.contains("Narrow it down"))
        }
    }

    @Test func timeLimitEndsWithQuery() throws {
        try database.read { database in
            _ = try? QueryTimeLimit.limited(to: .zero, on: database) { try count(Self.endless, database) }
            try #expect(count(Self.endless.replacing("FROM n)", with: "FROM n LIMIT 300000)"), database) == 300_000)
        }
        #expect(QueryTimeLimit.query == .seconds(5))
    }

    private func count(_ sql: String, _ database: Database) throws -> Int? {
        try Int.fetchOne(database, sql: sql)
    }
}
