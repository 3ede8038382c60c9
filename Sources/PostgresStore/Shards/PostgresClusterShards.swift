#if Postgres
    import Foundation
    package import Records
    package import RelayCore
    import StoreKit

    extension PostgresShards {
        /// How old a measurement may be before the next one.
        static let measurementAge: Int64 = 60

        /// Measures what the shards contain and how much they write, for the placement of owners.
        ///
        /// A shard that cannot be reached keeps what was measured last.
        package func measure() throws(PostgresError) {
            for shard in try refresh() {
                let row = try? use(shard) { () throws(PostgresError) in
                    try shard.database.pool.use(.brief) { connection throws(PostgresError) in
                        try connection.query(
                            """
                            SELECT pg_database_size(current_database()),
                            (SELECT count(*) FROM owner o JOIN person p ON p.id = o.id
                                WHERE o.state < 2 AND p.name <> $1),
                            (SELECT last_value FROM change)
                            """,
                            .text(Zone.publicOwner.recordName)
                        ).first
                    }
                }
                guard let row = row.flatMap(\.self) else { continue }
                _ = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                    try connection.query(
                        """
                        UPDATE shard SET bytes = $2, owners = $3, changes = $4, measured = clock_timestamp(),
                            change_rate = coalesce(greatest($4 - changes, 0)
                                / greatest(extract(epoch FROM clock_timestamp() - measured)::double precision, 1), 0)
                        WHERE number = $1
                        """,
                        .int(Int64(shard.number)),
                        .int(row.int(0)),
                        .int(row.int(1)),
                        .int(row.int(2))
                    )
                }
            }
        }
    }

    /// The databases of a cluster, as commands see and change them.
    package struct PostgresClusterShards: ClusterShards {
        private let shards: PostgresShards

        package init(_ shards: PostgresShards) { self.shards = shards }

        // MARK: Shards

        package func all() throws(DirectoryError) -> [ShardState] {
            try PostgresAccounts.wrapping { () throws(PostgresError) in
                try shards.measure()
                try shards.readLoads()
                let all = shards.all
                return all.map { shards.state(of: $0) }
            }
        }

        package func add(_ url: String, room: Int64?) throws(DirectoryError) -> ShardState {
            try PostgresAccounts.wrapping { () throws(PostgresError) in
                let database = shards.control.database
                let address = try database.pool.address.ofShard(url)
                let connection = try database.pool.take(.writing)
                defer { database.pool.put(back: connection, .writing) }
                var lock = PostgresPipeline()
                // No container begins meanwhile: it would not know how many shards there are.
                lock.add("SELECT pg_advisory_xact_lock($1)", .int(HomeRow.insertionLock))
                _ = try connection.begin(lock)
                let known = try connection.query("SELECT coalesce(max(number), 1) FROM shard").first?.int(0) ?? 1
                let same = try connection.query("SELECT number FROM shard WHERE url = $1", .text(url)).first
                let number = same?.int(0) ?? known + 1
                let cluster = try PostgresLayout.cluster(of: connection)
                guard number < PostgresLayout.shardsInNumbers else {
                    throw PostgresError(.failed, "There are \(known) shards, and no numbers for more.")
                }
                // An empty database gets its tables; one that an interrupted command has prepared is accepted.
                let added = try PostgresConnection(to: address)
                try PostgresLayout(cluster: cluster, shard: Int(number)).prepare(added)
                // Those that shard 1 has given without a remainder are in use.
                let last = try Self.step(connection, after: 0)
                _ = try added.begin(PostgresPipeline())
                try Self.step(added, after: last)
                try added.commit(PostgresPipeline())
                var insertion = PostgresPipeline()
                insertion.add("INSERT INTO shard (number) VALUES (1) ON CONFLICT DO NOTHING")
                insertion.add(
                    "INSERT INTO shard (number, url, room) VALUES ($1, $2, $3) ON CONFLICT (number) DO UPDATE SET room = $3",
                    .int(number),
                    .text(url),
                    .int(room)
                )
                // Every read and write of every relay sees it, and looks for the new shard.
                insertion.add("UPDATE home SET shards = $1", .int(max(known, number)))
                try connection.commit(insertion)
                try shards.refresh()
                try shards.readLoads()
                return shards.state(of: try shards.shard(Int(number)))
            }
        }

        /// Lets a shard give numbers with its own remainder, greater than its own ones and `last`; returns its last one.
        @discardableResult
        private static func step(_ connection: PostgresConnection, after last: Int64) throws(PostgresError) -> Int64 {
            var reading = PostgresPipeline()
            // No write takes a number meanwhile.
            reading.add("LOCK TABLE owner IN EXCLUSIVE MODE")
            reading.add(
                """
                SELECT \(PostgresLayout.ownNumber), s.seqincrement FROM (SELECT \(PostgresLayout.lastNumber) AS n) g, pg_sequence s
                WHERE s.seqrelid = 'change'::regclass
                """,
                .int(last)
            )
            guard let row = try connection.run(reading).last?.first else { throw .missing("the change numbers") }
            if row.int(1) != PostgresLayout.shardsInNumbers {
                try connection.query(
                    "ALTER SEQUENCE change INCREMENT BY \(PostgresLayout.shardsInNumbers) RESTART WITH \(row.int(0))"
                )
            }
            return row.int(0)
        }

        package func set(_ number: Int, takesOwners: Bool?, room: Int64?) throws(DirectoryError) {
            let changed = try PostgresAccounts.wrapping { () throws(PostgresError) in
                try shards.control.database.pool.use(.writing) { connection throws(PostgresError) in
                    try connection.query(
                        """
                        UPDATE shard SET takes_owners = coalesce($2, takes_owners), room = coalesce($3, room)
                        WHERE number = $1
                        """,
                        .int(Int64(number)),
                        .bool(takesOwners),
                        .int(room)
                    ).changed
                }
            }
            guard changed > 0 else { throw .missing("shard \(number)") }
        }

        package func set(_ number: Int, url: String) throws(DirectoryError) {
            guard number != 1 else {
                throw .invalid("Shard 1 is the database of --store: name its new address there, for each relay.")
            }
            let changed = try PostgresAccounts.wrapping { () throws(PostgresError) in
                let control = shards.control.database.pool
                let (isKnown, cluster) = try control.use(.brief) { connection throws(PostgresError) in
                    let rows = try connection.query("SELECT 1 FROM shard WHERE number = $1", .int(Int64(number)))
                    return (!rows.isEmpty, try PostgresLayout.cluster(of: connection))
                }
                guard isKnown else { return 0 }
                // Throws if it is empty, another shard, or of another cluster.
                let layout = PostgresLayout(cluster: cluster, creates: false, shard: number)
                try layout.prepare(PostgresConnection(to: control.address.ofShard(url)))
                let changed = try control.use(.writing) { connection throws(PostgresError) in
                    try connection.query(
                        "UPDATE shard SET url = $2 WHERE number = $1 AND url IS NOT NULL",
                        .int(Int64(number)),
                        .text(url)
                    ).changed
                }
                try shards.refresh()
                return changed
            }
            guard changed > 0 else { throw .missing("shard \(number)") }
        }

        // MARK: Moves

        private static func home(_ container: String, _ environment: String) -> ContainerEnvironment? {
            guard let container = ContainerID(container), let environment = Environment(rawValue: environment) else {
                return nil
            }
            return ContainerEnvironment(container, environment)
        }

        package func unfinishedMoves() throws(DirectoryError) -> [OwnerMove] {
            try PostgresAccounts.wrapping { () throws(PostgresError) in
                try shards.control.database.pool.use(.reading) { connection throws(PostgresError) in
                    let rows = try connection.query(
                        """
                        SELECT h.container, h.environment, m.name, m.source, m.target FROM owner_move m
                        JOIN home h ON h.id = m.home ORDER BY m.began
                        """
                    )
                    return rows.compactMap { row in
                        Self.home(row.text(0), row.text(1)).map {
                            OwnerMove(UserID(row.text(2)), in: $0, from: Int(row.int(3)), to: Int(row.int(4)))
                        }
                    }
                }
            }
        }

        /// How many owners of each shard a plan looks at: the largest ones.
        private static let candidates: Int64 = 1_000

        package func plan(atMost count: Int) throws(DirectoryError) -> [OwnerMove] {
            try PostgresAccounts.wrapping { () throws(PostgresError) -> [OwnerMove] in
                try shards.measure()
                var homes: [ShardPlacement.Owner: ContainerEnvironment] = [:]
                for shard in shards.all where shard.failure == nil { try readLargest(of: shard, into: &homes) }
                let moves = shards.placement(by: try shards.readLoads()).moves(of: Array(homes.keys), atMost: count)
                return moves.compactMap { move in
                    homes[move.owner].map {
                        OwnerMove(move.owner.user, in: $0, from: move.owner.shard, to: move.to, bytes: move.owner.bytes)
                    }
                }
            }
        }

        private func readLargest(
            of shard: PostgresShards.Shard,
            into homes: inout [ShardPlacement.Owner: ContainerEnvironment]
        ) throws(PostgresError) {
            let rows = try shard.database.pool.use(.reading) { connection throws(PostgresError) in
                try connection.query(
                    """
                    SELECT h.container, h.environment, p.name, sum(z.record_bytes)::bigint,
                        extract(epoch FROM now() - o.arrived)::bigint
                    FROM zone z JOIN owner o ON o.id = z.owner AND o.state = 0 JOIN person p ON p.id = o.id
                    JOIN home h ON h.id = z.home WHERE NOT z.deleted AND p.name <> $1
                    GROUP BY h.id, h.container, h.environment, p.name, o.arrived ORDER BY 4 DESC LIMIT $2
                    """,
                    .text(Zone.publicOwner.recordName),
                    .int(Self.candidates)
                )
            }
            for row in rows {
                guard let home = Self.home(row.text(0), row.text(1)) else { continue }
                let owner = ShardPlacement.Owner(
                    UserID(row.text(2)),
                    on: shard.number,
                    bytes: row.int(3),
                    sinceMove: row.optionalInt(4).map { .seconds($0) }
                )
                homes[owner] = home
            }
        }

        package func move(
            _ user: UserID,
            in home: ContainerEnvironment,
            to target: Int,
            step: (OwnerMove.Progress) -> Void
        ) throws(DirectoryError) -> OwnerMove.Summary {
            do {
                return try withoutActuallyEscaping(step) { step in
                    try OwnerMover(user, in: home, to: target, of: shards, step: step).run()
                }
            } catch let error as PostgresError {
                throw DirectoryError(error)
            } catch let error as MoveFailure {
                throw .invalid(error.description)
            } catch {
                throw .unavailable("\(error)")
            }
        }
    }
#endif
