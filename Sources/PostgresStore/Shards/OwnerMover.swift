#if Postgres
    import Foundation
    package import Records
    package import RelayCore
    import StoreKit

    /// Moves one owner from one shard to another while relays serve both.
    ///
    /// 1. All rows are copied from a snapshot. The target's row of the owner says `arriving`, so no request reads them.
    /// 2. The source's row says `moving`: writes are refused from here on, and asked to try again in a second.
    /// 3. What has changed since the snapshot is copied. The same transaction makes the target's change numbers continue
    ///    behind the owner's, and lets the target's row say `here`: from then on the move can only be completed.
    /// 4. The map, which is the row in shard 1, says that the owner is on the target.
    /// 5. The source's row says `moved`, and its other rows are removed.
    ///
    /// Each step finds out how far an earlier run has come. Only the map leads to the target before step 4 is done, so none
    /// of the steps needs a transaction over two databases.
    package struct OwnerMover {
        private let shards: PostgresShards
        private let container: ContainerEnvironment
        private let user: UserID
        private let target: Int
        private let step: (OwnerMove.Progress) throws -> Void

        /// - Parameters:
        ///   - user: the owner.
        ///   - container: the container and environment.
        ///   - target: the shard to which the owner moves.
        ///   - shards: the databases.
        ///   - step: called with each step before it begins, and during the copy. If it throws, the move stops as if the
        ///     process had ended.
        package init(
            _ user: UserID,
            in container: ContainerEnvironment,
            to target: Int,
            of shards: PostgresShards,
            step: @escaping (OwnerMove.Progress) throws -> Void
        ) {
            self.user = user
            self.container = container
            self.target = target
            self.shards = shards
            self.step = step
        }

        /// One end of the move.
        private struct End {
            let number: Int
            let connection: PostgresConnection
            let home: HomeRow
            let owner: Int64

            func place() throws(PostgresError) -> OwnerPlace? {
                let row = try connection.query(
                    "SELECT \(OwnerPlace.columns) FROM owner o WHERE o.id = $1",
                    .int(owner)
                ).first
                return row.map { OwnerPlace(state: $0.int(0), movedTo: $0.optionalInt(1)) }
            }

            /// Changes the owner's row; waits for writes that hold its lock.
            func set(_ state: Int64, movedTo: Int? = nil) throws(PostgresError) {
                try connection.query(
                    "UPDATE owner SET state = $2, moved_to = $3 WHERE id = $1",
                    .int(owner),
                    .int(state),
                    .int(movedTo.map { Int64($0) })
                )
            }

            /// Notes in the owner's row whether this shard has a default zone of the owner, for when it has no longer.
            func noteUser() throws(PostgresError) {
                try connection.query(
                    """
                    UPDATE owner SET is_user = EXISTS (
                        SELECT FROM zone WHERE owner = $1 AND name = '\(ZoneID.defaultName)' AND NOT deleted)
                    WHERE id = $1
                    """,
                    .int(owner)
                )
            }
        }

        private struct Interruption: Error {
            let cause: any Error
        }

        private func begin(_ name: OwnerMove.Step, rows: Int64 = 0) throws {
            do { try step(OwnerMove.Progress(name, rows: rows)) } catch { throw Interruption(cause: error) }
        }

        private static func connect(_ shard: PostgresShards.Shard) throws(PostgresError) -> PostgresConnection {
            // The pool checks that it is the right database.
            try shard.database.pool.use(.brief) { _ throws(PostgresError) in }
            var timeouts = PostgresConnection.Timeouts()
            (timeouts.statement, timeouts.answer) = (.seconds(600), .seconds(900))
            let connection = try PostgresConnection(to: shard.database.pool.address, timeouts: timeouts)
            try connection.planForManyRows()
            return connection
        }

        // MARK: The move

        /// Moves the owner, or completes a move that was interrupted.
        ///
        /// - Throws: `PostgresError`, `MoveFailure`, or what `step` throws.
        package func run() throws -> OwnerMove.Summary {
            do { return try move() } catch let interruption as Interruption { throw interruption.cause }
        }

        private func move() throws -> OwnerMove.Summary {
            guard user != Zone.publicOwner else {
                throw MoveFailure(.refused, "The public database stays on shard 1.")
            }
            try shards.refresh()
            let control = try Self.connect(shards.control)
            try lock(control)
            guard let map = try end(1, control) else {
                throw MoveFailure(.refused, "No user of this name has data.")
            }
            let source = try record(in: control, map)
            guard source != target else { return OwnerMove.Summary(rows: 0, refused: .zero) }
            let from = source == 1 ? map : try end(source, Self.connect(shards.shard(source)))
            guard let from else { throw PostgresError.missing("the owner on shard \(source)") }
            let to = try prepare(map, source: source)
            try lock(to)
            var summary = OwnerMove.Summary(rows: 0, refused: .zero)
            var start = ContinuousClock.now
            if try to.place() != .here {
                summary.rows = try copy(from, to, refusing: &start)
            }
            try finish(from, to, map)
            summary.refused = ContinuousClock.now - start
            try clear(from)
            try control.query(
                "DELETE FROM owner_move WHERE home = $1 AND name = $2",
                .int(map.home.number),
                .text(user.recordName)
            )
            return summary
        }

        /// Returns the owner's rows on a shard; `nil` if the shard does not know the owner.
        private func end(_ number: Int, _ connection: PostgresConnection) throws(PostgresError) -> End? {
            guard let home = try HomeRow.find(container, connection) else { return nil }
            let row = try connection.query(
                "SELECT p.id FROM person p JOIN owner o ON o.id = p.id WHERE p.home = $1 AND p.name = $2",
                .int(home.number),
                .text(user.recordName)
            ).first
            return row.map { End(number: number, connection: connection, home: home, owner: $0.int(0)) }
        }

        /// Notes that the move has begun, and returns the shard from which the owner moves.
        private func record(in control: PostgresConnection, _ map: End) throws -> Int {
            var number = 1
            if case .moved(let place)? = try map.place() { number = place }
            let known = try control.query(
                "SELECT source, target FROM owner_move WHERE home = $1 AND name = $2",
                .int(map.home.number),
                .text(user.recordName)
            ).first
            if let known {
                guard known.int(1) == Int64(target) else {
                    throw MoveFailure(
                        .refused,
                        "A move of this user to shard \(known.int(1)) has begun. Complete it first, then move on."
                    )
                }
                return Int(known.int(0))
            }
            guard number != target else { return number }
            try control.query(
                "INSERT INTO owner_move (home, name, source, target) VALUES ($1, $2, $3, $4)",
                .int(map.home.number),
                .text(user.recordName),
                .int(Int64(number)),
                .int(Int64(target))
            )
            return number
        }

        /// Makes the owner's row on the target, which says that the data arrives.
        private func prepare(_ map: End, source: Int) throws -> End {
            guard target != 1 else {
                // The map's row itself, which says that the owner is on the source until the end. The connection that
                // commits is the one that has the lock.
                let connection = try Self.connect(shards.control)
                return End(number: 1, connection: connection, home: map.home, owner: map.owner)
            }
            let shard = try shards.shard(target)
            let connection = try Self.connect(shard)
            let transaction = PostgresTransaction(on: map.connection, of: map.home)
            let versions = try HomeVersions(try transaction.query(HomeVersions.select, .int(map.home.number)))
            let epoch = try map.connection.query("SELECT epoch FROM home WHERE id = $1", .int(map.home.number)).first
            let home = try HomeRow.ensure(
                container,
                epoch: epoch?.unsigned(0),
                draw: { UInt64.random(in: 1 ... .max) },
                connection
            )
            try ShardVersions(
                schema: PostgresSchemaRows(transaction).read(),
                subscriptions: versions.subscriptions
            ).apply(to: container, over: nil, in: shard.database)
            guard let owner = try PostgresTransaction.insert([user], [], of: home, on: connection).users[user] else {
                throw PostgresError.missing("the owner")
            }
            try connection.query(
                "INSERT INTO owner (id, epoch, state) SELECT $2, epoch, 3 FROM home WHERE id = $1 ON CONFLICT DO NOTHING",
                .int(home.number),
                .int(owner)
            )
            return End(number: target, connection: connection, home: home, owner: owner)
        }

        /// One owner of a cluster moves at a time: a move reads and writes as fast as the disks can.
        private func lock(_ control: PostgresConnection) throws {
            do throws(PostgresError) {
                // Waits: the server may notice the end of a process that was killed a little later.
                try control.query("SELECT pg_advisory_lock($1)", .int(0x7A6F_6E65_6D6F_7665))
            } catch {
                guard error.code == .timedOut else { throw error }
                throw MoveFailure(.refused, "Another process is moving a user; they move one after the other.")
            }
        }

        /// Only one process moves an owner: the lock ends with the connection that completes the copy.
        private func lock(_ to: End) throws {
            let key = Int64(bitPattern: 0x5A4D_0000_0000_0000 ^ UInt64(bitPattern: to.owner))
            guard try to.connection.query("SELECT pg_try_advisory_lock($1)", .int(key)).first?.bool(0) == true else {
                throw MoveFailure(.refused, "Another process is moving this user.")
            }
        }

        // MARK: Copy

        /// Copies all rows, and returns their number; at the end the target has the owner.
        private func copy(_ from: End, _ to: End, refusing start: inout ContinuousClock.Instant) throws -> Int64 {
            try begin(.copying)
            // An earlier run may have ended while writes were refused, or left rows.
            if try from.place() == .moving { try from.set(0) }
            if to.number != 1 { try to.set(3) }
            try OwnerRemoval(to.owner, on: to.connection).run()
            let copy = try OwnerCopy(
                container,
                from: (from.home, from.owner, from.connection),
                to: (to.home, to.owner, to.connection)
            )
            let rows = try copy.copyAll { rows in try begin(.copying, rows: rows) }
            try begin(.refusing, rows: rows)
            do {
                start = .now
                try from.set(1)
                try begin(.completing, rows: rows)
                let more = try copy.complete(
                    schema: readSchema(),
                    admit: { users in try admit(users, to: to.number) }
                )
                try begin(.serving, rows: rows + more)
                return rows + more
            } catch  where !(error is Interruption) {
                // Unless the answer to the last commit was lost, the source goes on.
                if let place = try? to.place(), place != .here { try? from.set(0) }
                throw error
            }
        }

        private func readSchema() throws(PostgresError) -> Schema {
            try shards.control.database.pool.use(.brief) { connection throws(PostgresError) in
                guard let home = try HomeRow.find(container, connection) else { throw .missing("the container") }
                return try PostgresSchemaRows(PostgresTransaction(on: connection, of: home)).read()
            }
        }

        /// Lets the shared databases of the participants look at the target.
        private func admit(_ users: [UserID], to number: Int) throws(PostgresError) {
            guard number != 1, !users.isEmpty else { return }
            _ = try shards.control.database.pool.use(.brief) { connection throws(PostgresError) in
                guard let home = try HomeRow.find(container, connection) else { throw .missing("the container") }
                let numbers = try PostgresTransaction.insert(users, [], of: home, on: connection).users
                try connection.query(
                    "INSERT INTO visitor_shard (person, shard) SELECT unnest($1::bigint[]), $2 ON CONFLICT DO NOTHING",
                    .ints(numbers.values.sorted()),
                    .int(Int64(number))
                )
            }
        }

        // MARK: The end

        /// How long both shards say that they have the owner, so that a read of all shards that began before finds one of
        /// them.
        private static let overlap = 0.2

        private func finish(_ from: End, _ to: End, _ map: End) throws {
            try begin(.switching)
            guard to.number != 1 else { return }
            if try map.place() != .moved(to: to.number) {
                Thread.sleep(forTimeInterval: Self.overlap)
                // From shard 1, whose rows have the default zone until the next step.
                if from.number == 1 { try map.noteUser() }
                try map.set(2, movedTo: to.number)
            }
        }

        private func clear(_ from: End) throws {
            try begin(.clearing)
            if from.number != 1, try from.place() != .moved(to: target) {
                Thread.sleep(forTimeInterval: Self.overlap)
                try from.set(2, movedTo: target)
            }
            try OwnerRemoval(from.owner, on: from.connection).run()
        }
    }

    /// Removes the rows of an owner whose data is on another shard, a few thousand at a time; the row in `owner` stays.
    struct OwnerRemoval {
        private let owner: Int64
        private let connection: PostgresConnection

        init(_ owner: Int64, on connection: PostgresConnection) {
            self.owner = owner
            self.connection = connection
        }

        private static let rowsAtOnce: Int64 = 5_000

        func run() throws(PostgresError) {
            for (table, key, columns) in [
                ("record", "zone", "zone, name"), ("reference", "zone", "zone, target, kind, source, field"),
                ("asset_use", "zone", "zone, hash, name"), ("share_entry", "zone", "share, name"),
            ] {
                try removeAll(
                    """
                    DELETE FROM \(table) WHERE (\(columns)) IN (
                        SELECT \(columns) FROM \(table) WHERE \(key) IN (SELECT id FROM zone WHERE owner = $1) LIMIT $2)
                    """
                )
            }
            try removeAll(
                """
                DELETE FROM field_value WHERE (field, zone, value, name) IN (
                    SELECT v.field, v.zone, v.value, v.name FROM zone z JOIN field_index i ON i.home = z.home
                    JOIN field_value v ON v.field = i.id AND v.zone = z.id WHERE z.owner = $1 LIMIT $2)
                """
            )
            var rest = PostgresPipeline()
            let shares = "SELECT s.id FROM share s JOIN zone z ON z.id = s.zone WHERE z.owner = $1"
            for table in ["participant", "share_request", "share_alias"] {
                rest.add("DELETE FROM \(table) WHERE share IN (\(shares))", .int(owner))
            }
            rest.add("DELETE FROM share WHERE zone IN (SELECT id FROM zone WHERE owner = $1)", .int(owner))
            rest.add("DELETE FROM shared_zone WHERE zone IN (SELECT id FROM zone WHERE owner = $1)", .int(owner))
            rest.add("DELETE FROM zone WHERE owner = $1", .int(owner))
            for table in ["done_write", "signed_write", "owner_epoch"] {
                rest.add("DELETE FROM \(table) WHERE owner = $1", .int(owner))
            }
            try connection.run(rest)
        }

        private func removeAll(_ sql: String) throws(PostgresError) {
            while try connection.query(sql, .int(owner), .int(Self.rowsAtOnce)).changed == Int(Self.rowsAtOnce) {}
        }
    }
#endif
