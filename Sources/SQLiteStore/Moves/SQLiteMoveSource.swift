import Foundation
import GRDB
package import Records
package import RelayCore
package import StoreKit

/// All rows of a container in one environment, or of the relay itself, as they leave a file; a relay may have the file
/// open and write.
package final class SQLiteMoveSource: MoveSource {
    private let queue: DatabaseQueue
    /// Whether it is the file of the accounts.
    private let isOfRelay: Bool

    /// Opens the file of a container for reading.
    ///
    /// - Throws: `DirectoryError` if it cannot be used.
    package convenience init(_ home: ContainerEnvironment, in folder: String) throws(DirectoryError) {
        try self.init(StoreFolder.path(of: home, in: folder), StoreLayout.file, isOfRelay: false)
    }

    /// Opens the file of the accounts for reading.
    package convenience init(accountsIn folder: String) throws(DirectoryError) {
        try self.init("\(folder)/relay.sqlite", AccountSchema.file, isOfRelay: true)
    }

    private init(_ path: String, _ layout: FileLayout, isOfRelay: Bool) throws(DirectoryError) {
        self.isOfRelay = isOfRelay
        do {
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(30)
            configuration.prepareDatabase { try $0.execute(sql: "PRAGMA mmap_size = 268435456") }
            queue = try DatabaseQueue.ofStore(path, configuration)
            let version = try queue.read { database in
                try FolderLayout.requireOwnFile(database, path)
                return try layout.version(of: database)
            }
            guard version == layout.version else {
                throw DirectoryError.unavailable(
                    "\(path) has the layout of an older version of zonecast. Start zonecast serve on the folder once, which updates it."
                )
            }
        } catch let error as DirectoryError {
            throw error
        } catch {
            throw DirectoryError(error, in: path)
        }
    }

    deinit { try? queue.close() }

    package var readsInOrderOfChanges: Bool { true }

    package func read<Result>(_ body: (any MoveReader) throws -> Result) throws -> Result {
        try queue.read { database in try body(SQLiteMoveReader(database, isOfRelay: isOfRelay)) }
    }
}

/// Reads what moves in the transaction that a connection has open.
final class SQLiteMoveReader: MoveReader {
    private let database: Database
    private let isOfRelay: Bool

    /// About so many bytes of rows are passed at once.
    private static let bytesAtOnce = 4 << 20

    init(_ database: Database, isOfRelay: Bool = false) {
        self.database = database
        self.isOfRelay = isOfRelay
    }

    func facts() throws -> MoveFacts {
        guard !isOfRelay else { return MoveFacts(publicIdentity: 0, epoch: 0, endedEpochs: [:], lastChange: 0) }
        guard let epochs = try Epochs(of: database) else { throw StoreFailure.damaged("the file has no epoch") }
        let identity = try Int64.fetchOne(database, sql: "SELECT identity FROM zone_row WHERE id = 1")
        guard let identity else { throw StoreFailure.damaged("the public database has no zone") }
        let versions = try Row.fetchAll(database, sql: "SELECT name, value FROM fact")
        let facts: [String: Int64] = Dictionary(versions.map { ($0[0], $0[1]) }) { $1 }
        return MoveFacts(
            publicIdentity: UInt64(bitPattern: identity),
            epoch: epochs.current,
            endedEpochs: epochs.ends,
            lastChange: try StoredState.greatestStamp(database),
            schemaVersion: facts["schema"] ?? 0,
            subscriptionsVersion: facts["subscriptions"] ?? 0
        )
    }

    func position() throws -> MovePosition {
        MovePosition(number: isOfRelay ? 0 : try StoredState.greatestStamp(database))
    }

    func visit(_ table: MovedTable, _ selection: MoveSelection, _ body: (MovedRows) throws -> Void) throws {
        let statement = try database.makeStatement(sql: SQLiteMoveTable(table).select(selection))
        try visit(SQL(statement.sqliteStatement, of: database), table, body)
    }

    func visit(_ statement: SQL, _ table: MovedTable, _ body: (MovedRows) throws -> Void) throws {
        defer { statement.reset() }
        var rows = MovedRows(of: table)
        let kinds = table.columns.map(\.kind)
        while try statement.step() {
            rows.beginRow()
            for (index, kind) in kinds.enumerated() {
                let column = Int32(index)
                if statement.isNull(column) {
                    rows.appendNull()
                    continue
                }
                switch kind {
                case .bool: rows.append(statement.bool(column))
                case .text: rows.append(statement.borrowedText(column))
                case .bytes: rows.append(statement.borrowedBlob(column))
                case .int, .user, .type, .zone, .share: rows.append(statement.int(column))
                }
            }
            if rows.bytes.count > Self.bytesAtOnce {
                try body(rows)
                rows.removeAll()
            }
        }
        if !rows.isEmpty { try body(rows) }
    }

    func names(of numbers: Set<Int64>, _ kind: MovedTable.Kind) throws -> [Int64: String] {
        let select =
            switch kind {
            case .user: "SELECT id, name FROM user WHERE id"
            case .type: "SELECT id, name FROM record_type WHERE id"
            case .zone: "SELECT id, CAST(identity AS TEXT) FROM zone_row WHERE id"
            case .share: "SELECT id, guid FROM share WHERE id"
            case .int, .bool, .text, .bytes:
                throw MoveFailure(.inconsistent, "Columns of the kind \(kind) have no names.")
            }
        var found: [Int64: String] = [:]
        var rest = Array(numbers)[...]
        while !rest.isEmpty {
            let some = rest.prefix(1_000).map(String.init).joined(separator: ",")
            rest = rest.dropFirst(1_000)
            let rows = try Row.fetchCursor(database.makeStatement(sql: "\(select) IN (\(some))"))
            while let row = try rows.next() { found[row[0]] = row[1] }
        }
        return found
    }

    func count(_ table: MovedTable) throws -> Int64 {
        try Int64.fetchOne(database, sql: "SELECT count(*) \(SQLiteMoveTable(table).source)") ?? 0
    }

    func counts(_ table: MovedTable) throws -> [Int64: Int64] {
        let table = SQLiteMoveTable(table)
        let rows = try Row.fetchAll(database, sql: "SELECT t.\(table.keys[0]), count(*) \(table.source) GROUP BY 1")
        return Dictionary(rows.map { ($0[0], $0[1]) }) { $1 }
    }

    func keys(_ table: MovedTable, in group: Int64) throws -> MovedRows {
        let stored = SQLiteMoveTable(table)
        let statement = try database.makeStatement(
            sql: "SELECT \(stored.selectedKeys) FROM \(stored.name) t WHERE t.\(stored.keys[0]) = \(group)"
        )
        var all = MovedRows(of: table)
        try visit(SQL(statement.sqliteStatement, of: database), table) { rows in rows.forEach { all.append($0) } }
        return all
    }
}
