import CSQLiteSettings
import Foundation
package import GRDB
import GRDBSQLite
import RelaySystem
import StoreKit
import Synchronization

/// A store's connections to its SQLite file: one writer, and as many readers as threads read at once.
///
/// GRDB's pool is not used: for each access it parses SQL to begin and end a transaction, reads the schema's version
/// and searches its connections, which costs several times what SQLite needs to find a record. Here a read costs two
/// cached statements.
package final class StoreConnections: Sendable {
    private let writer: StoreConnection
    /// `nil` in memory.
    private let log: WriteAheadLog?
    /// `nil` in memory.
    private let copier: Checkpointer?
    /// Opens another reader; `nil` in memory, where one connection does everything.
    private let openReader: (@Sendable () throws -> StoreConnection)?
    private let restingReaders = Mutex<[StoreConnection]>([])

    /// The number of log pages that are copied into the file at once.
    static let usualCheckpoint = 8_000

    /// The number of idle readers to keep; more exist only while more threads read.
    private static let keptReaders = 16

    /// Opens the file, creating it if necessary; its folder must exist.
    ///
    /// `scheduler`, if given, runs the copying of the log in place of a queue.
    init(
        _ place: SQLiteStore.Place,
        checkpointPages: Int = usualCheckpoint,
        disk: DiskCalls = .system,
        scheduler: CommitScheduler? = nil
    ) throws {
        var configuration = Configuration()
        configuration.label = "zonecast-store"
        // Other processes, such as commands and backups, lock the file only for moments.
        configuration.busyMode = .timeout(5)
        switch place {
        case .memory:
            let queue = try DatabaseQueue(configuration: configuration)
            writer = StoreConnection(queue)
            openReader = nil
            log = nil
            copier = nil
            // Copied page by page, since tests open thousands.
            try Self.emptyStore.get().backup(to: queue)
            return
        case .file(let path):
            configuration.prepareDatabase { database in
                CheckedVFS.reserveChecksumSpace(database)
                try database.execute(sql: "PRAGMA cache_size = -32768")
            }
            var reading = configuration
            reading.readonly = true
            // Readers only: a writer gets no mapped pages, and would search the log for each page that it has already.
            reading.prepareDatabase { try $0.execute(sql: "PRAGMA mmap_size = 268435456") }
            try StoreLayout.makeFile(path, disk)
            let queue = try DatabaseQueue.ofStore(path, configuration)
            try queue.read { try StoreLayout.requireOwnFile($0, path) }
            let address = CheckedVFS.address(of: path)
            writer = StoreConnection(queue)
            openReader = { [reading] in
                StoreConnection(try DatabaseQueue(path: address, configuration: reading))
            }
            try queue.enableDurableLog()
            let mostRest = scheduler == nil ? 600 : checkpointPages / 4
            let log = WriteAheadLog(checkpointPages: checkpointPages, mostRest: mostRest)
            writer.inDatabase { log.watch($0) }
            self.log = log
            copier = Checkpointer(log, scheduler: scheduler) { [configuration] in
                let connection = try DatabaseQueue(path: address, configuration: configuration)
                try connection.enableDurableLog()
                return connection
            }
            try queue.inDatabase { try StoreLayout.file.migrate($0) }
        }
    }

    /// An empty store with its tables, created once and copied for each store in memory.
    private static let emptyStore = Result {
        let store = try DatabaseQueue()
        try store.inDatabase { try StoreLayout.file.migrate($0) }
        return store
    }

    /// Writes the log of an earlier process to the disk, before anything reads it.
    ///
    /// A process that was killed between writing a commit and flushing it, or whose flush failed, leaves a log that
    /// shows the commit but may lose it in a power cut. Its change numbers would then be used for other changes,
    /// although clients had read them.
    func flushLog(_ path: String, by disk: DiskCalls) throws {
        try writer.inDatabase { try Self.flushLog($0, path, by: disk) }
    }

    /// Does the same for any file in WAL mode.
    static func flushLog(of writer: DatabaseQueue, _ path: String, by disk: DiskCalls) throws {
        try writer.inDatabase { try flushLog($0, path, by: disk) }
    }

    private static func flushLog(_ database: Database, _ path: String, by disk: DiskCalls) throws {
        guard WALCheck.size(of: path + "-wal") ?? 0 > WALChecksum.headerSize else { return }
        // Only the holder of the lock writes to the log.
        try database.execute(sql: "BEGIN IMMEDIATE")
        defer { if database.isInsideTransaction { try? database.execute(sql: "ROLLBACK") } }
        try disk.rewrite(path + "-wal")
        do {
            try overwriteLogEnd(of: database)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            // A store that cannot be written may still be read.
        }
    }

    /// Commits one page unchanged.
    ///
    /// If another process has kept the file open, a commit whose flush failed is past the end of the log, where it is
    /// ignored until the end is searched again after a power cut. A new frame in its place prevents that.
    private static func overwriteLogEnd(of database: Database) throws {
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        try database.execute(sql: "PRAGMA user_version = \(version); COMMIT")
    }

    /// Closes all connections.
    ///
    /// - Parameter leavesLog: whether the log stays beside the file, as when a process is killed; otherwise SQLite
    ///   copies it into the file and flushes both. All commits are on disk in both cases.
    func close(leavesLog: Bool = false) {
        if leavesLog { writer.leaveLog() }
        copier?.close()
        restingReaders.withLock { readers in
            readers.forEach { $0.close() }
            readers = []
        }
        writer.close()
    }

    /// Runs `body` on one committed state, on this thread.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try read { database, _ in try body(database) }
    }

    func read<Result>(_ body: (Database, StoreConnection) throws -> Result) throws -> Result {
        guard let reader = try takeReader() else { return try writer.read { try body($0, writer) } }
        defer {
            let isKept = restingReaders.withLock { readers in
                guard readers.count < Self.keptReaders else { return false }
                readers.append(reader)
                return true
            }
            if !isKept { reader.close() }
        }
        return try reader.read { try body($0, reader) }
    }

    /// Returns an idle reader, or a new one.
    ///
    /// Returns `nil` if only the writer can read: in memory, and if the process has no file descriptor left. Reads then
    /// wait for commits, but are answered.
    private func takeReader() throws -> StoreConnection? {
        guard let openReader else { return nil }
        if let resting = restingReaders.withLock({ $0.popLast() }) { return resting }
        do {
            return try openReader()
        } catch {
            guard !writer.isInUseOnThisThread, Descriptors.areShort else { throw error }
            return nil
        }
    }

    /// Runs `body` in a transaction, and returns when it is on disk; rolls back if `body` throws.
    package func write<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try write { database, _ in try body(database) }
    }

    func write<Result>(_ body: (Database, StoreConnection) throws -> Result) throws -> Result {
        try writer.write { database in
            log?.makeRoom(in: database)
            return try body(database, writer)
        }
    }

    /// Copies the log into the file if it is long enough, mostly while commits continue.
    ///
    /// Called when no caller waits for an answer. Throws, or calls `onFailure` later, if the disk failed; the content
    /// of the file is unknown then.
    func checkpointIfDue(onFailure: @escaping @Sendable (any Error) -> Void) throws {
        guard let log, let copier else { return }
        switch log.need {
        case .nothing: return
        case .copyRest: try writer.inDatabase { try log.checkpoint($0) }
        case .copyConcurrently: copier.begin(onFailure: onFailure)
        }
    }

    /// Runs `body` on the writing connection, outside of a transaction.
    func inspect<Result>(_ body: (Database) throws -> Result) throws -> Result { try writer.inDatabase(body) }
}

/// One of a store's SQLite connections, with its cached statements.
// Unchecked for SQLite's handles: used by one thread at a time, which took the connection or holds the writer's queue.
final class StoreConnection: @unchecked Sendable {
    /// Statements that every write needs, found by index: a cache by SQL text would hash the text each time.
    enum CachedStatement: Int, CaseIterable {
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
    private var cached: [(statement: Statement, sql: SQL)?] = Array(
        repeating: nil,
        count: CachedStatement.allCases.count
    )
    private var isClosed = false
    /// SQLite's data version of the content we know: unchanged since our latest commit, or read since it changed.
    private var knownVersion: UInt32?
    private var hasLooked = false
    private var visitor: RowVisitor?

    /// The thread inside `write`; 0 means none.
    private let user = Atomic<UInt>(0)

    init(_ queue: DatabaseQueue) { self.queue = queue }

    /// Whether this thread is inside `write`, so that waiting for the writer would be a deadlock.
    var isInUseOnThisThread: Bool { user.load(ordering: .relaxed) == Self.thisThread }

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
            cached = cached.map { _ in nil }
            isClosed = true
        }
        try? queue.close()
    }

    func statement(_ which: CachedStatement, in database: Database) throws -> SQL {
        if let known = cached[which.rawValue] { return known.sql }
        // The store was closed while the caller waited for the queue.
        guard !isClosed else { throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "The store is closed.") }
        let statement = try database.makeStatement(sql: which.text)
        let sql = SQL(statement.sqliteStatement, of: database)
        cached[which.rawValue] = (statement, sql)
        return sql
    }

    /// Returns the connection's visitor for rows of `SQLiteReader.recordColumns`.
    func recordVisitor(_ database: Database) throws -> RowVisitor {
        if let visitor { return visitor }
        let made = try RowVisitor(database, columns: SQLiteReader.recordColumnCount)
        visitor = made
        return made
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
        _ begin: CachedStatement,
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
                try CheckedVFS.bufferingFrames(database) { try commit.run() }
            }
            return result
        } catch {
            // Some failures have rolled back already.
            if database.isInsideTransaction { try? statement(.rollback, in: database).run() }
            throw error
        }
    }
}
