#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import RelaySystem
    import Synchronization

    /// A database of its own on the server that all tests of this process share.
    final class PostgresTestHome: TestHome {
        /// A socket in a folder that does not exist.
        static var unusable: any RelayHome {
            guard let address = try? PostgresAddress("postgres://postgres@/none?host=/dev/null/zonecast") else {
                preconditionFailure("a good address")
            }
            return PostgresHome(PostgresCluster(address, folder: nil, creates: true))
        }

        private static let cost = ScryptCost(rounds: 16, blockSize: 8, parallelism: 1)

        /// Removes the folder when it is deinitialized, and returns the database.
        private final class Place: Sendable {
            let database: TestDatabase
            let others: [TestDatabase]
            let folder: String

            init(in parent: String, shards: Int) {
                database = TestDatabase.take()
                others = (2..<(max(shards, 1) + 1)).map { TestDatabase.take(shard: $0) }
                if !others.isEmpty { database.add(others) }
                folder = URL(fileURLWithPath: parent).appendingPathComponent("zonecast-\(UUID().uuidString)").path
            }

            deinit { try? FileManager.default.removeItem(atPath: folder) }

            func open() -> PostgresDatabase { database.open() }
        }

        private let place: Place
        private let base: PostgresHome

        init(_ lifetime: TestStore.Lifetime, in parent: String, shards: Int = 1) {
            place = Place(in: parent, shards: shards)
            base = PostgresHome(PostgresCluster(place.database.address, folder: nil, creates: true), cost: Self.cost)
        }

        deinit { base.cluster.close() }

        var folder: String { place.folder }

        // Everything that is opened keeps the place by one of its closures.

        func stores(_ options: TestStoreOptions) -> any ServedStores {
            var base = options.options
            let committed = base.events.committed
            base.events.committed = { [place] home, commit in withExtendedLifetime(place) { committed(home, commit) } }
            let cache = AssetCache(folder: "\(place.folder)/assets", draw: base.draw)
            let database = place.open()
            return PostgresStores(
                database,
                base,
                cache: cache,
                scheduler: options.scheduler,
                shards: Self.shards(database)
            )
        }

        /// On a busy machine a shard may take long without standing still.
        private static func shards(_ database: PostgresDatabase) -> PostgresShards {
            PostgresShards(control: database, patience: .seconds(60))
        }

        func renewEpochs(of stores: any ServedStores) throws { try (stores as? PostgresStores)?.database.renewEpochs() }

        func abandon(_ stores: any ServedStores) { (stores as? PostgresStores)?.abandon() }

        func store(_ options: TestStoreOptions) throws -> any Store {
            let base = options.options
            guard let container = ContainerID("iCloud.org.example.one") else { preconditionFailure("a good name") }
            let home = ContainerEnvironment(container, .development)
            guard place.others.isEmpty else {
                return try Self.shards(place.open()).store(
                    of: home,
                    base,
                    idempotencyRecordLimit: options.idempotencyRecordLimit,
                    onCommit: { [place] commit in withExtendedLifetime(place) { base.events.committed(home, commit) } },
                    onForeignOwner: options.foundForeignOwner,
                    scheduler: options.scheduler
                )
            }
            return try PostgresStore(
                home,
                in: place.open(),
                draw: base.draw,
                tuning: base.tuning,
                idempotencyRecordLimit: options.idempotencyRecordLimit,
                onCommit: { [place] commit in withExtendedLifetime(place) { base.events.committed(home, commit) } },
                onCommitTime: base.events.commitTook,
                onForeignOwner: options.foundForeignOwner,
                scheduler: options.scheduler
            )
        }

        func accounts(
            time: TimeSource,
            random: RandomSource,
            onLostWrite: (@Sendable () -> Void)?
        ) throws(DirectoryError) -> any AccountDirectory {
            let database = place.open()
            return try PostgresAccounts(
                database.pool,
                time: time,
                random: RandomSource { [place] count in
                    withExtendedLifetime((place, database)) { random.bytes(count) }
                },
                cost: Self.cost
            )
        }

        func schemas(of container: ContainerID) -> any ContainerSchemas { base.schemas(of: container) }

        var upkeep: any StorageUpkeep { base.upkeep }

        var backups: any Backups { base.backups }

        func alertOverrides() throws(BackupFailure) -> AlertOverrides { try base.alertOverrides() }

        func setAlertOverrides(_ overrides: AlertOverrides) throws(BackupFailure) {
            try base.setAlertOverrides(overrides)
        }
    }

    /// An empty database with all tables, returned for other tests when it is deinitialized.
    ///
    /// To empty one costs a fraction of what it costs to make one.
    private final class TestDatabase: Sendable {
        private static let free = Mutex<[String]>([])
        private static let cluster = "test"

        private let url: String
        let address: PostgresAddress

        private init(_ url: String) throws(PostgresError) {
            self.url = url
            address = try PostgresAddress(url)
        }

        deinit { Self.free.withLock { $0.append(url) } }

        /// Makes others the shards 2 and following.
        func add(_ others: [TestDatabase]) {
            do {
                let connection = try PostgresConnection(to: address)
                try connection.query("INSERT INTO shard (number) VALUES (1)")
                for (place, other) in others.enumerated() {
                    try connection.query(
                        "INSERT INTO shard (number, url) VALUES ($1, $2)",
                        .int(Int64(place + 2)),
                        .text(other.url)
                    )
                }
            } catch {
                preconditionFailure("no shards for a test: \(error)")
            }
        }

        func open() -> PostgresDatabase {
            // Tests may hold a write open for as long as they like.
            var timeouts = PostgresConnection.Timeouts()
            timeouts.idle = .seconds(600)
            return PostgresDatabase(address, cluster: Self.cluster, timeouts: timeouts)
        }

        static func take(shard: Int = 1) -> TestDatabase {
            // A test of a store on PostgreSQL cannot say anything without a server.
            do {
                let free = free.withLock { $0.popLast() }
                let url = try free ?? PostgresServer.shared.get().makeDatabase(from: template.get())
                let database = try TestDatabase(url)
                try empty(database.address, shard: shard)
                return database
            } catch {
                preconditionFailure("no database for a test: \(error)")
            }
        }

        /// The name of a database that has the tables, and no connections.
        private static let template: Result<String, any Error> = Result {
            let server = try PostgresServer.shared.get()
            let name = "zonecast_template"
            try server.execute("CREATE DATABASE \(name) TEMPLATE template0")
            let connection = try PostgresConnection(to: PostgresAddress(server.url(of: name)))
            try PostgresLayout(cluster: cluster).prepare(connection)
            return name
        }

        private static func empty(_ address: PostgresAddress, shard: Int) throws {
            let connection = try PostgresConnection(to: address)
            let tables = try connection.query(
                """
                SELECT relname::text FROM pg_class
                WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'zonecast_layout'
                """
            )
            var deletion = PostgresPipeline()
            // In any order: no row is checked against those that it refers to.
            deletion.add("SET session_replication_role = replica")
            for table in tables { deletion.add("DELETE FROM \(table.text(0))") }
            deletion.add("UPDATE zonecast_layout SET shard = $1", .int(Int64(shard)))
            try connection.run(deletion)
        }
    }
#endif
