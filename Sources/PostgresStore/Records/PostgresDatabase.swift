#if Postgres
    import Foundation
    package import Records
    import RelayCore
    import Synchronization

    /// A database of the cluster, with the connections of this process to it.
    ///
    /// One for all stores and the accounts of a process.
    package final class PostgresDatabase: Sendable {
        package let pool: PostgresPool
        private let watch: ServerWatch

        /// Opens no connection yet; the first one creates the tables that are missing.
        ///
        /// - Parameters:
        ///   - address: where the database is.
        ///   - cluster: the name of the cluster to which the database must belong.
        ///   - shard: which of the cluster's databases it must be.
        ///   - limits: how many connections there may be.
        ///   - timeouts: those of each connection.
        package convenience init(
            _ address: PostgresAddress,
            cluster: String,
            shard: Int = 1,
            limits: PostgresPool.Limits = .init(),
            timeouts: PostgresConnection.Timeouts = .init()
        ) {
            let layout = PostgresLayout(cluster: cluster, shard: shard)
            self.init(address, limits: limits, timeouts: timeouts) { connection throws(PostgresError) in
                try layout.prepare(connection)
            }
        }

        /// Does the same with another check of new connections, which returns the server.
        init(
            _ address: PostgresAddress,
            limits: PostgresPool.Limits = .init(),
            timeouts: PostgresConnection.Timeouts = .init(),
            watch: ServerWatch = ServerWatch(),
            prepare: @escaping @Sendable (PostgresConnection) throws(PostgresError) -> PostgresLayout.Server
        ) {
            self.watch = watch
            pool = PostgresPool(address, limits: limits, timeouts: timeouts) { connection throws(PostgresError) in
                watch.note(try prepare(connection))
            }
            watch.add(pool)
        }

        deinit { pool.close() }

        /// Expires every change token that was issued so far.
        package func renewEpochs() throws(PostgresError) {
            try pool.use(.brief) { connection throws(PostgresError) in
                try PostgresLayout.renewEpochs(connection)
            }
            watch.renew()
        }

        /// A number that changes when the process has reached another server or another timeline, so that epochs may have
        /// changed.
        var generation: Int { watch.generation }
    }

    /// Which server the connections of this process have reached last.
    final class ServerWatch: Sendable {
        private struct WeakPool: Sendable { weak var pool: PostgresPool? }

        private struct State {
            var server: PostgresLayout.Server?
            var generation = 0
            var pools: [WeakPool] = []
        }

        private let state = Mutex(State())

        /// A number that changes with the server and its timeline.
        var generation: Int { state.withLock { $0.generation } }

        /// Adds connections that are given up when another server is the primary.
        func add(_ pool: PostgresPool) { state.withLock { $0.pools.append(WeakPool(pool: pool)) } }

        func renew() { state.withLock { $0.generation += 1 } }

        /// Notes the server of a new connection, which is the primary now.
        func note(_ server: PostgresLayout.Server) {
            let pools: [PostgresPool] = state.withLock { state in
                guard state.server != server else { return [] }
                defer { (state.server, state.generation) = (server, state.generation + 1) }
                return state.server == nil ? [] : state.pools.compactMap(\.pool)
            }
            for pool in pools { pool.cutAll() }
        }
    }

    extension HomeRow {
        private static let select = """
            SELECT h.id, p.id, z.id FROM home h
            JOIN person p ON p.home = h.id AND p.name = '\(Zone.publicOwner.recordName)'
            JOIN zone z ON z.owner = p.id AND z.name = '\(ZoneID.defaultName)' AND NOT z.deleted
            WHERE h.container = $1 AND h.environment = $2
            """

        private init(_ row: PostgresRow) {
            self.init(number: row.int(0), publicOwner: row.int(1), publicZone: row.int(2))
        }

        /// Returns the row of a container in one environment; `nil` if it has not been used.
        package static func find(
            _ home: ContainerEnvironment,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> HomeRow? {
            let rows = try connection.query(
                select,
                .text(home.container.name),
                .text(home.environment.rawValue)
            )
            return rows.first.map { HomeRow($0) }
        }

        /// Returns the row, inserting it if it is missing; `connection` must be one for writing, without a transaction.
        ///
        /// `draw` returns 64 random bits.
        ///
        /// `epoch` is the one with which new owners begin; `nil` draws one.
        package static func ensure(
            _ home: ContainerEnvironment,
            epoch: UInt64? = nil,
            draw: () -> UInt64,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> HomeRow {
            if let found = try find(home, connection) { return found }
            var insertion = PostgresPipeline()
            // Another process that inserts the same row waits, and finds it then.
            insertion.add("SELECT pg_advisory_xact_lock($1)", .int(insertionLock))
            insertion.add(
                """
                WITH h AS (
                    INSERT INTO home (container, environment, epoch, shards)
                    VALUES ($1, $2, $3, coalesce((SELECT max(number) FROM shard), 1))
                    ON CONFLICT DO NOTHING RETURNING id
                ), p AS (
                    INSERT INTO person (home, name) SELECT id, '\(Zone.publicOwner.recordName)' FROM h RETURNING id
                ), o AS (
                    INSERT INTO owner (id, epoch) SELECT id, $3 FROM p
                )
                INSERT INTO zone (home, owner, name, identity, last_change)
                SELECT h.id, p.id, '\(ZoneID.defaultName)', $4, 0 FROM h CROSS JOIN p
                """,
                .text(home.container.name),
                .text(home.environment.rawValue),
                .unsigned(epoch ?? draw()),
                .unsigned(draw())
            )
            try connection.run(insertion)
            guard let found = try find(home, connection) else { throw .missing("the container") }
            return found
        }

        /// Held while a row is inserted, and while a shard is added.
        static let insertionLock: Int64 = 0x7A6F_6E65_686F_6D65

        /// The key of the advisory lock of the schema and the indexes.
        ///
        /// Every write holds it shared. Who changes the schema, or does work that must meet no write of any owner, holds it
        /// exclusively, and takes it at the start of a transaction, before any other lock.
        package var schemaLock: Int64 { 0x5A43_0000_0000_0000 | number }
    }
#endif
