#if Postgres
    import Foundation
    package import Records
    import RelayCore
    package import StoreKit

    /// The rows of one owner, or of a container in one environment, as they come into a database.
    package final class PostgresMoveSink: MoveSink {
        private let connection: PostgresConnection
        private let container: ContainerEnvironment?
        private var home: HomeRow?
        private var scope: MoveScope
        /// The numbers of zones by their identities.
        private var zones: [String: Int64] = [:]

        /// For all that a container has in one environment, which `begin` creates.
        ///
        /// Nothing else may use `connection` meanwhile.
        package init(_ container: ContainerEnvironment, on connection: PostgresConnection) throws(PostgresError) {
            self.container = container
            self.connection = connection
            scope = .home
            try prepare()
        }

        /// For one owner, by the number that it has here.
        package init(
            _ container: ContainerEnvironment,
            _ home: HomeRow,
            owner: Int64,
            on connection: PostgresConnection
        ) throws(PostgresError) {
            self.container = container
            self.connection = connection
            self.home = home
            scope = .owner(owner)
            try prepare()
        }

        /// For the relay's accounts, credentials and operators.
        package init(relayOn connection: PostgresConnection) throws(PostgresError) {
            container = nil
            home = HomeRow.none
            self.connection = connection
            scope = .relay
            try prepare()
        }

        private func prepare() throws(PostgresError) {
            try connection.planForManyRows()
            try connection.query("SET idle_in_transaction_session_timeout = 0")
        }

        package func transaction<Result>(_ body: () throws -> Result) throws -> Result {
            var begin = PostgresPipeline()
            begin.add("BEGIN")
            try connection.run(begin)
            do {
                let result = try body()
                try connection.commit()
                return result
            } catch {
                connection.rollBack()
                throw error
            }
        }

        private func row() throws(PostgresError) -> HomeRow {
            guard let home else { throw .missing("the container") }
            return home
        }

        private func stored(_ table: MovedTable) throws(PostgresError) -> PostgresMoveTable {
            PostgresMoveTable(table, of: try row(), scope)
        }

        package func begin(_ facts: MoveFacts) throws {
            guard home == nil, let container else { return }
            var drawn = [facts.epoch, facts.publicIdentity]
            let found = try HomeRow.ensure(container, draw: { drawn.removeFirst() }, connection)
            let identity = try connection.query("SELECT identity FROM zone WHERE id = $1", .int(found.publicZone)).first
            guard identity?.unsigned(0) == facts.publicIdentity else {
                throw MoveFailure(
                    .occupied,
                    "The database has other data of \(container.container.name) (\(container.environment.rawValue)) already."
                )
            }
            home = found
        }

        package func numbers(of names: [String], _ kind: MovedTable.Kind) throws -> [String: Int64] {
            let home = try row()
            switch kind {
            case .user:
                let found = try PostgresTransaction.insert(names.map { UserID($0) }, [], of: home, on: connection).users
                return Dictionary(found.map { ($0.recordName, $1) }) { $1 }
            case .type:
                return try PostgresTransaction.insert([], names, of: home, on: connection).types
            case .zone:
                if names.contains(where: { zones[$0] == nil }) { try readZones() }
                return Dictionary(names.compactMap { name in zones[name].map { (name, $0) } }) { $1 }
            case .share:
                let rows = try connection.query(
                    "SELECT id, guid FROM share WHERE home = $1 AND guid = ANY($2)",
                    .int(home.number),
                    .texts(names)
                )
                return Dictionary(rows.map { ($0.text(1), $0.int(0)) }) { $1 }
            case .int, .bool, .text, .bytes: return [:]
            }
        }

        private func readZones() throws(PostgresError) {
            let rows = try connection.query("SELECT t.id, t.identity::text \(try stored(.zone).source)")
            zones = Dictionary(rows.map { ($0.text(1), $0.int(0)) }) { $1 }
        }

        // MARK: Rows

        package func insert(_ rows: MovedRows) throws {
            switch rows.table {
            case .doneWrite, .signedWrite, .zone: try upsert(rows)
            default: try copy(rows, to: try stored(rows.table), named: nil)
            }
        }

        /// Copies rows into their table, or into one with the same columns and another name.
        private func copy(
            _ rows: MovedRows,
            to table: PostgresMoveTable,
            named name: String?
        ) throws(PostgresError) {
            let added = name == nil ? table.added : []
            let columns = (added.map(\.name) + table.columns).joined(separator: ", ")
            try connection.copyIn("COPY \(name ?? table.name) (\(columns)) FROM STDIN (FORMAT binary)") {
                send throws(PostgresError) in
                try Self.bytes(of: rows, adding: added.compactMap { Int64($0.value) }, send)
            }
        }

        /// Passes the bytes of PostgreSQL's binary format of COPY.
        private static func bytes(
            of rows: MovedRows,
            adding values: [Int64],
            _ send: (ArraySlice<UInt8>) throws(PostgresError) -> Void
        ) throws(PostgresError) {
            // The signature, no flags, and no more header.
            try send(Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0x00] + [UInt8](repeating: 0, count: 8))
            if values.isEmpty {
                // libpq takes at most 2 GB at once, and needs none of it.
                var rest = rows.bytes[...]
                while !rest.isEmpty {
                    try send(rest.prefix(1 << 20))
                    rest = rest.dropFirst(1 << 20)
                }
            } else {
                var prefix: [UInt8] = []
                withUnsafeBytes(of: Int16(values.count + rows.table.columns.count).bigEndian) { prefix += $0 }
                for value in values {
                    withUnsafeBytes(of: Int32(8).bigEndian) { prefix += $0 }
                    withUnsafeBytes(of: value.bigEndian) { prefix += $0 }
                }
                var whole: [UInt8] = []
                rows.forEach { row in
                    whole += prefix
                    whole += row.bytes.dropFirst(2)
                }
                try send(whole[...])
            }
            // The end: a row with -1 columns.
            try send([0xFF, 0xFF])
        }

        /// Copies rows into a temporary table, which is emptied at the end of the transaction, and returns its name.
        private func stage(_ rows: MovedRows, for table: PostgresMoveTable) throws(PostgresError) -> String {
            let name = "move_\(table.name)"
            let columns = table.columns.joined(separator: ", ")
            var setup = PostgresPipeline()
            setup.add(
                """
                CREATE TEMPORARY TABLE IF NOT EXISTS \(name) ON COMMIT DELETE ROWS
                AS SELECT \(columns) FROM \(table.name) WITH NO DATA
                """
            )
            setup.add("DELETE FROM \(name)")
            try connection.run(setup)
            try copy(rows, to: table, named: name)
            return name
        }

        package func upsert(_ rows: MovedRows) throws {
            guard !rows.isEmpty else { return }
            let table = try stored(rows.table)
            let staged = try stage(rows, for: table)
            switch rows.table {
            case .zone: try upsertZones(from: staged, table)
            case .doneWrite: try upsertDoneWrites(from: staged)
            case .signedWrite: try upsertSignatures(from: staged)
            default:
                let columns = table.columns.joined(separator: ", ")
                let added = table.added.map { "\($0.name), " }.joined()
                let values = table.added.map { "\($0.value), " }.joined()
                let changes = table.columns.dropFirst(table.table.keyCount).map { "\($0) = excluded.\($0)" }
                let action = changes.isEmpty ? "NOTHING" : "UPDATE SET \(changes.joined(separator: ", "))"
                try connection.query(
                    """
                    INSERT INTO \(table.name) (\(added)\(columns)) OVERRIDING SYSTEM VALUE
                    SELECT \(values)\(columns) FROM \(staged)
                    ON CONFLICT (\(table.conflict)) DO \(action)
                    """
                )
            }
        }

        /// A zone is known by its identity, for which there is no index.
        private func upsertZones(from staged: String, _ table: PostgresMoveTable) throws(PostgresError) {
            let home = try row().number
            let changes = table.columns.dropFirst().map { "\($0) = m.\($0)" }.joined(separator: ", ")
            try connection.query(
                "UPDATE zone z SET \(changes) FROM \(staged) m WHERE z.home = \(home) AND z.identity = m.identity"
            )
            let columns = table.columns.joined(separator: ", ")
            try connection.query(
                """
                INSERT INTO zone (home, purged, \(columns)) SELECT \(home), m.deleted, \(columns) FROM \(staged) m
                WHERE NOT EXISTS (SELECT FROM zone z WHERE z.home = \(home) AND z.identity = m.identity)
                """
            )
            zones = [:]
        }

        /// Enters an outcome for each owner whose data the write may have changed: which one it was is unknown.
        private func upsertDoneWrites(from staged: String) throws(PostgresError) {
            try connection.query(
                """
                INSERT INTO done_write (owner, person, id, print, places, place)
                SELECT c.owner, m.person, m.id, m.print, m.places, 0 FROM \(staged) m CROSS JOIN LATERAL (
                    SELECT m.person UNION SELECT \(try row().publicOwner)
                    UNION SELECT z.owner FROM shared_zone s JOIN zone z ON z.id = s.zone WHERE s.person = m.person
                ) AS c (owner)
                ON CONFLICT (owner, person, id) DO UPDATE SET print = excluded.print, places = excluded.places
                """
            )
        }

        /// Does the same for signatures, which only the keys of servers make.
        private func upsertSignatures(from staged: String) throws(PostgresError) {
            let home = try row()
            try connection.query(
                """
                INSERT INTO signed_write (owner, signed_at, fingerprint)
                SELECT c.owner, m.signed_at, m.fingerprint FROM \(staged) m CROSS JOIN (
                    SELECT \(home.publicOwner)
                    UNION SELECT p.id FROM server_key k JOIN person p ON p.home = \(home.number) AND p.name = k.user_name
                ) AS c (owner)
                ON CONFLICT DO NOTHING
                """
            )
        }

        package func delete(_ keys: MovedRows) throws {
            guard !keys.isEmpty else { return }
            let table = try stored(keys.table)
            let staged = try stage(keys, for: table)
            let home = try row().number
            if keys.table == .share {
                for dependent in ["participant", "share_request", "share_alias", "share_entry"] {
                    try connection.query(
                        """
                        DELETE FROM \(dependent) d USING \(staged) m, share s
                        WHERE s.home = \(home) AND s.guid = m.guid AND d.share = s.id
                        """
                    )
                }
            }
            let isOfHome = table.added.contains { $0.name == "home" } ? "t.home = \(home) AND " : ""
            let isSame = table.keys.map { "t.\($0) = m.\($0)" }.joined(separator: " AND ")
            try connection.query("DELETE FROM \(table.name) t USING \(staged) m WHERE \(isOfHome)\(isSame)")
            if keys.table == .zone { zones = [:] }
        }

        package func existing(_ keys: MovedRows) throws -> MovedRows {
            guard !keys.isEmpty else { return keys }
            let table = try stored(keys.table)
            let staged = try stage(keys, for: table)
            let isSame = table.keys.map { "t.\($0) = m.\($0)" }.joined(separator: " AND ")
            let rows = try connection.query(
                "SELECT \(table.selected) FROM \(staged) m JOIN \(table.name) t ON \(isSame)"
            )
            return MovedRows(rows, of: keys.table)
        }

        package func removeAll(_ table: MovedTable) throws {
            let table = try stored(table)
            let keys = table.keys.joined(separator: ", ")
            let selected = table.keys.map { "t.\($0)" }.joined(separator: ", ")
            try connection.query("DELETE FROM \(table.name) WHERE (\(keys)) IN (SELECT \(selected) \(table.source))")
        }

        package func greatestChange() throws -> UInt64 {
            guard scope != .relay else { return 0 }
            let table = try stored(.record)
            return try connection.query("SELECT coalesce(max(t.change), 0) \(table.source)").first?.unsigned(0) ?? 0
        }

        package func reader() throws -> any MoveReader { PostgresMoveReader(try row(), scope, on: connection) }

        // MARK: End

        package func finish(_ facts: MoveFacts) throws {
            let home = try row()
            let (epochs, ends) = (Array(facts.endedEpochs.keys), Array(facts.endedEpochs.values))
            switch scope {
            case .home:
                var end = PostgresPipeline()
                end.add(
                    """
                    UPDATE home SET epoch = $2, schema_version = $3, subscriptions_version = $4,
                        indexes_version = indexes_version + 1 WHERE id = $1
                    """,
                    .int(home.number),
                    .unsigned(facts.epoch),
                    .int(facts.schemaVersion),
                    .int(facts.subscriptionsVersion)
                )
                end.add("DELETE FROM home_epoch WHERE home = $1", .int(home.number))
                end.add(
                    """
                    INSERT INTO home_epoch (home, epoch, last_change)
                    SELECT $1, e.epoch, e.last_change FROM unnest($2::bigint[], $3::bigint[]) AS e (epoch, last_change)
                    """,
                    .int(home.number),
                    .unsigneds(epochs),
                    .unsigneds(ends)
                )
                end.add(
                    """
                    INSERT INTO owner (id, epoch, last_change)
                    SELECT z.owner, $2, max(z.last_change) FROM zone z WHERE z.home = $1 GROUP BY z.owner
                    ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch,
                        last_change = greatest(owner.last_change, excluded.last_change)
                    """,
                    .int(home.number),
                    .unsigned(facts.epoch)
                )
                try connection.run(end)
            case .owner(let owner):
                var end = PostgresPipeline()
                end.add(
                    """
                    INSERT INTO owner (id, epoch, last_change, done_writes)
                    SELECT $1, $2, $3, coalesce(max(place), 0) FROM done_write WHERE owner = $1
                    ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, done_writes = excluded.done_writes,
                        last_change = greatest(owner.last_change, excluded.last_change)
                    """,
                    .int(owner),
                    .unsigned(facts.epoch),
                    .unsigned(facts.lastChange)
                )
                end.add("DELETE FROM owner_epoch WHERE owner = $1", .int(owner))
                end.add(
                    """
                    INSERT INTO owner_epoch (owner, epoch, last_change)
                    SELECT $1, e.epoch, e.last_change FROM unnest($2::bigint[], $3::bigint[]) AS e (epoch, last_change)
                    """,
                    .int(owner),
                    .unsigneds(epochs),
                    .unsigneds(ends)
                )
                try connection.run(end)
            case .relay:
                for table in ["account", "operator", "audit"] {
                    try connection.query(
                        """
                        SELECT setval(pg_get_serial_sequence('\(table)', 'id'), (SELECT max(id) FROM \(table)))
                        WHERE EXISTS (SELECT FROM \(table))
                        """
                    )
                }
                return
            }
            try continueNumbers(after: facts.lastChange)
        }

        /// Makes every later number greater than those that came: a token would otherwise hide new changes.
        private func continueNumbers(after last: UInt64) throws(PostgresError) {
            guard !PostgresFault.moveWithoutNumbers.isPlanted else { return }
            try connection.query(
                "SELECT setval('change', \(PostgresLayout.ownNumber)) FROM (SELECT \(PostgresLayout.lastNumber) AS n) g",
                .unsigned(last)
            )
        }
    }
#endif
