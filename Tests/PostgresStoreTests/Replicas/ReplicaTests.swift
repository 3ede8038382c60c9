#if Postgres
    import ChildProcesses
    import Foundation
    import Records
    import RelayCore
    import StoreKit
    import Synchronization
    import Testing
    import Wire

    @testable import PostgresStore

    /// Queries of the public database on a hot standby.
    @Suite(needsPostgres, .serialized)
    struct ReplicaTests {
        private static let publicZone = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)
        private static let notes = ZoneID("Notes", owner: ShardedCluster.alice)
        /// For tests in which the standby falls behind and is to answer all the same.
        private static let everOld = Duration.seconds(3_600)

        /// A primary and its standby for all tests of this suite, which run one after the other.
        private static let servers = Result { () throws -> (primary: PostgresServer, standby: PostgresServer) in
            let primary = try PostgresServer()
            // A query ends at once if it is in the way of what the primary has done.
            let settings = ["fsync=off", "max_standby_streaming_delay=0", "hot_standby_feedback=off"]
            return (primary, try PostgresServer(following: primary, settings: settings))
        }

        private let primary: PostgresServer
        private let standby: PostgresServer
        private let url: String
        private let database: PostgresDatabase

        init() throws {
            (primary, standby) = try Self.servers.get()
            url = try primary.makeDatabase()
            database = PostgresDatabase(try PostgresAddress(url), cluster: "test")
        }

        private static func url(_ url: String, on server: PostgresServer) -> String {
            server.url(of: url.split(separator: "?")[0].split(separator: "/").last.map(String.init) ?? "")
        }

        private func replicas(bound: Duration = Self.everOld, at url: String? = nil) throws -> PostgresReplicas {
            PostgresReplicas(
                try database.pool.address.ofReplicas(url ?? Self.url(self.url, on: standby)),
                of: database,
                bound: bound,
                interval: .milliseconds(20)
            )
        }

        private func store(_ replicas: PostgresReplicas) throws -> PostgresStore {
            try PostgresStore(
                .forTests,
                in: database,
                draw: { UInt64.random(in: 1 ... .max) },
                replicas: replicas
            )
        }

        /// Stops or continues the replay of the standby; waits until it stands still.
        private func setPaused(_ isPaused: Bool) throws {
            try standby.execute(isPaused ? "SELECT pg_wal_replay_pause()" : "SELECT pg_wal_replay_resume()")
            while isPaused, try standby.execute("SELECT pg_get_wal_replay_pause_state()") != "paused" {}
        }

        private static func define(_ store: PostgresStore) async throws {
            try await store.write(touching: ShardedCluster.alice) { writer throws(RelayError) in
                try writer.define(["Note": RecordType(fields: ["n": .init(.scalar(.int64))])])
            }
        }

        private static func save(_ numbers: Range<Int>, in store: PostgresStore) async throws {
            for number in numbers {
                let fields = FieldsJSON.encode([.init(name: "n", value: .int64(Int64(number)))])
                try await store.save(["r\(number)"], in: publicZone, fields: fields)
            }
        }

        /// Returns the names of one page.
        private static func page(
            of store: PostgresStore,
            after position: Query.Position? = nil,
            limit: Int = 100
        ) async throws(RelayError) -> (names: [String], next: Query.Position?) {
            var query = Query(recordType: "Note")
            query.sorts = [Query.Sort(.own("n"), ascending: true)]
            let wanted = query
            return try await store.publicQuery { reader throws(RelayError) in
                guard let zone = try reader.zone(publicZone) else { throw .zoneNotFound }
                let page = try reader.page(of: wanted, in: [zone], after: position, limit: limit, bytes: 1 << 20)
                return (page.records.map(\.record.name), page.next)
            }
        }

        /// Queries until a replica has answered, which lags a little; returns the names of its answer.
        private static func pageOfReplica(
            _ replicas: PostgresReplicas,
            of store: PostgresStore,
            until isExpected: ([String]) -> Bool = { _ in true }
        ) async throws -> [String] {
            while true {
                let before = replicas.answered
                let names = try await page(of: store).names
                if replicas.answered > before, isExpected(names) { return names }
                await Task.yield()
            }
        }

        // MARK: Which reads

        @Test("queries of the public database are answered by a replica, and nothing else is")
        func publicQueries() async throws {
            let replicas = try replicas()
            defer { replicas.close() }
            let store = try store(replicas)
            try await Self.define(store)
            try await Self.save(0..<5, in: store)
            let all = (0..<5).map { "r\($0)" }
            #expect(try await Self.pageOfReplica(replicas, of: store) { $0 == all } == all)
            let answered = replicas.answered
            _ = try await store.query { reader throws(RelayError) in try reader.zone(Self.publicZone) }
            _ = try store.read { reader throws(RelayError) in try reader.zone(Self.publicZone) }
            _ = store.currentSchema
            #expect(replicas.answered == answered)
            #expect(replicas.states.map(\.isUsable) == [true])
        }

        @Test("a feed and its token miss nothing that a replica has not replayed")
        func feeds() async throws {
            #expect(try await Self.feedIsWhole())
        }

        @Test("a token read from a replica is found")
        func feedFromReplica() async {
            await #expect(processExitsWith: .success) {
                PostgresFault.plant(.feedFromReplica)
                let holds = (try? await Self.feedIsWhole()) ?? false
                // The servers end with the process, which a call of exit does not wait for.
                exit(holds ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }

        private static func feedIsWhole() async throws -> Bool {
            let test = try ReplicaTests()
            let replicas = try test.replicas()
            defer { replicas.close() }
            let store = try test.store(replicas)
            _ = try await store.write(touching: notes.owner) { writer throws(RelayError) in
                try writer.makeZone(notes, by: "phone")
            }
            try await store.save(["a"], in: notes)
            while replicas.next() == nil { await Task.yield() }
            try test.setPaused(true)
            defer { try? test.setPaused(false) }
            try await store.save(["b"], in: notes)
            let page = try store.zonePage(notes)
            try await store.save(["c"], in: notes)
            let next = try store.zonePage(notes, since: page.token).names
            return Set(page.names) == ["a", "b"] && next == ["c"]
        }

        // MARK: Age

        @Test("a replica that lags leaves its queries to the primary until it has caught up")
        func lag() async throws {
            let replicas = try replicas(bound: .seconds(2))
            defer { replicas.close() }
            let store = try store(replicas)
            try await Self.define(store)
            try await Self.save(0..<2, in: store)
            _ = try await Self.pageOfReplica(replicas, of: store) { $0 == ["r0", "r1"] }
            try setPaused(true)
            try await Self.save(2..<3, in: store)
            while replicas.next() != nil { await Task.yield() }
            #expect(try await Self.page(of: store).names == ["r0", "r1", "r2"])
            #expect(replicas.states.map(\.isUsable) == [false])
            try setPaused(false)
            _ = try await Self.pageOfReplica(replicas, of: store) { $0 == ["r0", "r1", "r2"] }
        }

        @Test("a query goes on on the primary, without a record missing or twice, when its replica is gone")
        func pages() async throws {
            let replicas = try replicas()
            defer { replicas.close() }
            let store = try store(replicas)
            try await Self.define(store)
            try await Self.save(0..<10, in: store)
            let all = (0..<10).map { "r\($0)" }
            _ = try await Self.pageOfReplica(replicas, of: store) { $0 == all }
            try setPaused(true)
            defer { try? setPaused(false) }
            try await Self.save(10..<12, in: store)
            let before = replicas.answered
            let first = try await Self.page(of: store, limit: 4)
            let second = try await Self.page(of: store, after: first.next, limit: 4)
            #expect(replicas.answered == before + 2)
            replicas.close()
            let rest = try await Self.page(of: store, after: second.next, limit: 100)
            #expect(first.names + second.names + rest.names == all + ["r10", "r11"])
        }

        // MARK: Failures

        @Test("a query that the standby ends because of what the primary has removed runs again on the primary")
        func recoveryConflict() async throws {
            let replicas = try replicas()
            defer { replicas.close() }
            let store = try store(replicas)
            try await Self.define(store)
            try await Self.save(0..<50, in: store)
            _ = try await Self.pageOfReplica(replicas, of: store) { $0.count == 50 }
            let (primary, name) = (primary, Self.url(url, on: primary))
            let attempts = Mutex(0)
            let count = try await store.publicQuery { reader throws(RelayError) -> Int in
                let attempt = attempts.withLock { attempts in
                    attempts += 1
                    return attempts
                }
                func count() throws(RelayError) -> Int {
                    guard let zone = try reader.zone(Self.publicZone) else { throw .zoneNotFound }
                    var count = 0
                    try reader.visitRecords(
                        in: zone,
                        changes: 1...UInt64(Int64.max),
                        states: .living,
                        backwards: false,
                        limit: 1_000,
                        rowsExceptFor: nil
                    ) { _, _ in
                        count += 1
                        return true
                    }
                    return count
                }
                guard attempt == 1 else { return try count() }
                _ = try count()
                let database = name.split(separator: "?")[0].split(separator: "/").last.map(String.init) ?? ""
                _ = try? primary.execute("DELETE FROM record WHERE name <> 'r1'", in: database)
                _ = try? primary.execute("VACUUM record", in: database)
                while true { _ = try count() }
            }
            #expect(count == 1 && attempts.withLock { $0 } == 2)
        }

        @Test("a server that is no copy of the database answers nothing, and the doctor names it")
        func foreignReplica() async throws {
            let foreign = try emptyDatabase()
            try PostgresLayout(cluster: "test").prepare(PostgresConnection(to: foreign))
            let wrong = PostgresReplicas([foreign], of: database, interval: .milliseconds(20))
            let absent = "postgres://postgres@/none?host=/nowhere"
            let places =
                [foreign] + (try database.pool.address.ofReplicas(absent))
                + (try database.pool.address.ofReplicas(Self.url(url, on: standby)))
            defer { wrong.close() }
            let store = try store(wrong)
            try await Self.define(store)
            try await Self.save(0..<1, in: store)
            for _ in 0..<100 {
                #expect(try await Self.page(of: store).names == ["r0"])
            }
            #expect(wrong.answered == 0)

            let cluster = PostgresCluster(
                try PostgresAddress(url),
                folder: nil,
                creates: false,
                replicas: places
            )
            defer { cluster.close() }
            let findings = PostgresUpkeep(cluster: cluster).checks().filter { $0.check.hasPrefix("replica") }
            #expect(findings.map(\.grade) == [.problem, .problem, .good], "\(findings)")
            try setPaused(true)
            defer { try? setPaused(false) }
            try await Self.save(1..<2, in: store)
            let late = PostgresUpkeep(cluster: cluster).checks().last { $0.check.hasPrefix("replica") }
            #expect(late?.grade == .problem && late?.found.contains("behind the primary") == true)
        }

        @Test("a replica's address has one server, and what it leaves out from the database's")
        func addresses() throws {
            let store = try PostgresAddress("postgres://ann:secret@db1,db2/relay")
            let replicas = try store.ofReplicas("postgres://ann@db3,db4:6000/relay")
            #expect(replicas.map(\.servers) == [["db3"], ["db4:6000"]])
            for replica in replicas {
                #expect(replica.parameters["password"] == "secret")
                #expect(replica.parameters["target_session_attrs"] == "standby")
                #expect(!"\(replica)".contains("secret"))
            }
            let ports = try store.ofReplicas("postgres://ann@db3,db4/relay?port=6001")
            #expect(ports.map(\.servers) == [["db3:6001"], ["db4:6001"]])
        }
    }

    extension PostgresReplicas {
        fileprivate var answered: Int { states.reduce(0) { $0 + $1.answered } }
    }
#endif
