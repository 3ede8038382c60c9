#if Postgres
    import ChildProcesses
    import PostgresStore
    import Records
    import RelayCore
    import Testing

    @Suite(needsPostgres)
    struct LayoutTests {
        @Test("a database of another program, a newer layout and another cluster are refused with one sentence each")
        func refusals() throws {
            let connection = try PostgresConnection(to: emptyDatabase())
            let layout = PostgresLayout(cluster: "ours")
            func refusal(_ layout: PostgresLayout) throws -> PostgresError {
                try #require(throws: PostgresError.self) { try layout.prepare(connection) }
            }
            try connection.query("CREATE TABLE invoice (id bigint)")
            let foreign = try refusal(layout)
            #expect(foreign.code == .foreignLayout)
            #expect("\(foreign)".contains("invoice"))
            try connection.query("DROP TABLE invoice")
            try layout.prepare(connection)
            let other = try refusal(PostgresLayout(cluster: "theirs"))
            #expect(other.code == .otherCluster)
            #expect("\(other)".contains("'ours'"))
            try connection.query("UPDATE zonecast_layout SET version = 99")
            #expect(try refusal(layout).code == .newerLayout)
            #expect(try refusal(layout).relayError.code == .tryAgainLater)
        }

        @Test("a database that cannot store all of Unicode is refused, and stays empty") func encoding() throws {
            let server = try PostgresServer.shared.get()
            try server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
            let connection = try PostgresConnection(to: PostgresAddress(server.url(of: "latin")))
            let refusal = try #require(throws: PostgresError.self) {
                try PostgresLayout(cluster: "ours").prepare(connection)
            }
            #expect(refusal.code == .foreignEncoding && "\(refusal)".contains("LATIN1"))
            #expect(try connection.query("SELECT to_regclass('home')").first?.isNull(0) == true)
        }

        @Test("nodes that start at once create the tables once, also through a connection for reading")
        func createdOnce() async throws {
            let address = try emptyDatabase()
            let servers = try await withThrowingTaskGroup(of: PostgresLayout.Server.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        let purpose: PostgresConnection.Purpose = number % 2 == 0 ? .reading : .writing
                        return try PostgresLayout(cluster: "test")
                            .prepare(try PostgresConnection(to: address, for: purpose))
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(servers).count == 1)
        }
    }
#endif
