#if Postgres
    import Foundation
    import Records
    import RelayCore
    import Synchronization

    /// The database of a cluster of relays, as one process uses it.
    ///
    /// Each new connection is checked: the server is a primary and new enough, the database has this version's tables, and
    /// it belongs to the cluster whose name the local folder has. The folder gets the name with the first connection, so
    /// that a relay that is pointed at another cluster's database later is refused.
    package final class PostgresCluster: Sendable {
        package let address: PostgresAddress
        /// The local folder of this relay or command, if it has one.
        let folder: String?
        /// Checks a new connection.
        let prepare: @Sendable (PostgresConnection) throws(PostgresError) -> Void
        /// For accounts, settings and checks.
        ///
        /// Its statements are short, so that a server that stands still is noticed soon.
        package let control: PostgresPool
        /// For records and assets.
        package let stores: PostgresDatabase
        /// All databases of the cluster, of which `stores` is the first.
        package let shards: PostgresShards
        /// The standbys that answer queries of public databases; `nil` if there are none.
        package let replicas: PostgresReplicas?

        /// The name of the file with the cluster's name, in the local folder.
        package static let fileName = "cluster"

        /// Connects when a connection is needed.
        ///
        /// - Parameters:
        ///   - address: the database.
        ///   - folder: the local folder of this relay or command; it need not exist.
        ///   - creates: whether to create the tables in an empty database.
        ///   - limits: how many connections the stores may have.
        ///   - replicas: one address for each standby that answers queries of public databases.
        package init(
            _ address: PostgresAddress,
            folder: String?,
            creates: Bool,
            limits: PostgresPool.Limits = .init(),
            replicas: [PostgresAddress] = []
        ) {
            self.address = address
            self.folder = folder
            let (membership, watch) = (ClusterMembership(folder), ServerWatch())
            let prepare = { @Sendable (connection: PostgresConnection) throws(PostgresError) -> PostgresLayout.Server in
                try membership.check(connection, creates: creates)
            }
            self.prepare = { @Sendable (connection: PostgresConnection) throws(PostgresError) -> Void in
                watch.note(try prepare(connection))
            }
            var (few, short) = (PostgresPool.Limits(), PostgresConnection.Timeouts())
            (few.reading, few.writing, few.wait) = (4, 2, .seconds(5))
            (short.statement, short.lock, short.answer) = (.seconds(10), .seconds(5), .seconds(15))
            control = PostgresPool(address, limits: few, timeouts: short, prepare: self.prepare)
            watch.add(control)
            stores = PostgresDatabase(address, limits: limits, watch: watch, prepare: prepare)
            self.replicas = replicas.isEmpty ? nil : PostgresReplicas(replicas, of: stores, limits: limits)
            shards = PostgresShards(control: stores) { (number, url) throws(PostgresError) in
                try PostgresDatabase(
                    address.ofShard(url),
                    limits: limits,
                    timeouts: .ofShard()
                ) { connection throws(PostgresError) in
                    try membership.check(connection, creates: false, shard: number)
                }
            }
        }

        /// Closes all connections.
        package func close() {
            control.close()
            replicas?.close()
            stores.pool.close()
            shards.close()
        }

        /// Returns the name of the cluster to which a local folder belongs; `nil` if no relay on a database has used it.
        package static func name(in folder: String) -> String? { ClusterMembership.name(in: folder) }
    }

    /// Which cluster a local folder belongs to.
    private final class ClusterMembership: Sendable {
        private let folder: String?
        private let name: Mutex<String?>

        init(_ folder: String?) {
            self.folder = folder
            name = Mutex(folder.flatMap(Self.name))
        }

        private static func path(in folder: String) -> String { "\(folder)/\(PostgresCluster.fileName)" }

        static func name(in folder: String) -> String? {
            let text = FileManager.default.contents(atPath: path(in: folder)).map {
                String(decoding: $0, as: UTF8.self)
            }
            let name = text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
            return name.isEmpty ? nil : name
        }

        /// Throws if this relay must not use the database.
        func check(
            _ connection: PostgresConnection,
            creates: Bool,
            shard: Int = 1
        ) throws(PostgresError) -> PostgresLayout.Server {
            let known = name.withLock { $0 }
            // A database that was emptied must not become a cluster without data, silently.
            let layout = PostgresLayout(cluster: known, creates: creates && known == nil, shard: shard)
            let server = try layout.prepare(connection)
            guard known == nil else { return server }
            let found = try PostgresLayout.cluster(of: connection)
            name.withLock { $0 = found }
            guard let folder, FileManager.default.fileExists(atPath: folder) else { return server }
            // Without the file the next start only finds out again.
            _ = FileManager.default.createFile(
                atPath: Self.path(in: folder),
                contents: Data("\(found)\n".utf8),
                attributes: [.posixPermissions: 0o600]
            )
            return server
        }
    }

    // MARK: Scheduled work

    /// The scheduled work of a cluster, which one of its relays does: the one that holds an advisory lock.
    ///
    /// The lock ends with its connection, so that another relay takes over when this one dies or is cut off.
    final class PostgresDuty: ScheduledDuty {
        /// The key of the lock.
        private static let lock: Int64 = 0x7A6F_6E65_6475_7479

        private let address: PostgresAddress
        private let held = Mutex<PostgresConnection?>(nil)

        init(_ address: PostgresAddress) { self.address = address }

        /// Asks the server each time: the lock may have ended with its connection, and the work would be done twice.
        func isOurs() -> Bool {
            held.withLock { held in
                if let connection = held, (try? connection.query("SELECT 1")) != nil { return true }
                held = nil
                var timeouts = PostgresConnection.Timeouts()
                (timeouts.statement, timeouts.answer) = (.seconds(5), .seconds(10))
                guard let connection = try? PostgresConnection(to: address, timeouts: timeouts),
                    (try? connection.query("SELECT pg_try_advisory_lock($1)", .int(Self.lock)))?.first?.bool(0) == true
                else { return false }
                held = connection
                return true
            }
        }

        func resign() { held.withLock { $0 = nil } }
    }
#endif
