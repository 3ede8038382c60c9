import Foundation
import GRDB
import Synchronization

/// A store's connections to its SQLite file: one that writes, and as many that read as are read from at once.
///
/// Not GRDB's pool: for each access that parses SQL to begin and to end, asks for the schema's version and searches its
/// connections, which costs several times what SQLite needs to find a record. Here a read is two kept statements.
final class StoreConnections: Sendable {
    private let writer: StoreConnection
    /// `nil` in memory.
    private let log: WriteAheadLog?
    /// Likewise.
    private let copier: LogCopier?
    /// What opens another reader; `nil` in memory, where the one connection does everything.
    private let openReader: (@Sendable () throws -> StoreConnection)?
    private let restingReaders = Mutex<[StoreConnection]>([])

    /// Pages of log that are written back at once.
    static let usualCheckpoint = 8_000

    /// Readers kept open; there are more only while more threads read.
    private static let keptReaders = 16

    /// Opens the file, or makes it; its folder must exist.
    ///
    /// `later`, where given, copies the log beside commits, in place of a queue: then any rest is too much for the writer.
    init(
        _ place: SQLiteStore.Place,
        checkpointPages: Int = usualCheckpoint,
        disk: DiskCalls = .system,
        later: CommitLater? = nil
    ) throws {
        var configuration = Configuration()
        configuration.label = "zonecast-store"
        // Another process holds the file's lock for a moment only: the command line, or a backup.
        configuration.busyMode = .timeout(5)
        switch place {
        case .memory:
            let queue = try DatabaseQueue(configuration: configuration)
            writer = StoreConnection(queue)
            openReader = nil
            log = nil
            copier = nil
            // Copied page by page: tests open thousands.
            try Self.blank.get().backup(to: queue)
            return
        case .file(let path):
            configuration.prepareDatabase { database in
                CheckedVFS.leaveRoom(database)
                try database.execute(sql: "PRAGMA cache_size = -32768")
            }
            var reading = configuration
            reading.readonly = true
            // Only here: whoever writes gets no mapped pages, and would search the log for each page it has already.
            reading.prepareDatabase { try $0.execute(sql: "PRAGMA mmap_size = 268435456") }
            try StoreLayout.makeFile(path, disk)
            let queue = try DatabaseQueue.ofStore(path, configuration)
            try StoreLayout.demandOurs(queue, path)
            let address = CheckedVFS.address(of: path)
            writer = StoreConnection(queue)
            openReader = { [reading] in
                StoreConnection(try DatabaseQueue(path: address, configuration: reading))
            }
            try queue.keepDurableLog()
            let mostRest = later == nil ? 600 : checkpointPages / 4
            let log = WriteAheadLog(checkpointPages: checkpointPages, mostRest: mostRest)
            writer.inDatabase { log.watch($0) }
            self.log = log
            copier = LogCopier(log, later: later) { [configuration] in
                let connection = try DatabaseQueue(path: address, configuration: configuration)
                try connection.keepDurableLog()
                return connection
            }
            try StoreLayout.migrate(queue)
        }
    }

    /// A store without content, laid out once for all that are opened in memory.
    private static let blank = Result {
        let store = try DatabaseQueue()
        try StoreLayout.migrate(store)
        return store
    }

    /// Puts on the disk what an earlier process left in the log, before anybody reads it.
    ///
    /// A process that was killed between writing a commit and flushing it, or whose flush failed, leaves a log that shows the
    /// commit and may yet lose it to a power cut: then its numbers would be given to other changes, behind the back of
    /// those who have read it.
    func settleLog(_ path: String, by disk: DiskCalls) throws {
        try writer.inDatabase { try Self.settleLog($0, path, by: disk) }
    }

    /// The same for any file in WAL mode.
    static func settleLog(of writer: DatabaseQueue, _ path: String, by disk: DiskCalls) throws {
        try writer.inDatabase { try settleLog($0, path, by: disk) }
    }

    private static func settleLog(_ database: Database, _ path: String, by disk: DiskCalls) throws {
        guard LogCheck.size(of: path + "-wal") ?? 0 > LogSum.headSize else { return }
        // Whoever holds the lock is the only one who writes to the log.
        try database.execute(sql: "BEGIN IMMEDIATE")
        defer { if database.isInsideTransaction { try? database.execute(sql: "ROLLBACK") } }
        try disk.rewrite(path + "-wal")
        do {
            try coverEnd(of: database)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            // Whoever cannot write may still read.
        }
    }

    /// Commits a page as it is.
    ///
    /// Where another process has had the file open all the time, a commit whose flush failed lies behind the log's end: nobody
    /// sees it, until after a power cut the end is looked for anew. A frame in its place ends that.
    private static func coverEnd(of database: Database) throws {
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        try database.execute(sql: "PRAGMA user_version = \(version); COMMIT")
    }

    /// - Parameter leavesLog: whether the log stays beside the file, as it does when a process is killed, where SQLite would
    ///   copy it into the file and flush both: what is committed is on the disk either way.
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

    /// One that rests, or another; `nil` where only the writer is left to read with: in memory, and where the process has no
    /// descriptor for one more, so that reads then wait for commits, and are answered.
    private func takeReader() throws -> StoreConnection? {
        guard let openReader else { return nil }
        if let resting = restingReaders.withLock({ $0.popLast() }) { return resting }
        do {
            return try openReader()
        } catch {
            guard !writer.isInUseHere, Descriptors.areShort else { throw error }
            return nil
        }
    }

    /// Runs `body` in a transaction, and returns when that is on disk; nothing of it is kept when it throws.
    func write<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try write { database, _ in try body(database) }
    }

    func write<Result>(_ body: (Database, StoreConnection) throws -> Result) throws -> Result {
        try writer.write { database in
            log?.makeRoom(in: database)
            return try body(database, writer)
        }
    }

    /// Copies the log into the file where there is enough of it, most of it while commits go on; for when nobody waits for
    /// an answer.
    ///
    /// Throws where the disk failed, or tells `onFailure` later: what the file holds is unknown then.
    func checkpointIfDue(onFailure: @escaping @Sendable (any Error) -> Void) throws {
        guard let log, let copier else { return }
        switch log.need {
        case .nothing: return
        case .copyRest: try writer.inDatabase { try log.checkpoint($0) }
        case .copyBeside: copier.begin(onFailure: onFailure)
        }
    }

    /// Runs `body` on the connection that writes, outside of a transaction.
    func inspect<Result>(_ body: (Database) throws -> Result) throws -> Result { try writer.inDatabase(body) }
}
