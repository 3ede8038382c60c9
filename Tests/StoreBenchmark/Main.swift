#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import StoreKit
    import Synchronization

    /// Measures the store on PostgreSQL beside the same statements without it, and beside one transaction for each write.
    ///
    /// Starts a server of its own, which flushes every commit, unless the first argument is the URL of an empty database.
    /// With the argument `shards`, measures what several databases cost instead.
    /// With `import RECORDS OWNERS` as arguments, it measures an import instead, and the size of the tables.
    @main
    struct Main {
        static let seconds = 5
        static let lanes = 6
        static let ownersAtOnce = 64
        static let fields = Array(#"{"title":{"value":"\#(String(repeating: "x", count: 200))","type":"STRING"}}"#.utf8)

        static func main() async throws {
            if CommandLine.arguments.dropFirst().first == "shards" { return try await ShardFigures.measure() }
            if CommandLine.arguments.count == 4, CommandLine.arguments[1] == "import" {
                let server = try PostgresServer(settings: ["max_wal_size=4GB"])
                let counts = CommandLine.arguments.suffix(2).compactMap { Int($0) }
                let address = try PostgresAddress(try server.makeDatabase())
                return try await ImportRow(address: address, records: counts[0], owners: counts[1]).run()
            }
            let server = CommandLine.arguments.count > 1 ? nil : try PostgresServer(settings: ["max_wal_size=4GB"])
            let url = try server?.makeDatabase() ?? CommandLine.arguments[1]
            let address = try PostgresAddress(url)
            let owners = (0..<lanes * ownersAtOnce).map { UserID("_owner\($0)") }
            let store = try await makeStore(address, owners)
            for lanes in [1, 2] {
                let each = ownersAtOnce / lanes
                let few = try await bareWrites(address, lanes: lanes, ownersAtOnce: each)
                print("\(ownersAtOnce) owners, \(each) a transaction, the same statements: \(few) records/s")
            }
            let storedFew = try await storeWrites(store, Array(owners.prefix(ownersAtOnce)), writers: 1)
            print("\(ownersAtOnce) owners, the store: \(storedFew) records/s")
            let bare = try await bareWrites(address, lanes: lanes, ownersAtOnce: ownersAtOnce)
            let stored = try await storeWrites(store, owners, writers: 1)
            print("\(owners.count) owners, \(ownersAtOnce) a transaction, the same statements: \(bare) records/s")
            print("\(owners.count) owners, the store: \(stored) records/s, \(ratio(stored, bare)) of that")
            let naive = try await naiveWrites(address, writers: 64)
            let hot = try await storeWrites(store, [owners[0]], writers: 64)
            print("one hot zone, a transaction and a row lock for each write: \(naive) records/s")
            print("one hot zone, the store: \(hot) records/s, \(ratio(hot, naive)) times that")
            store.close()
        }

        static func ratio(_ a: Int, _ b: Int) -> String { String(format: "%.2f", Double(a) / Double(max(b, 1))) }

        static func makeStore(_ address: PostgresAddress, _ owners: [UserID]) async throws -> PostgresStore {
            guard let container = ContainerID("iCloud.org.example.bench") else { preconditionFailure("a good name") }
            let store = try PostgresStore(
                ContainerEnvironment(container, .development),
                in: PostgresDatabase(address, cluster: "bench"),
                draw: { UInt64.random(in: 1 ... .max) }
            )
            for owner in owners {
                _ = try await store.write(touching: owner) { writer throws(RelayError) in
                    try writer.makeZone(ZoneID("Notes", owner: owner), by: "phone")
                }
            }
            return store
        }

        /// Runs `write` again and again, in many tasks, and returns how many records they write a second.
        static func measure(
            _ count: Int,
            _ write: @escaping @Sendable (_ task: Int, _ turn: Int) async throws -> Int
        ) async throws -> Int {
            let end = ContinuousClock.now + .seconds(seconds)
            let written = try await withThrowingTaskGroup(of: Int.self) { group in
                for task in 0..<count {
                    group.addTask {
                        var (turn, written) = (0, 0)
                        while ContinuousClock.now < end {
                            written += try await write(task, turn)
                            turn += 1
                        }
                        return written
                    }
                }
                return try await group.reduce(0, +)
            }
            return written / seconds
        }

        static func storeWrites(_ store: PostgresStore, _ owners: [UserID], writers: Int) async throws -> Int {
            let run = UUID().uuidString
            return try await measure(owners.count * writers) { task, turn in
                let owner = owners[task % owners.count]
                let (zone, name) = (ZoneID("Notes", owner: owner), "\(run) \(task) \(turn)")
                try await store.write(touching: owner, prefetch: Prefetch([zone: [name]])) {
                    writer throws(RelayError) in
                    guard let zone = try writer.zone(zone) else { throw .zoneNotFound }
                    let before = try writer.records(named: [name], in: zone)
                    let record = StoredRecord(name: name, by: owner, writer.takeChangeNumber())
                    try writer.put([record], replacing: before, in: zone, by: "phone")
                }
                return 1
            }
        }

        // MARK: Without the store

        private struct Place: Sendable {
            var owner: Int64
            var zone: Int64
        }

        private static func places(_ connection: PostgresConnection) throws -> [Place] {
            try connection.query("SELECT owner, id FROM zone WHERE name = 'Notes' ORDER BY owner").map {
                Place(owner: $0.int(0), zone: $0.int(1))
            }
        }

        /// The statements of a commit of the store: the locks, numbers and look-ups, and then the rows.
        static func bareWrites(
            _ address: PostgresAddress,
            lanes: Int,
            ownersAtOnce: Int
        ) async throws -> Int {
            let run = UUID().uuidString
            let all = try places(PostgresConnection(to: address))
            return try await onThreads(lanes, address) { connection, lane, turn in
                let places = Array(all[lane * ownersAtOnce..<(lane + 1) * ownersAtOnce])
                let names = places.indices.map { "\(run) \(lane) \(turn) \($0)" }
                var opening = PostgresPipeline()
                let ids = PostgresValue.ints(places.map(\.owner))
                opening.add("SELECT pg_advisory_xact_lock_shared($1)", .int(1))
                opening.add("SELECT id, epoch, last_change FROM owner WHERE id = ANY($1) ORDER BY id FOR UPDATE", ids)
                opening.add("SELECT nextval('change') FROM generate_series(1, $1)", .int(Int64(places.count)))
                opening.add("SELECT schema_version FROM home")
                opening.add(
                    "SELECT owner, sum(record_bytes) FROM zone WHERE owner = ANY($1) AND NOT deleted GROUP BY owner",
                    ids
                )
                opening.add("SELECT * FROM zone WHERE owner = ANY($1) AND name = 'Notes' AND NOT deleted", ids)
                opening.add(
                    "SELECT r.* FROM unnest($1::bigint[], $2::text[]) w (zone, name) JOIN record r USING (zone, name)",
                    .ints(places.map(\.zone)),
                    .texts(names)
                )
                let numbers = try Array(connection.begin(opening))[2].map { $0.int(0) }
                var end = PostgresPipeline()
                end.add(
                    """
                    INSERT INTO record (zone, name, change, type, deleted, created_at, created_by, created_device,
                        modified_at, modified_by, modified_device, fields)
                    SELECT zone, name, change, 1, false, 1, 1, 1, 1, 1, 1, fields
                    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[]) n (zone, name, change, fields)
                    """,
                    .ints(places.map(\.zone)),
                    .texts(names),
                    .ints(numbers),
                    .blobs(places.map { _ in fields })
                )
                end.add(
                    """
                    UPDATE zone z SET last_change = n.change, record_bytes = record_bytes + 300
                    FROM unnest($1::bigint[], $2::bigint[]) n (id, change) WHERE z.id = n.id
                    """,
                    .ints(places.map(\.zone)),
                    .ints(numbers)
                )
                end.add(
                    """
                    UPDATE owner o SET last_change = n.change
                    FROM unnest($1::bigint[], $2::bigint[]) n (id, change) WHERE o.id = n.id
                    """,
                    ids,
                    .ints(numbers)
                )
                try connection.commit(end)
                return places.count
            }
        }

        /// A connection for each writer, which locks the zone's row, writes a record and commits.
        static func naiveWrites(_ address: PostgresAddress, writers: Int) async throws -> Int {
            let run = UUID().uuidString
            guard let zone = try places(PostgresConnection(to: address)).first?.zone else { return 0 }
            return try await onThreads(writers, address) { connection, writer, turn in
                var opening = PostgresPipeline()
                opening.add(
                    "UPDATE zone SET last_change = last_change + 1 WHERE id = $1 RETURNING id, last_change",
                    .int(zone)
                )
                guard let row = try connection.begin(opening).last?.first else { return 0 }
                var end = PostgresPipeline()
                end.add(
                    """
                    INSERT INTO record (zone, name, change, type, deleted, created_at, created_by, created_device,
                        modified_at, modified_by, modified_device, fields)
                    VALUES ($1, $2, $3, 1, false, 1, 1, 1, 1, 1, 1, $4)
                    """,
                    .int(row.int(0)),
                    .text("\(run) \(writer) \(turn)"),
                    .int(row.int(1)),
                    .bytes(fields)
                )
                try connection.commit(end)
                return 1
            }
        }

        /// Runs `write` again and again, on threads with a connection each.
        private static func onThreads(
            _ count: Int,
            _ address: PostgresAddress,
            _ write: @escaping @Sendable (PostgresConnection, _ thread: Int, _ turn: Int) throws -> Int
        ) async throws -> Int {
            let executor = BlockingExecutor(name: "bench", threads: count)
            let end = ContinuousClock.now + .seconds(seconds)
            let written = try await withThrowingTaskGroup(of: Int.self) { group in
                for thread in 0..<count {
                    group.addTask(executorPreference: executor) {
                        let connection = try PostgresConnection(to: address)
                        var (turn, written) = (0, 0)
                        while ContinuousClock.now < end {
                            written += try write(connection, thread, turn)
                            turn += 1
                        }
                        return written
                    }
                }
                return try await group.reduce(0, +)
            }
            return written / seconds
        }
    }

    extension StoredRecord {
        init(name: String, by user: UserID, _ change: UInt64) {
            let stamp = Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceFingerprint(bits: 1))
            self.init(name: name, type: "Note", change: change, created: stamp, modified: stamp, fields: Main.fields)
        }
    }
#else
    @main
    struct Main {
        static func main() { print("built without the trait Postgres; see CONTRIBUTING.md") }
    }
#endif
