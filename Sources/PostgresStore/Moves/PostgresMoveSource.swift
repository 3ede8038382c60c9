#if Postgres
    package import StoreKit

    /// The rows of one owner, or of a container in one environment, as they leave a database.
    package final class PostgresMoveSource: MoveSource {
        private let connection: PostgresConnection
        private let home: HomeRow
        private let scope: MoveScope

        /// - Parameters:
        ///   - home: the row of the container.
        ///   - scope: what moves; an owner by its number here.
        ///   - connection: a connection that nothing else uses meanwhile.
        package init(_ home: HomeRow, _ scope: MoveScope, on connection: PostgresConnection) {
            self.home = home
            self.scope = scope
            self.connection = connection
        }

        /// The relay's accounts, credentials and operators.
        package init(relayOn connection: PostgresConnection) {
            home = .none
            scope = .relay
            self.connection = connection
        }

        package var readsInOrderOfChanges: Bool { false }

        package func read<Result>(_ body: (any MoveReader) throws -> Result) throws -> Result {
            var opening = PostgresPipeline()
            opening.add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            // A copy reads whole tables, for which the settings of a relay's connections are wrong.
            for setting in ["statement_timeout", "idle_in_transaction_session_timeout"] {
                opening.add("SET LOCAL \(setting) = 0")
            }
            try connection.run(opening)
            defer { connection.rollBack() }
            return try body(PostgresMoveReader(home, scope, on: connection))
        }
    }

    /// Reads what moves in the transaction that a connection has open.
    final class PostgresMoveReader: MoveReader {
        private let connection: PostgresConnection
        private let home: HomeRow
        private let scope: MoveScope
        private var cursors = 0

        /// How many rows are fetched at once.
        private static let rowsAtOnce = 5_000

        init(_ home: HomeRow, _ scope: MoveScope, on connection: PostgresConnection) {
            self.home = home
            self.scope = scope
            self.connection = connection
        }

        func facts() throws -> MoveFacts {
            guard scope != .relay else {
                return MoveFacts(publicIdentity: 0, epoch: 0, endedEpochs: [:], lastChange: 0)
            }
            let rows = try connection.query(
                """
                SELECT z.identity, h.epoch, h.schema_version, h.subscriptions_version
                FROM home h JOIN zone z ON z.id = $2 WHERE h.id = $1
                """,
                .int(home.number),
                .int(home.publicZone)
            )
            guard let row = rows.first else { throw PostgresError.missing("the container") }
            var facts = MoveFacts(
                publicIdentity: row.unsigned(0),
                epoch: row.unsigned(1),
                endedEpochs: [:],
                lastChange: 0,
                schemaVersion: row.int(2),
                subscriptionsVersion: row.int(3)
            )
            switch scope {
            case .owner(let owner):
                guard
                    let own = try connection.query(
                        "SELECT epoch, last_change FROM owner WHERE id = $1",
                        .int(owner)
                    ).first
                else { throw PostgresError.missing("the owner") }
                (facts.epoch, facts.lastChange) = (own.unsigned(0), own.unsigned(1))
                let ends = try connection.query(
                    """
                    SELECT epoch, last_change FROM home_epoch WHERE home = $1
                    UNION ALL SELECT epoch, last_change FROM owner_epoch WHERE owner = $2
                    """,
                    .int(home.number),
                    .int(owner)
                )
                for end in ends { facts.endedEpochs[end.unsigned(0)] = end.unsigned(1) }
            case .home, .relay: try readCommonEpochs(into: &facts)
            }
            return facts
        }

        /// Reads the epochs that mean the same for all owners.
        ///
        /// An epoch that ended at different numbers, because a failover lost commits, cannot be said for all of them: its
        /// tokens expire. Devices have others since they first asked after the failover.
        private func readCommonEpochs(into facts: inout MoveFacts) throws {
            let rows = try connection.query(
                """
                SELECT e.epoch, max(e.last_change), bool_or(e.ended), count(DISTINCT e.last_change) FROM (
                    SELECT epoch, last_change, true AS ended FROM home_epoch WHERE home = $1
                    UNION ALL
                    SELECT e.epoch, e.last_change, true FROM person p JOIN owner_epoch e ON e.owner = p.id
                    WHERE p.home = $1
                    UNION ALL
                    SELECT o.epoch, o.last_change, false FROM person p JOIN owner o ON o.id = p.id WHERE p.home = $1) e
                GROUP BY e.epoch
                """,
                .int(home.number)
            )
            for row in rows {
                facts.lastChange = max(facts.lastChange, row.unsigned(1))
                if row.bool(2), row.int(3) > 1 { continue }
                facts.endedEpochs[row.unsigned(0)] = row.unsigned(1)
            }
            facts.endedEpochs[facts.epoch] = nil
        }

        /// The greatest number of each zone: owners take their numbers for themselves, so a smaller number of another
        /// owner may be committed later.
        func position() throws -> MovePosition {
            guard scope != .relay else { return MovePosition(number: 0) }
            let table = PostgresMoveTable(.zone, of: home, scope)
            let rows = try connection.query("SELECT t.id, t.last_change \(table.source)")
            return MovePosition(number: 0, zones: Dictionary(rows.map { ($0.int(0), $0.unsigned(1)) }) { $1 })
        }

        func visit(_ table: MovedTable, _ selection: MoveSelection, _ body: (MovedRows) throws -> Void) throws {
            var zones: [(zone: Int64, after: UInt64)] = []
            if let after = selection.after {
                for (zone, last) in try position().zones where last > after.zones[zone] ?? 0 {
                    zones.append((zone, after.zones[zone] ?? 0))
                }
                if zones.isEmpty { return }
            }
            let sql = PostgresMoveTable(table, of: home, scope).select(selection, changed: zones)
            cursors += 1
            let cursor = "move\(cursors)"
            try connection.query("DECLARE \(cursor) NO SCROLL CURSOR FOR \(sql)")
            defer { _ = try? connection.query("CLOSE \(cursor)") }
            while true {
                let rows = try connection.query("FETCH \(Self.rowsAtOnce) FROM \(cursor)")
                if !rows.isEmpty { try body(MovedRows(rows, of: table)) }
                if rows.count < Self.rowsAtOnce { return }
            }
        }

        func names(of numbers: Set<Int64>, _ kind: MovedTable.Kind) throws -> [Int64: String] {
            let sql =
                switch kind {
                case .user: "SELECT id, name FROM person WHERE id = ANY($1)"
                case .type: "SELECT id, name FROM record_type WHERE id = ANY($1)"
                case .zone: "SELECT id, identity::text FROM zone WHERE id = ANY($1)"
                case .share: "SELECT id, guid FROM share WHERE id = ANY($1)"
                default: throw MoveFailure(.inconsistent, "Columns of the kind \(kind) have no names.")
                }
            let rows = try connection.query(sql, .ints(Array(numbers)))
            return Dictionary(rows.map { ($0.int(0), $0.text(1)) }) { $1 }
        }

        func count(_ table: MovedTable) throws -> Int64 {
            try connection.query("SELECT count(*) \(PostgresMoveTable(table, of: home, scope).source)").first?.int(0)
                ?? 0
        }

        func counts(_ table: MovedTable) throws -> [Int64: Int64] {
            let table = PostgresMoveTable(table, of: home, scope)
            let group = "t.\(table.keys[0])"
            let rows = try connection.query("SELECT \(group), count(*) \(table.source) GROUP BY 1")
            return Dictionary(rows.map { ($0.int(0), $0.int(1)) }) { $1 }
        }

        func keys(_ table: MovedTable, in group: Int64) throws -> MovedRows {
            let moved = PostgresMoveTable(table, of: home, scope)
            let rows = try connection.query(
                "SELECT \(moved.selectedKeys) FROM \(moved.name) t WHERE t.\(moved.keys[0]) = $1",
                .int(group)
            )
            return MovedRows(rows, of: table)
        }
    }

    extension HomeRow {
        /// Stands for the relay itself, which is in no container.
        static let none = HomeRow(number: 0, publicOwner: 0, publicZone: 0)
    }

    extension MovedRows {
        /// Takes rows that have the table's columns.
        init(_ rows: PostgresRows, of table: MovedTable) {
            self.init(of: table)
            let columns = Int32(table.columns.count)
            for row in rows {
                beginRow()
                for column in 0..<columns {
                    if row.isNull(column) { appendNull() } else { append(row.borrowedBytes(column)) }
                }
            }
        }
    }
#endif
