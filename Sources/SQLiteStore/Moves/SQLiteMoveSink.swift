import Foundation
import GRDB
package import Records
import RelayCore
package import RelaySystem
package import StoreKit

/// All rows of a container in one environment, or of the relay itself, as they come into a file that no relay has open.
package final class SQLiteMoveSink: MoveSink {
    private let queue: DatabaseQueue
    /// Whether it is the file of the accounts.
    private let isOfRelay: Bool
    /// The open transaction.
    private var open: Database?
    /// The numbers of zones by their identities.
    private var zones: [String: Int64] = [:]

    /// Opens the file of the container, creating it if necessary.
    package convenience init(_ home: ContainerEnvironment, in folder: String, disk: DiskCalls = .system) throws {
        let path = StoreFolder.path(of: home, in: folder)
        try StoreFolder.makeFolder(ofFile: path, in: folder, by: disk)
        try StoreLayout.makeFile(path, disk)
        try self.init(path, StoreLayout.file, isOfRelay: false)
    }

    /// Opens the file of the accounts, creating it if necessary.
    package convenience init(accountsIn folder: String) throws {
        try self.init("\(folder)/relay.sqlite", AccountSchema.file, isOfRelay: true)
    }

    private init(_ path: String, _ layout: FileLayout, isOfRelay: Bool) throws {
        self.isOfRelay = isOfRelay
        var configuration = Configuration()
        configuration.busyMode = .timeout(30)
        configuration.prepareDatabase { database in
            CheckedVFS.reserveChecksumSpace(database)
            try database.execute(sql: "PRAGMA cache_size = -65536")
        }
        queue =
            isOfRelay
            ? try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
            : try DatabaseQueue.ofStore(path, configuration)
        try queue.enableDurableLog()
        try queue.inDatabase { try layout.migrate($0) }
    }

    deinit { try? queue.close() }

    package func transaction<Result>(_ body: () throws -> Result) throws -> Result {
        try queue.inDatabase { database in
            try database.execute(sql: "BEGIN IMMEDIATE")
            open = database
            defer { open = nil }
            do {
                let result = try body()
                try CheckedVFS.bufferingFrames(database) { try database.execute(sql: "COMMIT") }
                return result
            } catch {
                zones = [:]
                if database.isInsideTransaction { try? database.execute(sql: "ROLLBACK") }
                throw error
            }
        }
    }

    private func database() throws -> Database {
        guard let open else { throw MoveFailure(.inconsistent, "Rows come outside of a transaction.") }
        return open
    }

    package func begin(_ facts: MoveFacts) throws {
        let database = try database()
        guard !isOfRelay else { return }
        if try Epochs(of: database) == nil {
            var drawn = [facts.epoch, facts.publicIdentity]
            try StoreLayout.begin(database) { drawn.removeFirst() }
        }
        guard try SQLiteMoveReader(database).facts().publicIdentity == facts.publicIdentity else {
            throw MoveFailure(.occupied, "The folder has other data of this container already.")
        }
    }

    package func numbers(of names: [String], _ kind: MovedTable.Kind) throws -> [String: Int64] {
        let database = try database()
        var found: [String: Int64] = [:]
        switch kind {
        case .user:
            for name in names {
                try database.execute(sql: "INSERT OR IGNORE INTO user (name) VALUES (?)", arguments: [name])
                found[name] = try Int64.fetchOne(database, sql: "SELECT id FROM user WHERE name = ?", arguments: [name])
            }
        case .type:
            for name in names {
                try database.execute(
                    sql: "INSERT OR IGNORE INTO record_type (name, declared) VALUES (?, 0)",
                    arguments: [name]
                )
                found[name] = try Int64.fetchOne(
                    database,
                    sql: "SELECT id FROM record_type WHERE name = ?",
                    arguments: [name]
                )
            }
        case .zone:
            if names.contains(where: { zones[$0] == nil }) { try readZones(database) }
            for name in names { found[name] = zones[name] }
        case .share:
            for name in names {
                found[name] = try Int64.fetchOne(
                    database,
                    sql: "SELECT id FROM share WHERE guid = ?",
                    arguments: [name]
                )
            }
        case .int, .bool, .text, .bytes: break
        }
        return found
    }

    private func readZones(_ database: Database) throws {
        let rows = try Row.fetchAll(database, sql: "SELECT CAST(identity AS TEXT), id FROM zone_row")
        zones = Dictionary(rows.map { ($0[0], $0[1]) }) { $1 }
    }

    // MARK: Rows

    package func insert(_ rows: MovedRows) throws { try upsert(rows) }

    package func upsert(_ rows: MovedRows) throws {
        guard !rows.isEmpty else { return }
        let database = try database()
        switch rows.table {
        case .zone: try upsertZones(rows, database)
        case .doneWrite:
            try run(
                """
                INSERT INTO done_write (generation, user, id, print, places)
                VALUES ((SELECT coalesce(max(generation), 1) FROM done_write), ?, ?, ?, ?)
                ON CONFLICT (generation, user, id) DO UPDATE SET print = excluded.print, places = excluded.places
                """,
                for: rows,
                database
            )
        case .ownerDoneWrite, .ownerSignedWrite:
            throw MoveFailure(.inconsistent, "A file has no \(rows.table.rawValue).")
        default:
            let table = SQLiteMoveTable(rows.table)
            let changes = table.columns.dropFirst(rows.table.keyCount).map { "\($0) = excluded.\($0)" }
            let action = changes.isEmpty ? "NOTHING" : "UPDATE SET \(changes.joined(separator: ", "))"
            let places = table.columns.map { _ in "?" }.joined(separator: ", ")
            try run(
                """
                INSERT INTO \(table.name) (\(table.columns.joined(separator: ", "))) VALUES (\(places))
                ON CONFLICT (\(table.keys.joined(separator: ", "))) DO \(action)
                """,
                for: rows,
                database
            )
            if rows.table == .record { try enterRuns(of: rows, database) }
        }
    }

    private func enterRuns(of rows: MovedRows, _ database: Database) throws {
        let statement = try SQL("INSERT OR IGNORE INTO zone_run (zone, run) VALUES (?, ?)", in: database)
        var latest: (Int64, Int64)?
        try rows.forEach { row in
            let entry = (row.int(0), row.int(2) >> Int64(StoreLayout.runShift))
            if let latest, latest == entry { return }
            latest = entry
            statement.bind(1, entry.0)
            statement.bind(2, entry.1)
            try statement.run()
        }
    }

    private func upsertZones(_ rows: MovedRows, _ database: Database) throws {
        try readZones(database)
        let update = try SQL(
            "UPDATE zone_row SET owner = ?2, name = ?3, shared = ?4, deleted = ?5, ended = ?6, loss = ?7 WHERE id = ?1",
            in: database
        )
        // Rows of a zone that was deleted before it came never came.
        let insert = try SQL(
            """
            INSERT INTO zone_row (identity, owner, name, shared, deleted, ended, loss, purged)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5)
            """,
            in: database
        )
        let stamp = try SQL("INSERT OR REPLACE INTO zone_stamp VALUES (?, ?, ?, ?, ?)", in: database)
        try rows.forEach { row in
            let identity = "\(row.int(0))"
            let known = zones[identity]
            let statement = known == nil ? insert : update
            statement.bind(1, known ?? row.int(0))
            statement.bind(2, row.int(1))
            statement.bind(3, row.text(2))
            statement.bind(4, row.int(8))
            statement.bind(5, row.bool(9))
            statement.bind(6, row.int(10))
            statement.bind(7, row.int(11))
            try statement.run()
            let number = known ?? database.lastInsertedRowID
            zones[identity] = number
            stamp.bind(1, number)
            for column in 3...6 { stamp.bind(Int32(column - 1), row.int(column)) }
            try stamp.run()
            if row.int(7) > 0 {
                try database.execute(
                    sql: "INSERT OR REPLACE INTO zone_horizon (zone, change) VALUES (?, ?)",
                    arguments: [number, row.int(7)]
                )
            }
        }
    }

    /// Runs a statement with the columns of each row.
    private func run(_ sql: String, for rows: MovedRows, keysOnly: Bool = false, _ database: Database) throws {
        let statement = try SQL(sql, in: database)
        let kinds = rows.table.columns.map(\.kind).prefix(keysOnly ? rows.table.keyCount : .max)
        try rows.forEach { row in
            for (index, kind) in kinds.enumerated() {
                let parameter = Int32(index + 1)
                if row.isNull(index) {
                    statement.bind(parameter, blob: nil)
                    continue
                }
                switch kind {
                case .bool: statement.bind(parameter, row.bool(index))
                case .text:
                    statement.bind(parameter, borrowedText: row.value(index).assumingMemoryBound(to: UInt8.self))
                case .bytes: statement.bind(parameter, borrowedBlob: row.value(index))
                case .int, .user, .type, .zone, .share: statement.bind(parameter, row.int(index))
                }
            }
            try statement.run()
        }
    }

    package func delete(_ keys: MovedRows) throws {
        guard !keys.isEmpty else { return }
        let database = try database()
        let table = SQLiteMoveTable(keys.table)
        let isSame = table.keys.map { "\($0) = ?" }.joined(separator: " AND ")
        if keys.table == .share {
            // The others go with the share, by their foreign keys.
            try run(
                "DELETE FROM share_entry WHERE share = (SELECT id FROM share WHERE guid = ?)",
                for: keys,
                keysOnly: true,
                database
            )
        }
        try run("DELETE FROM \(table.name) WHERE \(isSame)", for: keys, keysOnly: true, database)
    }

    package func removeAll(_ table: MovedTable) throws {
        try database().execute(sql: "DELETE FROM \(SQLiteMoveTable(table).name)")
        if table == .record { try database().execute(sql: "DELETE FROM zone_run") }
    }

    package func existing(_ keys: MovedRows) throws -> MovedRows {
        let database = try database()
        let table = SQLiteMoveTable(keys.table)
        let isSame = table.keys.map { "t.\($0) = ?" }.joined(separator: " AND ")
        let statement = try SQL("SELECT \(table.selected) FROM \(table.name) t WHERE \(isSame)", in: database)
        let kinds = keys.table.columns.map(\.kind).prefix(keys.table.keyCount)
        let reader = SQLiteMoveReader(database)
        var found = MovedRows(of: keys.table)
        try keys.forEach { row in
            for (index, kind) in kinds.enumerated() {
                let parameter = Int32(index + 1)
                switch kind {
                case .text: statement.bind(parameter, row.text(index))
                case .bytes: statement.bind(parameter, blob: row.array(index))
                default: statement.bind(parameter, row.int(index))
                }
            }
            try reader.visit(statement, keys.table) { rows in rows.forEach { found.append($0) } }
        }
        return found
    }

    package func greatestChange() throws -> UInt64 {
        isOfRelay ? 0 : UInt64(try Int64.fetchOne(database(), sql: "SELECT coalesce(max(change), 0) FROM record") ?? 0)
    }

    package func reader() throws -> any MoveReader { SQLiteMoveReader(try database(), isOfRelay: isOfRelay) }

    // MARK: End

    /// The relay that opens the file begins an epoch of its own before its first write, as always.
    package func finish(_ facts: MoveFacts) throws {
        guard !isOfRelay else { return }
        let database = try database()
        try database.execute(sql: "DELETE FROM ended_epoch")
        for (epoch, last) in facts.endedEpochs {
            try database.execute(
                sql: "INSERT INTO ended_epoch (epoch, last_change) VALUES (?, ?)",
                arguments: [Int64(bitPattern: epoch), Int64(bitPattern: last)]
            )
        }
        for (name, value) in [
            ("epoch", Int64(bitPattern: facts.epoch)), ("schema", facts.schemaVersion),
            ("subscriptions", facts.subscriptionsVersion),
        ] {
            try database.execute(
                sql: "INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)",
                arguments: [name, value]
            )
        }
    }
}
