#if Postgres
    import ChildProcesses
    import Foundation
    import Records
    import RelayCore
    import RelaySystem
    import Synchronization
    import TestSupport
    import Testing

    @testable import PostgresStore

    /// What a relay refuses, what the doctor finds, and what one of several relays does for all.
    @Suite(needsPostgres)
    struct PostgresHomeTests {
        private let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("zonecast-\(UUID().uuidString)").path
        private static let cost = ScryptCost(rounds: 16, blockSize: 8, parallelism: 1)

        private func home(
            _ address: PostgresAddress,
            folder: String? = nil,
            creates: Bool = true,
            time: TimeSource = .system
        ) -> PostgresHome {
            PostgresHome(PostgresCluster(address, folder: folder, creates: creates), time: time, cost: Self.cost)
        }

        /// Returns the text with which opening the accounts fails.
        private func refusal(_ home: PostgresHome, asRelay: Bool = false) throws -> String {
            var onLostWrite: (@Sendable () -> Void)?
            if asRelay { onLostWrite = {} }
            let error = try #require(throws: DirectoryError.self) {
                _ = try home.accounts(onLostWrite: onLostWrite)
            }
            guard case .unavailable(let text) = error else {
                Issue.record("\(error)")
                return ""
            }
            return text
        }

        // MARK: What is refused

        @Test("a relay whose folder belongs to one cluster refuses the database of another, and an empty one")
        func clusters() throws {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let (ours, theirs) = (try emptyDatabase(), try emptyDatabase())
            _ = try home(ours, folder: folder).accounts()
            let name = try #require(PostgresCluster.name(in: folder))
            // The folder is recognized.
            _ = try home(ours, folder: folder).accounts()
            let accounts = try home(theirs).accounts()
            try accounts.addContainer(#require(ContainerID("iCloud.theirs")))
            let text = try refusal(home(theirs, folder: folder))
            #expect(text.contains("'\(name)'") && text.contains("belongs to the cluster"), "\(text)")
            #expect(text.components(separatedBy: "\n").count == 1)
            let empty = try emptyDatabase()
            #expect(try refusal(home(empty, folder: folder)).contains("is empty"))
            let tables = try PostgresConnection(to: empty).query(
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            )
            #expect(tables.first?.int(0) == 0, "nothing was created")
            #expect(try accounts.containers().count == 1)
        }

        @Test("a command that must not create anything refuses an empty database")
        func commands() throws {
            let address = try emptyDatabase()
            #expect(try refusal(home(address, creates: false)).contains("is empty"))
            _ = try home(address).accounts()
            _ = try home(address, creates: false).accounts()
        }

        @Test("a database of another program is refused, and known to be foreign")
        func foreign() throws {
            let address = try emptyDatabase()
            try PostgresConnection(to: address).query("CREATE TABLE invoice (id bigint)")
            #expect(try refusal(home(address)).contains("invoice"))
            #expect(home(address).upkeep.isForeign)
            let finding = try #require(home(address).upkeep.checks().first)
            #expect(finding.grade == .problem && finding.found.contains("invoice") && finding.next != nil)
        }

        @Test("a relay whose clock is more than five seconds from the database's does not start", arguments: [-9, 9])
        func clocks(seconds: Int64) throws {
            let address = try emptyDatabase()
            let system = TimeSource.system
            let wrong = TimeSource(now: { system.now() + .seconds(seconds) }, uptime: system.uptime)
            let text = try refusal(home(address, time: wrong), asRelay: true)
            #expect(text.contains(seconds > 0 ? "s ahead of" : "s behind"), "\(text)")
            #expect(text.contains("NTP"))
            _ = try home(address).accounts(onLostWrite: {})
        }

        @Test("a server that is too old is refused with its version")
        func oldServer() throws {
            let port = try ListeningPort()
            port.serve { peer in
                // The start-up message, which fits one segment.
                var bytes = [UInt8](repeating: 0, count: 4_096)
                guard read(peer, &bytes, bytes.count) > 0 else { return }
                func message(_ kind: Character, _ content: [UInt8]) -> [UInt8] {
                    let length = UInt32(content.count + 4).bigEndian
                    return [kind.asciiValue ?? 0] + withUnsafeBytes(of: length) { Array($0) } + content
                }
                func setting(_ name: String, _ value: String) -> [UInt8] {
                    message("S", Array("\(name)\0\(value)\0".utf8))
                }
                // Let in, the settings, the process, and ready.
                let answer =
                    message("R", [0, 0, 0, 0]) + setting("server_version", "14.9") + setting("in_hot_standby", "off")
                    + setting("default_transaction_read_only", "off") + setting("client_encoding", "UTF8")
                    + message("K", [0, 0, 0, 1, 0, 0, 0, 2]) + message("Z", [UInt8(ascii: "I")])
                _ = write(peer, answer, answer.count)
                // Until the relay leaves.
                while read(peer, &bytes, bytes.count) > 0 {}
            }
            let address = try PostgresAddress(
                "postgres://ann@127.0.0.1:\(port.number)/relay?sslmode=disable&gssencmode=disable"
            )
            let text = try refusal(home(address))
            #expect(text.contains("is PostgreSQL 14.9") && text.contains("version 15"), "\(text)")
        }

        // MARK: What the doctor finds

        @Test("the doctor calls a server without standby and without backups usable, and says what is missing")
        func checks() throws {
            let server = try PostgresServer(settings: ["full_page_writes=on"])
            defer { server.stop() }
            let address = try PostgresAddress(server.makeDatabase())
            _ = try home(address).accounts()
            func found(_ check: String) -> StoreFinding? {
                home(address).upkeep.checks().first { $0.check == check }
            }
            #expect(found("database")?.grade == .good)
            #expect(found("standby")?.grade == .advice && found("backup")?.grade == .advice)
            for check in ["database clock", "layout", "LISTEN"] { #expect(found(check)?.grade == .good) }
            try server.execute("ALTER DATABASE \(address.database) SET synchronous_commit = off")
            #expect(found("standby")?.grade == .problem)
            // That of other tests flushes nothing to its disk.
            let careless = try emptyDatabase()
            _ = try home(careless).accounts()
            #expect(home(careless).upkeep.checks().first?.grade == .problem)
        }

        @Test("the doctor refuses to call a standby safe that nobody waits for")
        func asynchronousStandby() throws {
            let server = try PostgresServer(settings: ["wal_level=replica", "max_wal_senders=4"])
            defer { server.stop() }
            let address = try PostgresAddress(server.makeDatabase())
            _ = try home(address).accounts()
            let standby = try LogReceiver(of: server)
            defer { standby.stop() }
            func state() -> StoreFinding? { home(address).upkeep.checks().first { $0.check == "standby" } }
            #expect(
                state()?.grade == .problem && state()?.found.contains("asynchronous") == true,
                "\(state().debugDescription)"
            )
            try server.execute("ALTER SYSTEM SET synchronous_standby_names = '\(LogReceiver.name)'")
            try server.execute("SELECT pg_reload_conf()")
            try standby.waitUntilSynchronous(server)
            #expect(state()?.grade == .good, "\(state().debugDescription)")
            try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            try server.execute("SELECT pg_reload_conf()")
            #expect(
                state()?.grade == .problem && state()?.found.contains("none") == true,
                "\(state().debugDescription)"
            )
        }

        // MARK: Scheduled work

        @Test("one of two relays does the scheduled work, and the other takes over when its connection ends")
        func duty() throws {
            let address = try emptyDatabase()
            let (first, second) = (PostgresDuty(address), PostgresDuty(address))
            #expect(first.isOurs() && !second.isOurs())
            #expect(first.isOurs() && !second.isOurs(), "it stays so")
            try PostgresConnection(to: address).query(
                """
                SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
                WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                """
            )
            #expect(second.isOurs())
            #expect(!first.isOurs(), "it does not rely on a lock that it has lost")
            second.resign()
            #expect(first.isOurs())
        }

        // MARK: Accounts

        @Test("after a change of timeline, no number of revocations comes again")
        func revocations() throws {
            let address = try emptyDatabase()
            let accounts = try home(address).accounts()
            let account = try accounts.devAccount(named: "alice")
            try accounts.setDisabled(true, of: account.id)
            let before = try accounts.generation()
            try PostgresConnection(to: address).query("UPDATE zonecast_layout SET timeline = timeline + 1")
            #expect(try home(address).accounts().generation() > before + 1_000)
        }

        @Test("two relays that use one link make one operator")
        func links() async throws {
            let address = try emptyDatabase()
            let accounts = try home(address).accounts()
            let code = try accounts.makeOperatorLink()
            let made = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        let relay = try self.home(address).accounts()
                        do throws(DirectoryError) {
                            _ = try relay.useOperatorLink(code, name: "ada\(number)", password: "correct horse")
                            return true
                        } catch {
                            #expect(error == .missing("link with this code"))
                            return false
                        }
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(made == 1)
            #expect(try accounts.operators().count == 1)
        }

        @Test("the accounts work on after the server has cut all connections")
        func cutConnections() throws {
            let address = try emptyDatabase()
            let home = home(address)
            let accounts = try home.accounts()
            let container = try #require(ContainerID("iCloud.one"))
            try accounts.addContainer(container)
            let cut = """
                SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """
            let other = try PostgresConnection(to: address)
            try other.query(cut)
            #expect(try accounts.hasContainer(container))
            try other.query(cut)
            try accounts.setTitle("One", of: container)
            #expect(try accounts.title(of: container) == "One")
        }
    }

    /// A standby for a test: it receives the server's log, and stores it.
    private final class LogReceiver {
        static let name = "receiver"

        private let process = ChildProcess()
        private let folder: String

        init(of server: PostgresServer) throws {
            folder = "\(server.folder)/received"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            process.executableURL = URL(fileURLWithPath: PostgresServer.program("pg_receivewal"))
            process.arguments = [
                "-D", folder, "--synchronous", "--no-loop", "-d",
                "host=\(server.folder) user=postgres application_name=\(Self.name)",
            ]
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            try wait(server, for: "state = 'streaming'")
        }

        func waitUntilSynchronous(_ server: PostgresServer) throws { try wait(server, for: "sync_state = 'sync'") }

        private func wait(_ server: PostgresServer, for condition: String) throws {
            let end = ContinuousClock.now + .seconds(60)
            while try server.execute("SELECT count(*) FROM pg_stat_replication WHERE \(condition)") != "1" {
                try #require(ContinuousClock.now < end, "the receiver is not there")
            }
        }

        func stop() {
            process.terminate()
            process.waitUntilExit()
        }
    }
#endif
