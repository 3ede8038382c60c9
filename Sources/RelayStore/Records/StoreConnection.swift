import CSQLiteSettings
import Foundation
import GRDB
import GRDBSQLite
import Synchronization

/// One of a store's connections, with what it keeps from one access to the next.
// Unchecked for SQLite's handles: one thread at a time uses them, whoever has taken it from its place, or holds the writer's queue.
final class StoreConnection: @unchecked Sendable {
    /// Statements that every write needs: found by their places, where a cache would hash their text each time.
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
    /// SQLite's number for the file's content that we know: since our latest commit nobody else has written, or what they
    /// wrote has been looked at.
    private var knownVersion: UInt32?
    private var hasLooked = false

    /// The thread that is in `write`; 0: none.
    private let user = Atomic<UInt>(0)

    init(_ queue: DatabaseQueue) { self.queue = queue }

    /// Whether it is this thread that writes, for which to ask for more would be to wait for itself.
    var isInUseHere: Bool { user.load(ordering: .relaxed) == Self.thisThread }

    private static var thisThread: UInt {
        #if canImport(Darwin)
            UInt(bitPattern: pthread_self())
        #else
            UInt(pthread_self())
        #endif
    }

    /// Has SQLite not copy the log into the file when this closes.
    func leaveLog() {
        queue.inDatabase { database in
            guard let handle = database.sqliteConnection else { return }
            _ = zonecast_sqlite_leave_log(handle)
        }
    }

    func close() {
        // SQLite does not close under a statement.
        queue.inDatabase { _ in
            kept = kept.map { _ in nil }
            isClosed = true
        }
        try? queue.close()
    }

    func statement(_ which: Kept, in database: Database) throws -> SQL {
        if let known = kept[which.rawValue] { return known.sql }
        // Whoever waited for their turn while the store was closed.
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

    /// Runs `body` in a transaction, and returns when that is on disk; nothing of it is kept when it throws.
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
            // What another process wrote stays new to us until somebody asks for it.
            if wasKnown || hasLooked { knownVersion = Self.version(of: database) }
            return result
        }
    }

    /// Whether somebody else may have written to the file what nobody here has looked at; for those in a transaction, who
    /// look at it then.
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
