#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Testing

    @Suite(needsPostgres)
    struct PoolTests {
        @Test("the pool lends as many connections as it may have, and reuses them")
        func limits() throws {
            var limits = PostgresPool.Limits()
            (limits.reading, limits.wait) = (2, .milliseconds(30))
            let pool = PostgresPool(try emptyDatabase(), limits: limits)
            defer { pool.close() }
            let (first, second) = (try pool.take(.reading), try pool.take(.reading))
            #expect(try #require(throws: PostgresError.self) { try pool.take(.reading) }.code == .busy)
            pool.put(back: second, .reading)
            let third = try pool.take(.reading)
            #expect(third === second)
            pool.put(back: first, .reading)
            pool.put(back: third, .reading)
        }

        @Test("a connection that the server cut is replaced; who was using it is told")
        func cutConnections() throws {
            let pool = PostgresPool(try emptyDatabase())
            defer { pool.close() }
            let (first, second) = (try pool.take(.writing), try pool.take(.writing))
            defer { pool.put(back: second, .writing) }
            /// Returns when the server has cut the connection.
            func cut(_ connection: PostgresConnection) throws(PostgresError) {
                try second.query("SELECT pg_terminate_backend($1::int, 10000)", .int(Int64(connection.serverProcess)))
            }
            func one() throws(PostgresError) -> Int64? {
                try pool.use(.writing) { connection throws(PostgresError) in
                    try connection.query("SELECT 1").first?.int(0)
                }
            }
            pool.put(back: first, .writing)
            try cut(first)
            #expect(try one() == 1)
            #expect(throws: PostgresError.self) {
                try pool.use(.writing) { connection throws(PostgresError) in
                    try cut(connection)
                    try connection.query("SELECT 1")
                }
            }
            #expect(try one() == 1)
        }

        @Test("a thread that waits for a server that stands still goes on when the pool gives its connections up")
        func givenUp() async throws {
            let address = try emptyDatabase()
            let pool = PostgresPool(address)
            defer { pool.close() }
            let observer = try PostgresConnection(to: address)
            try observer.query("SELECT pg_advisory_lock(1)")
            let executor = BlockingExecutor(name: "test", threads: 1)
            async let failure = Task(executorPreference: executor) { () -> PostgresError? in
                do throws(PostgresError) {
                    _ = try pool.use(.writing) { connection throws(PostgresError) in
                        try connection.query("SELECT pg_advisory_lock(1)")
                    }
                    return nil
                } catch {
                    return error
                }
            }.value
            let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 1"
            while try observer.query(waiting).first?.int(0) == 0 { await Task.yield() }
            pool.cutAll()
            #expect(await failure?.code == .connectionLost)
            let next = try pool.use(.writing) { connection throws(PostgresError) in
                try connection.query("SELECT 1").first?.int(0)
            }
            #expect(next == 1)
        }

        @Test("tasks on the executor may block while others run")
        func executor() async throws {
            let pool = PostgresPool(try emptyDatabase())
            defer { pool.close() }
            let executor = BlockingExecutor(name: "test", threads: 4)
            // Each waits for the other in the database, so both must run at once.
            let numbers = try await withThrowingTaskGroup(of: Int64.self) { group in
                for number in 1...2 {
                    group.addTask(executorPreference: executor) {
                        try pool.use(.writing) { connection throws(PostgresError) in
                            try connection.query("SELECT pg_advisory_lock($1)", .int(Int64(number)))
                            while try connection.query(
                                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = "
                                    + "(SELECT oid FROM pg_database WHERE datname = current_database())"
                            ).first?.int(0) ?? 0 < 2 {}
                            return try connection.query("SELECT count(*) FROM pg_locks").first?.int(0) ?? 0
                        }
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(numbers.count == 2)
        }
    }
#endif
