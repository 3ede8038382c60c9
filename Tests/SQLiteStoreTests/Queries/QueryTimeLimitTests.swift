import GRDB
import Records
import SQLiteStore
import Testing

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
