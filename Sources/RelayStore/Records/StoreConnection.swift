import CSQLiteSettings
import Foundation
import GRDB
import GRDBSQLite
import Synchronization

/// One of a store's SQLite connections, with its cached statements.
// Unchecked for SQLite's handles: used by one thread at a time, which took the connection or holds the writer's queue.
final class StoreConnection: @unchecked Sendable {
    /// Statements that every write needs, found by index: a cache by SQL text would hash the text each time.
    enum Kept: Int, CaseIterable {
        case begin, beginImmediate, commit, rollback
        case recordByName, insertRecord, insertRecords, updateRecord, stampZone, stampZones

        var text: String {
            switch self {
            case .begin: "BEGIN"
            case .beginImmediate: "BEGIN IMMEDIATE"
            case .commit: "COMMIT"
            case .rollback: "ROLLBACK"
            case .recordByName: SQLiteReader.byName
            case .insertRecord: SQLiteWriter.insert
            case .insertRecords: SQLiteWriter.insertSeveral
            case .updateRecord: SQLiteWriter.update
            case .stampZone: SQLiteWriter.stampZone
            case .stampZones: SQLiteWriter.stampZones
            }
        }
    }

    private let queue: DatabaseQueue
    private var kept: [(statement: Statement, sql: SQL)?] = Array(repeating: nil, count: Kept.allCases.count)
    private var isClosed = false
    /// SQLite's data version of the content we know: unchanged since our latest commit, or read since it changed.
    private var knownVersion: UInt32?
    private var hasLooked = false

    /// The thread inside `write`; 0 means none.
    private let user = Atomic<UInt>(0)

    init(_ queue: DatabaseQueue) { self.queue = queue }

    /// Whether this thread is inside `write`, so that waiting for the writer would be a deadlock.
    var isInUseHere: Bool { user.load(ordering: .relaxed) == Self.thisThread }

    private static var thisThread: UInt {
        #if canImport(Darwin)
            UInt(bitPattern: pthread_self())
        #else
            UInt(pthread_self())
        #endif
    }

    /// Keeps SQLite from copying the log into the file when this connection closes.
    func leaveLog() {
        queue.inDatabase { database in
            guard let handle = database.sqliteConnection else { return }
            _ = zonecast_sqlite_leave_log(handle)
        }
    }

    func close() {
        // SQLite does not close a connection that has statements.
        queue.inDatabase { _ in
            kept = kept.map { _ in nil }
            isClosed = true
        }
        try? queue.close()
    }

    func statement(_ which: Kept, in database: Database) throws -> SQL {
        if let known = kept[which.rawValue] { return known.sql }
        // The store was closed while the caller waited for the queue.
        guard !isClosed else { throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "The store is closed.") }
        let statement = try database.makeStatement(sql: which.text)
        let sql = SQL(statement.sqliteStatement, of: database)
        kept[which.rawValue] = (statement, sql)
        return sql
    }

    /// Runs `body` outside of a transaction.
    func inDatabase<Result>(_ body: (Database) throws -> Result) rethrows -> Result { try queue.inDatabase(body) }

    /// Runs `body` on one committed state.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try queue.inDatabase { try transact(.begin, $0, body) }
    }

    /// Runs `body` in a transaction, and returns when it is on disk; rolls back if `body` throws.
    func write<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try queue.inDatabase { database in
            user.store(Self.thisThread, ordering: .relaxed)
            defer { user.store(0, ordering: .relaxed) }
            hasLooked = false
            var wasKnown = false
            let result = try transact(.beginImmediate, database) { database in
                wasKnown = knownVersion == Self.version(of: database)
                return try body(database)
            }
            // A change by another process stays unknown until `isTouched` is called.
            if wasKnown || hasLooked { knownVersion = Self.version(of: database) }
            return result
        }
    }

    /// Returns whether another process may have written something that this one has not read.
    ///
    /// Must be called in a transaction, in which the caller then reads it.
    func isTouched(_ database: Database) -> Bool {
        hasLooked = true
        return knownVersion.map { $0 != Self.version(of: database) } ?? true
    }

    private static func version(of database: Database) -> UInt32? {
        var version: UInt32 = 0
        let status = sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_DATA_VERSION, &version)
        return status == SQLITE_OK ? version : nil
    }

    private func transact<Result>(
        _ begin: Kept,
        _ database: Database,
        _ body: (Database) throws -> Result
    ) throws -> Result {
        try statement(begin, in: database).run()
        do {
            let result = try body(database)
            let commit = try statement(.commit, in: database)
            if begin == .begin {
                try commit.run()
            } else {
                try CheckedVFS.gatheringFrames(database) { try commit.run() }
            }
            return result
        } catch {
            // Some failures have rolled back already.
            if database.isInsideTransaction { try? statement(.rollback, in: database).run() }
            throw error
        }
    }
}
