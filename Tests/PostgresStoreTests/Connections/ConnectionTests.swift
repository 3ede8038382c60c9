#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import TestSupport
    import Testing

    @Suite(needsPostgres)
    struct ConnectionTests {
        @Test("values of every type arrive as they were sent")
        func values() throws {
            let connection = try PostgresConnection(to: emptyDatabase())
            let row = try #require(
                try connection.query(
                    "SELECT $1, $2, $3, $4, $5, $6, $7, $8::smallint, $9::int",
                    .int(-5),
                    .unsigned(.max),
                    .bool(true),
                    .text("Grüße\u{0}"),
                    .bytes([0, 255, 7]),
                    .text(nil),
                    .bytes([]),
                    .int(-3),
                    .int(70_000)
                ).first
            )
            #expect(row.int(0) == -5)
            #expect(row.unsigned(1) == .max)
            #expect(row.bool(2))
            #expect(row.text(3) == "Grüße\u{FFFD}", "PostgreSQL has no NUL")
            #expect(row.bytes(4) == [0, 255, 7])
            #expect(row.optionalText(5) == nil)
            #expect(row.optionalBytes(6) == [])
            #expect(row.int(7) == -3)
            #expect(row.int(8) == 70_000)
        }

        @Test("arrays arrive as they were sent, empty ones and NULLs included")
        func arrays() throws {
            let connection = try PostgresConnection(to: emptyDatabase())
            let rows = try connection.query(
                "SELECT * FROM unnest($1, $2, $3, $4) ORDER BY 1",
                .ints([1, 2, 3]),
                .texts(["a", nil, ""]),
                .blobs([[], [1], nil]),
                .bools([true, false, true])
            )
            #expect(rows.map { $0.int(0) } == [1, 2, 3])
            #expect(rows.map { $0.optionalText(1) } == ["a", nil, ""])
            #expect(rows.map { $0.optionalBytes(2) } == [[], [1], nil])
            #expect(rows.map { $0.bool(3) } == [true, false, true])
            #expect(try connection.query("SELECT 1 WHERE 'a' = ANY($1)", .texts([])).isEmpty)
        }

        @Test("a pipeline returns the rows of each statement and stops at the first failure")
        func pipeline() throws {
            let connection = try PostgresConnection(to: emptyDatabase())
            try connection.query("CREATE TABLE t (n bigint PRIMARY KEY)")
            var pipeline = PostgresPipeline()
            for number in 0..<3 { pipeline.add("INSERT INTO t VALUES ($1)", .int(Int64(number))) }
            let sum = pipeline.add("SELECT sum(n)::bigint FROM t")
            let rows = try connection.run(pipeline)
            #expect(rows.map(\.changed) == [1, 1, 1, 1])
            #expect(rows[sum].first?.int(0) == 3)
            var second = PostgresPipeline()
            second.add("INSERT INTO t VALUES ($1)", .int(9))
            second.add("INSERT INTO t VALUES ($1)", .int(0))
            second.add("SELECT sum(n)::bigint FROM t")
            let error = try #require(throws: PostgresError.self) { try connection.run(second) }
            #expect(error.code == .duplicate)
            #expect(error.sqlState == "23505")
            // One transaction, so the first row is gone too, and the connection is good for more.
            #expect(try connection.query("SELECT sum(n)::bigint FROM t").first?.int(0) == 3)
        }

        @Test("a pipeline larger than all buffers on the way comes through")
        func largePipeline() throws {
            let connection = try PostgresConnection(to: emptyDatabase())
            let block = [UInt8](repeating: 7, count: 1 << 20)
            var pipeline = PostgresPipeline()
            for _ in 0..<24 { pipeline.add("SELECT $1", .bytes(block)) }
            #expect(try connection.run(pipeline).allSatisfy { $0.first?.bytes(0) == block })
        }

        @Test("a transaction is committed in two round trips, and rolled back if nobody commits it")
        func transaction() throws {
            let address = try emptyDatabase()
            let (first, second) = (try PostgresConnection(to: address), try PostgresConnection(to: address))
            try first.query("CREATE TABLE t (n bigint PRIMARY KEY)")
            var start = PostgresPipeline()
            start.add("SELECT count(*) FROM t")
            var end = PostgresPipeline()
            end.add("INSERT INTO t VALUES (1)")
            #expect(try first.begin(start).first?.first?.int(0) == 0)
            try first.commit(end)
            #expect(try second.query("SELECT count(*) FROM t").first?.int(0) == 1)
            _ = try first.begin(start)
            try first.query("INSERT INTO t VALUES (2)")
            first.rollBack()
            #expect(try second.query("SELECT count(*) FROM t").first?.int(0) == 1)
            // A failed statement is a failure, and not an unknown outcome.
            _ = try first.begin(start)
            let error = try #require(throws: PostgresError.self) { try first.commit(end) }
            #expect(error.code == .duplicate)
            first.rollBack()
            #expect(try first.query("SELECT count(*) FROM t").first?.int(0) == 1)
        }

        @Test("a commit whose connection breaks has an unknown outcome")
        func lostCommit() throws {
            let address = try emptyDatabase()
            let (first, second) = (try PostgresConnection(to: address), try PostgresConnection(to: address))
            _ = try first.begin(PostgresPipeline())
            try second.query("SELECT pg_terminate_backend($1::int)", .int(Int64(first.serverProcess)))
            let error = try #require(throws: PostgresError.self) { try first.commit() }
            #expect(error.code == .outcomeUnknown)
            #expect(error.relayError.fineCode == .serverResponseLost)
            #expect(first.isBroken)
            #expect(throws: PostgresError.self) { try first.query("SELECT 1") }
        }

        @Test("a commit whose wait for the standby is cancelled has an unknown outcome")
        func cancelledCommit() async throws {
            let server = try PostgresServer(settings: ["fsync=off", "synchronous_standby_names=nobody"])
            let address = try PostgresAddress(server.url(of: "postgres"))
            let (first, second) = (try PostgresConnection(to: address), try PostgresConnection(to: address))
            try second.query("SET synchronous_commit = local")
            try second.query("CREATE TABLE t (n bigint)")
            var write = PostgresPipeline()
            write.add("INSERT INTO t VALUES (1)")
            _ = try first.begin(PostgresPipeline())
            let outcome = Gate()
            let process = Int64(first.serverProcess)
            let commit = Thread { [write] in
                #expect(
                    performing: { try first.commit(write) },
                    throws: { ($0 as? PostgresError)?.code == .outcomeUnknown }
                )
                Task { outcome.open() }
            }
            commit.start()
            try await eventually("the commit waits for the standby") {
                try second.query(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'",
                    .int(process)
                )
                .count == 1
            }
            try second.query("SELECT pg_cancel_backend($1::int)", .int(process))
            await outcome.wait()
            // It was stored here, although the standby does not have it.
            #expect(try second.query("SELECT count(*) FROM t").first?.int(0) == 1)
            #expect(!first.isBroken)
        }

        @Test("a statement that takes too long is cancelled, and a lock is waited for only so long")
        func timeouts() throws {
            let address = try emptyDatabase()
            var timeouts = PostgresConnection.Timeouts()
            (timeouts.statement, timeouts.lock) = (.milliseconds(200), .milliseconds(50))
            let first = try PostgresConnection(to: address, timeouts: timeouts)
            let second = try PostgresConnection(to: address, timeouts: timeouts)
            try first.query("CREATE TABLE t (n bigint)")
            var slow = PostgresPipeline()
            slow.add("SELECT pg_sleep(60)")
            #expect(try #require(throws: PostgresError.self) { try first.begin(slow) }.code == .timedOut)
            first.rollBack()
            var lock = PostgresPipeline()
            lock.add("LOCK TABLE t")
            _ = try first.begin(lock)
            #expect(try #require(throws: PostgresError.self) { try second.begin(lock) }.code == .timedOut)
            second.rollBack()
            timeouts.answer = .milliseconds(100)
            let hasty = try PostgresConnection(to: address, timeouts: timeouts)
            #expect(
                try #require(throws: PostgresError.self) { try hasty.query("SELECT pg_sleep(60)") }.code
                    == .connectionLost
            )
            #expect(hasty.isBroken)
        }

        @Test("a connection for reading writes nothing")
        func reading() throws {
            let connection = try PostgresConnection(to: emptyDatabase(), for: .reading)
            let error = try #require(throws: PostgresError.self) { try connection.query("CREATE TABLE t (n bigint)") }
            #expect(error.code == .notWritable)
        }
    }
#endif
