#if Postgres
    import Foundation
    package import Records
    package import RelayCore
    package import StoreKit

    /// The database as the target of an import, or as the source of an export.
    ///
    /// While an import runs, no relay may use the database; `setting` says so until it is complete. After an export, none
    /// may use it any more.
    package final class PostgresMove {
        private static let importing = "import"
        private static let moved = "moved"
        /// The key of the advisory lock of the connection that moves.
        private static let lock: Int64 = 0x7A6F_6E65_6D6F_7665

        private let cluster: PostgresCluster
        private let draw: @Sendable () -> UInt64
        private let connection: PostgresConnection
        /// The connections whose transactions refuse writes, that of shard 1 first.
        private var holders: [PostgresConnection] = []
        /// Connections to the other databases over which the owners are spread.
        private var others: [(number: Int, address: PostgresAddress, connection: PostgresConnection)] = []
        private var homes: [ContainerEnvironment: HomeRow] = [:]

        /// Connects, and makes sure that nothing else moves and no relay runs on the database.
        ///
        /// - Parameters:
        ///   - cluster: the database.
        ///   - hasRelays: whether relays may run on it.
        ///   - draw: returns 64 random bits.
        /// - Throws: `busy` if something else moves or a relay runs.
        package init(
            _ cluster: PostgresCluster,
            hasRelays: Bool,
            draw: @escaping @Sendable () -> UInt64
        ) throws(PostgresError) {
            self.cluster = cluster
            self.draw = draw
            var timeouts = PostgresConnection.Timeouts()
            // One statement may copy or compare a whole table.
            (timeouts.statement, timeouts.answer) = (.zero, .seconds(24 * 3_600))
            connection = try PostgresConnection(to: cluster.address, timeouts: timeouts)
            try cluster.prepare(connection)
            guard try connection.query("SELECT pg_try_advisory_lock($1)", .int(Self.lock)).first?.bool(0) == true else {
                throw PostgresError(.busy, "Another import or export uses \(cluster.address).")
            }
            guard !hasRelays else { return }
            let relay = try connection.query(
                "SELECT name FROM node WHERE seen > clock_timestamp() - interval '30 seconds' LIMIT 1"
            ).first
            if let relay {
                throw PostgresError(
                    .busy,
                    "The relay \(relay.text(0)) runs on \(cluster.address). Stop all relays there; if it has just stopped, wait 30 seconds."
                )
            }
        }

        private static func setting(
            _ name: String,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> String? {
            let row = try connection.query("SELECT value FROM setting WHERE name = $1", .text(name)).first
            return row.map { String(decoding: $0.bytes(0), as: UTF8.self) }
        }

        /// Throws if the data is not complete, or has moved away.
        static func requireComplete(_ connection: PostgresConnection) throws(PostgresError) {
            if let source = try setting(importing, connection) {
                throw PostgresError(
                    .notWritable,
                    "The database has only a part of the data so far: \(source). Wait for zonecast cluster import to end, or run it again."
                )
            }
            if let target = try setting(moved, connection) { throw PostgresError(.notWritable, target) }
        }

        /// The sentence that says where the data went; `nil` if it is here.
        package func movedText() throws(PostgresError) -> String? { try Self.setting(Self.moved, connection) }

        // MARK: Import

        /// Notes that the data of a source comes; one that is noted already continues.
        ///
        /// - Parameter source: names the source, the same each time.
        /// - Throws: `MoveFailure` with `occupied` if the database has other data.
        package func begin(_ source: String) throws {
            if let known = try Self.setting(Self.importing, connection) {
                guard known == source else {
                    throw MoveFailure(
                        .occupied,
                        "An import of something else into \(cluster.address) has not ended: \(known). Run that one again, or name an empty database."
                    )
                }
                return
            }
            let found = try connection.query(
                "SELECT EXISTS (SELECT FROM container), EXISTS (SELECT FROM account), EXISTS (SELECT FROM home)"
            ).first
            if let found, found.bool(0) || found.bool(1) || found.bool(2) {
                throw MoveFailure(
                    .occupied,
                    "The database \(cluster.address) has data of its own. Name an empty database."
                )
            }
            try connection.query(
                "INSERT INTO setting (name, value) VALUES ($1, $2)",
                .text(Self.importing),
                .bytes(Array(source.utf8))
            )
        }

        /// Whether an import has begun and not ended.
        package var isBegun: Bool {
            get throws(PostgresError) { try Self.setting(Self.importing, connection) != nil }
        }

        /// Lets relays use the database.
        package func end() throws(PostgresError) {
            // Plans of relays that start now should know the sizes of the tables.
            try connection.query("ANALYZE")
            try connection.query("DELETE FROM setting WHERE name = $1", .text(Self.importing))
        }

        package func relaySink() throws(PostgresError) -> any MoveSink { try PostgresMoveSink(relayOn: connection) }

        package func sink(of home: ContainerEnvironment) throws(PostgresError) -> any MoveSink {
            try PostgresMoveSink(home, on: connection)
        }

        /// Returns the number of assets that records use and that are not here.
        package func missingAssets(of home: ContainerEnvironment) throws(PostgresError) -> Int64 {
            guard let home = try HomeRow.find(home, connection)?.number else { return 0 }
            return try connection.query(
                """
                SELECT count(DISTINCT u.hash) FROM zone z JOIN asset_use u ON u.zone = z.id
                WHERE z.home = $1 AND NOT z.deleted
                AND NOT EXISTS (SELECT FROM asset a WHERE a.home = $1 AND a.hash = u.hash)
                """,
                .int(home)
            ).first?.int(0) ?? 0
        }

        // MARK: Export

        /// The containers and environments that have data, in the order of their names.
        package func homesWithData() throws(PostgresError) -> [ContainerEnvironment] {
            let rows = try connection.query("SELECT container, environment FROM home ORDER BY 1, 2")
            return rows.compactMap { row in
                guard let container = ContainerID(row.text(0)), let environment = Environment(rawValue: row.text(1))
                else { return nil }
                return ContainerEnvironment(container, environment)
            }
        }

        package func relaySource() -> any MoveSource { PostgresMoveSource(relayOn: connection) }

        /// Connects to all databases over which the owners are spread.
        ///
        /// - Throws: `MoveFailure` if the move of an owner from one to another has not ended. None begins before this object
        ///   goes.
        package func openShards() throws {
            guard try connection.query("SELECT 1 FROM owner_move LIMIT 1").isEmpty else {
                throw MoveFailure(
                    .refused,
                    "The move of a user has begun and not ended. Complete it first: zonecast cluster shard list"
                )
            }
            var timeouts = PostgresConnection.Timeouts()
            (timeouts.statement, timeouts.answer) = (.zero, .seconds(24 * 3_600))
            for shard in try cluster.shards.refresh() where shard.number != 1 {
                // The pool checks that it is the right database.
                try shard.database.pool.use(.brief) { _ throws(PostgresError) in }
                let address = shard.database.pool.address
                others.append((shard.number, address, try PostgresConnection(to: address, timeouts: timeouts)))
            }
        }

        package func source(of home: ContainerEnvironment) throws(PostgresError) -> any MoveSource {
            guard let row = try HomeRow.find(home, connection) else { throw .missing("the container") }
            let control = PostgresMoveSource(row, .home, on: connection)
            guard !others.isEmpty else { return control }
            var parts = [ShardedMoveSource.Part(shard: 1, source: control, publicOwner: row.publicOwner)]
            let epoch = try connection.query("SELECT epoch FROM home WHERE id = $1", .int(row.number)).first
            for other in others {
                // Owners of the container may begin there meanwhile.
                let row = try HomeRow.ensure(home, epoch: epoch?.unsigned(0), draw: draw, other.connection)
                let source = PostgresMoveSource(row, .home, on: other.connection)
                parts.append(.init(shard: Int64(other.number), source: source, publicOwner: row.publicOwner))
            }
            return ShardedMoveSource(parts)
        }

        /// Makes all writes wait, until `markMoved`, or until this object goes.
        package func refuseWrites() throws(PostgresError) {
            holders = [try refuseWrites(on: cluster.address, isControl: true)]
            for other in others { holders.append(try refuseWrites(on: other.address, isControl: false)) }
            guard try cluster.shards.refresh().count == others.count + 1 else {
                throw PostgresError(.busy, "A shard was added meanwhile. Run the export again.")
            }
        }

        private func refuseWrites(
            on address: PostgresAddress,
            isControl: Bool
        ) throws(PostgresError) -> PostgresConnection {
            let holder = try PostgresConnection(to: address)
            var locks = PostgresPipeline()
            locks.add("SET LOCAL lock_timeout = '30s'")
            locks.add("SET LOCAL idle_in_transaction_session_timeout = 0")
            guard isControl else {
                locks.add("LOCK TABLE home IN SHARE ROW EXCLUSIVE MODE")
                _ = try holder.begin(locks)
                try Self.lockSchemas(holder)
                return holder
            }
            // Those who sign in, and operators, wait too.
            locks.add(
                """
                LOCK TABLE relay, container, api_token, server_key, management_token, account, session, container_user,
                issuer, push_device, quota, container_quota, operator, operator_link, operator_session, operator_passkey,
                audit, home IN SHARE ROW EXCLUSIVE MODE
                """
            )
            _ = try holder.begin(locks)
            try Self.lockSchemas(holder)
            return holder
        }

        private static func lockSchemas(_ holder: PostgresConnection) throws(PostgresError) {
            for row in try holder.query("SELECT id FROM home ORDER BY id") {
                let home = HomeRow(number: row.int(0), publicOwner: 0, publicZone: 0)
                try holder.query("SELECT pg_advisory_xact_lock($1)", .int(home.schemaLock))
            }
        }

        /// Marks the data as moved for good; the writes that wait are refused then.
        package func markMoved(_ sentence: String) throws(PostgresError) {
            guard let holder = holders.first else { throw .missing("the lock of writes") }
            // First: once shard 1 says it, no write must come through anywhere.
            for other in holders.dropFirst() {
                var mark = PostgresPipeline()
                mark.add("UPDATE home SET moved = true")
                try other.commit(mark)
            }
            var end = PostgresPipeline()
            end.add("UPDATE home SET moved = true")
            end.add(
                """
                INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """,
                .text(Self.moved),
                .bytes(Array(sentence.utf8))
            )
            try holder.commit(end)
            holders = []
        }

        // MARK: Assets

        /// Returns the assets of a container, which exists.
        ///
        /// `objects` is the storage of their contents, if it is not the database.
        package func assets(
            of home: ContainerEnvironment,
            cache: AssetCache,
            objects: (any AssetObjects)?
        ) throws(PostgresError) -> PostgresAssets? {
            guard let row = try HomeRow.find(home, connection) else { return nil }
            return PostgresAssets(cluster.stores.pool, home: row.number, cache: cache, objects: objects, draw: draw)
        }

        /// Returns the hashes of all stored assets of a container, with their sizes.
        package func storedAssets(of home: ContainerEnvironment) throws(PostgresError) -> [AssetHash: Int64] {
            guard let row = try HomeRow.find(home, connection) else { return [:] }
            let rows = try connection.query("SELECT hash, size FROM asset WHERE home = $1", .int(row.number))
            return Dictionary(rows.compactMap { row in AssetHash(row.bytes(0)).map { ($0, row.int(1)) } }) { $1 }
        }
    }
#endif
