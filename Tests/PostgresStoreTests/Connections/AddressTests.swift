#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import TestSupport
    import Testing

    @Suite(needsPostgres)
    struct AddressTests {
        @Test("an address names its servers and its database, and never the password")
        func description() throws {
            let address = try PostgresAddress("postgres://ann:s3cret@db1:5432,db2:5433/relay?sslmode=verify-full")
            #expect(address.servers == ["db1:5432", "db2:5433"])
            #expect(address.database == "relay")
            var dumped = ""
            dump(address, to: &dumped)
            #expect(!"\(address) \(String(reflecting: address)) \(dumped)".contains("s3cret"))
        }

        @Test(
            "a malformed URL is refused without a word of it",
            arguments: [
                "postgres://ann:s3cret%zz@db/relay", "postgres://ann@db/relay?s3cret", "mysql://ann:s3cret@db",
                "s3cret",
            ]
        )
        func malformed(_ url: String) throws {
            let error = try #require(throws: PostgresError.self) { try PostgresAddress(url) }
            #expect(error.code == .badAddress)
            #expect(!"\(error)".contains("s3cret"))
        }

        @Test("an unreachable server is named")
        func unreachable() throws {
            let port = try UnservedPort()
            let address = try PostgresAddress("postgres://ann@127.0.0.1:\(port.number)/relay")
            let error = try #require(throws: PostgresError.self) { try PostgresConnection(to: address) }
            #expect(error.code == .unreachable)
            #expect("\(error)".contains("127.0.0.1:\(port.number)"))
            #expect(error.relayError.code == .tryAgainLater)
        }

        @Test("a wrong password is told, and not printed; the right one comes from the URL, a file or the environment")
        func password() throws {
            let server = try PostgresServer.shared.get()
            let url = server.url(of: "postgres", user: "locked")
            let wrong = try PostgresAddress(url.replacingOccurrences(of: "locked@", with: "locked:s3cret@"))
            let error = try #require(throws: PostgresError.self) { try PostgresConnection(to: wrong) }
            #expect(error.code == .accessDenied)
            #expect(!"\(error)".contains("s3cret"))
            #expect(
                try #require(throws: PostgresError.self) { try PostgresConnection(to: PostgresAddress(url)) }.code
                    == .accessDenied
            )
            let file = NSTemporaryDirectory() + "zonecast-\(UUID().uuidString)"
            try Data("\(PostgresServer.lockedPassword)\n".utf8).write(to: URL(fileURLWithPath: file))
            defer { try? FileManager.default.removeItem(atPath: file) }
            for address in [
                try PostgresAddress(
                    url.replacingOccurrences(of: "locked@", with: "locked:\(PostgresServer.lockedPassword)@")
                ),
                try PostgresAddress(url, passwordFile: file),
                try PostgresAddress(
                    url,
                    environment: [PostgresAddress.passwordVariable: PostgresServer.lockedPassword]
                ),
            ] {
                let user = try PostgresConnection(to: address).query("SELECT current_user::text").first?.text(0)
                #expect(user == "locked")
            }
        }

        @Test("a missing database is named")
        func missingDatabase() throws {
            let address = try PostgresAddress(PostgresServer.shared.get().url(of: "nowhere"))
            let error = try #require(throws: PostgresError.self) { try PostgresConnection(to: address) }
            #expect(error.code == .noDatabase)
            #expect("\(error)".contains("nowhere"))
        }
    }
#endif
