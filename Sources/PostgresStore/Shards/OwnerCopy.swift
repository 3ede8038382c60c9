#if Postgres
    import Records
    import RelayCore
    import StoreKit

    /// The rows of one owner on their way from one shard to another: a copy from a snapshot, then what has changed since.
    final class OwnerCopy {
        private let container: ContainerEnvironment
        private let from: (home: HomeRow, owner: Int64, connection: PostgresConnection)
        private let to: (home: HomeRow, owner: Int64, connection: PostgresConnection)
        private let source: PostgresMoveSource
        private let sink: PostgresMoveSink
        private let translation: MoveTranslation
        /// The greatest change number that was copied.
        private var copied: UInt64 = 0
        /// The same of each zone.
        private var position = MovePosition(number: 0)

        /// The tables with as many rows as there are records, and those to which their rows refer.
        ///
        /// Subscriptions stay on shard 1; all others are copied while writes are refused.
        private static let early: [MovedTable] = [.zone, .share, .record, .reference, .assetUse, .shareEntry]
        private static let late: [MovedTable] = [
            .participant, .shareRequest, .shareAlias, .sharedZone, .ownerDoneWrite, .ownerSignedWrite,
        ]

        init(
            _ container: ContainerEnvironment,
            from: (home: HomeRow, owner: Int64, connection: PostgresConnection),
            to: (home: HomeRow, owner: Int64, connection: PostgresConnection)
        ) throws(PostgresError) {
            self.container = container
            self.from = from
            self.to = to
            source = PostgresMoveSource(from.home, .owner(from.owner), on: from.connection)
            sink = try PostgresMoveSink(container, to.home, owner: to.owner, on: to.connection)
            translation = MoveTranslation(to: sink)
        }

        /// Copies a snapshot; returns the number of rows, and calls `progress` with it now and then.
        func copyAll(progress: (Int64) throws -> Void) throws -> Int64 {
            try source.read { reader in
                copied = try reader.facts().lastChange
                position = try reader.position()
                return try sink.transaction {
                    var count: Int64 = 0
                    for table in Self.early {
                        try reader.visit(table, MoveSelection()) { rows in
                            try sink.insert(translation.translate(rows, from: reader))
                            count += Int64(rows.count)
                            try progress(count)
                        }
                    }
                    return count
                }
            }
        }

        /// Copies what has changed since, and lets the target have the owner, while no write to the owner is accepted.
        ///
        /// - Parameters:
        ///   - schema: the container's schema, for the indexes of queries.
        ///   - admit: called with all users who have, or had, access to zones of the owner, before the target is used.
        /// - Returns: the number of rows.
        /// - Throws: what the databases or `admit` throw, and `MoveFailure` if both sides differ.
        func complete(schema: Schema, admit: ([UserID]) throws -> Void) throws -> Int64 {
            try source.read { reader in
                let facts = try reader.facts()
                return try sink.transaction {
                    // No index begins meanwhile: it would not have the records that arrive.
                    try to.connection.query("SELECT pg_advisory_xact_lock_shared($1)", .int(to.home.schemaLock))
                    var count = try copyChanges(reader)
                    for table in Self.late {
                        try remove(table)
                        count += try copy(table, reader)
                    }
                    try enterIndexes(schema)
                    try compare(reader)
                    try admit(visitors())
                    // With the lock, no write takes a number between the reading of the sequence and its `setval`.
                    try to.connection.query("LOCK TABLE owner IN EXCLUSIVE MODE")
                    try sink.finish(facts)
                    try to.connection.query(
                        "UPDATE owner SET state = 0, moved_to = NULL, arrived = now() WHERE id = $1",
                        .int(to.owner)
                    )
                    return count
                }
            }
        }

        private func copy(
            _ table: MovedTable,
            after position: MovePosition? = nil,
            _ reader: any MoveReader
        ) throws -> Int64 {
            var count: Int64 = 0
            try reader.visit(table, MoveSelection(after: position)) { rows in
                let rows = try translation.translate(rows, from: reader)
                if Self.late.contains(table) { try sink.insert(rows) } else { try sink.upsert(rows) }
                count += Int64(rows.count)
            }
            return count
        }

        private func remove(_ table: MovedTable) throws(PostgresError) {
            let stored = PostgresMoveTable(table, of: to.home, .owner(to.owner))
            switch table {
            case .ownerDoneWrite, .ownerSignedWrite:
                try to.connection.query("DELETE FROM \(stored.name) WHERE owner = $1", .int(to.owner))
            case .sharedZone:
                try to.connection.query(
                    "DELETE FROM shared_zone WHERE zone IN (SELECT id FROM zone WHERE owner = $1)",
                    .int(to.owner)
                )
            default:
                try to.connection.query(
                    """
                    DELETE FROM \(stored.name) WHERE share IN (
                        SELECT s.id FROM share s JOIN zone z ON z.id = s.zone WHERE z.owner = $1)
                    """,
                    .int(to.owner)
                )
            }
        }

        // MARK: Changes

        private func copyChanges(_ reader: any MoveReader) throws -> Int64 {
            var count = try copy(.zone, reader) + copy(.share, reader)
            let records = try copy(.record, after: position, reader)
            count += records
            if records > 0 {
                count += try replaceDependents(.reference, by: "source", reader)
                count += try replaceDependents(.assetUse, by: "name", reader)
            }
            try removeVanished()
            try removeEndedShares()
            return try count + copy(.shareEntry, after: position, reader)
        }

        /// Replaces the references or the uses of assets of the records that have changed; they have no change numbers.
        private func replaceDependents(
            _ table: MovedTable,
            by name: String,
            _ reader: any MoveReader
        ) throws -> Int64 {
            let stored = PostgresMoveTable(table, of: from.home, .owner(from.owner))
            func join(_ owner: Int64) -> String {
                """
                FROM zone z JOIN record r ON r.zone = z.id AND r.change > \(copied)
                JOIN \(stored.name) t ON t.zone = r.zone AND t.\(name) = r.name WHERE z.owner = \(owner)
                """
            }
            let keys = stored.keys.joined(separator: ", ")
            let selectedKeys = stored.keys.map { "t.\($0)" }.joined(separator: ", ")
            try to.connection.query(
                "DELETE FROM \(stored.name) WHERE (\(keys)) IN (SELECT \(selectedKeys) \(join(to.owner)))"
            )
            let rows = MovedRows(
                try from.connection.query("SELECT \(stored.selected) \(join(from.owner)) AND NOT z.deleted"),
                of: table
            )
            try sink.upsert(translation.translate(rows, from: reader))
            return Int64(rows.count)
        }

        /// Removes records of the default zone, which keeps no tombstones, that are no longer there.
        private func removeVanished() throws(PostgresError) {
            let sql = """
                SELECT r.name FROM zone z JOIN record r ON r.zone = z.id
                WHERE z.owner = $1 AND z.name = '\(ZoneID.defaultName)' AND NOT z.deleted AND z.last_change > $2
                """
            let zone = try from.connection.query(
                """
                SELECT 1 FROM zone z WHERE z.owner = $1 AND z.name = '\(ZoneID.defaultName)' AND NOT z.deleted
                AND z.last_change > $2
                """,
                .int(from.owner),
                .unsigned(copied)
            )
            guard !zone.isEmpty else { return }
            let names = try from.connection.query(sql, .int(from.owner), .unsigned(copied)).map { Optional($0.text(0)) }
            for (table, column) in [("record", "name"), ("reference", "source"), ("asset_use", "name")] {
                try to.connection.query(
                    """
                    DELETE FROM \(table) WHERE \(column) <> ALL($2) AND zone IN (
                        SELECT id FROM zone WHERE owner = $1 AND name = '\(ZoneID.defaultName)' AND NOT deleted)
                    """,
                    .int(to.owner),
                    .texts(names)
                )
            }
        }

        private func removeEndedShares() throws(PostgresError) {
            let live = try from.connection.query(
                "SELECT s.guid FROM share s JOIN zone z ON z.id = s.zone WHERE z.owner = $1",
                .int(from.owner)
            ).map { Optional($0.text(0)) }
            let ended = try to.connection.query(
                "SELECT s.id FROM share s JOIN zone z ON z.id = s.zone WHERE z.owner = $1 AND s.guid <> ALL($2)",
                .int(to.owner),
                .texts(live)
            ).map { Optional($0.int(0)) }
            guard !ended.isEmpty else { return }
            for table in ["share_entry", "participant", "share_request", "share_alias"] {
                try to.connection.query("DELETE FROM \(table) WHERE share = ANY($1)", .ints(ended))
            }
            try to.connection.query("DELETE FROM share WHERE id = ANY($1)", .ints(ended))
        }

        // MARK: The end

        private func visitors() throws(PostgresError) -> [UserID] {
            try to.connection.query(
                """
                SELECT DISTINCT p.name FROM zone z JOIN shared_zone a ON a.zone = z.id JOIN person p ON p.id = a.person
                WHERE z.owner = $1
                """,
                .int(to.owner)
            ).map { UserID($0.text(0)) }
        }

        /// Enters the records into the indexes that the target's queries have.
        ///
        /// An index that begins later has them anyway.
        private func enterIndexes(_ schema: Schema) throws {
            let transaction = PostgresTransaction(on: to.connection, of: to.home)
            guard try !PostgresIndexes.read(in: transaction).isEmpty else { return }
            let state = PostgresState(schema: schema, subscriptionsVersion: 0, indexesVersion: 0)
            let reader = PostgresReader(transaction) { () throws(PostgresError) in state }
            guard let user = try transaction.query("SELECT name FROM person WHERE id = $1", .int(to.owner)).first else {
                return
            }
            let builder = try PostgresIndexBuilder(reader, isExclusive: false)
            for zone in try reader.liveZones(of: UserID(user.text(0))) { try builder.enterArrived(in: zone) }
        }

        /// Compares the numbers of rows on both sides.
        private func compare(_ reader: any MoveReader) throws {
            for (what, sql) in [
                ("records", "record r ON r.zone = z.id AND NOT r.deleted"),
                ("references", "reference r ON r.zone = z.id"),
                ("uses of assets", "asset_use r ON r.zone = z.id"),
                ("entries of shares", "share_entry r ON r.zone = z.id AND r.gone = 0"),
                ("participants' zones", "shared_zone r ON r.zone = z.id"),
            ] {
                let count = "SELECT count(*) FROM zone z JOIN \(sql) WHERE z.owner = $1 AND NOT z.deleted"
                let there = try from.connection.query(count, .int(from.owner)).first?.int(0)
                let here = try to.connection.query(count, .int(to.owner)).first?.int(0)
                guard there == here else {
                    throw MoveFailure(
                        .different,
                        "The copy has \(here ?? 0) \(what), and the source \(there ?? 0). Nothing was moved."
                    )
                }
            }
        }
    }
#endif
