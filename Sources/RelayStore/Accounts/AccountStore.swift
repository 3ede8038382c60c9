import Foundation
import GRDB
import Records
package import RelayCore
import Synchronization

/// Accounts, sessions and keys, in `relay.sqlite`, which the relay and commands may have open at the same time.
///
/// Stores no secret that a thief of the file could use: tokens only as hashes, passwords only as scrypt hashes. One
/// connection writes, each change in a transaction of its own that is on disk when the call returns (WAL,
/// `synchronous=FULL`). Another connection reads, so that a flush does not delay lookups.
package final class AccountStore: Directory {
    let writer: DatabaseQueue
    let reader: DatabaseQueue
    let time: TimeSource
    let random: RandomSource
    let cost: ScryptCost
    private let key: [UInt8]
    private let onLostWrite: @Sendable () -> Void
    private let isStopped = Mutex(false)
    /// The entry that the next write adds to the audit log in its own transaction.
    let noteOfNextWrite = Mutex<AuditEntry?>(nil)
    /// Containers that have been found in the file, from which a running relay never removes one.
    ///
    /// Each new device looks its container up with `--dev`.
    let seenContainers = Mutex<Set<ContainerID>>([])

    /// Opens the file in `folder`, creating both if they are missing, accessible to the owner only.
    ///
    /// `onLostWrite`, which a relay passes, is called once if the disk fails to keep a change. No other change is
    /// accepted then, and the process should exit and start again. The log that such a process left is written to disk
    /// first.
    package convenience init(
        folder: String,
        time: TimeSource = .system,
        random: RandomSource = .system,
        cost: ScryptCost = .usual,
        disk: DiskCalls = .system,
        onLostWrite: (@Sendable () -> Void)? = nil
    ) throws(DirectoryError) {
        let path = folder + "/relay.sqlite"
        guard !Self.isLost(in: folder) else {
            throw .unavailable(
                "relay.sqlite is missing or empty beside the containers: without it no user can reach their data. Put it back, or restore a backup: zonecast backup restore latest --data \(folder.shellWord)"
            )
        }
        let (writer, reader) = try Self.wrapping {
            try LogCheck.demandWhole(path)
            try Self.makePrivate(folder: folder, file: path)
            let writer = try Self.openWriter(path, in: folder)
            if onLostWrite != nil { try StoreConnections.settleLog(of: writer, path, by: disk) }
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(10)
            let reader = try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
            return (writer, reader)
        }
        try self.init(
            writer: writer,
            reader: reader,
            time: time,
            random: random,
            cost: cost,
            onLostWrite: onLostWrite ?? {}
        )
    }

    /// Returns whether a folder has stores but no `relay.sqlite`, or an empty one.
    package static func isLost(in folder: String) -> Bool {
        guard LogCheck.size(of: "\(folder)/relay.sqlite") ?? 0 == 0 else { return false }
        // A folder that cannot be read may contain stores.
        return (try? BackupFiles.stores(in: folder).isEmpty) != true
    }

    /// Creates a directory in memory, for tests.
    package convenience init(
        inMemory: Void,
        time: TimeSource = .system,
        random: RandomSource = .system,
        cost: ScryptCost = ScryptCost(rounds: 16, blockSize: 8, parallelism: 1)
    ) throws(DirectoryError) {
        let queue = try Self.wrapping {
            let queue = try DatabaseQueue()
            // Copied page by page, since tests open thousands.
            try AccountSchema.blank.get().backup(to: queue)
            try queue.inDatabase { try AccountSchema.begin($0, key: random.bytes(32)) }
            return queue
        }
        try self.init(writer: queue, reader: queue, time: time, random: random, cost: cost)
    }

    private init(
        writer: DatabaseQueue,
        reader: DatabaseQueue,
        time: TimeSource,
        random: RandomSource,
        cost: ScryptCost,
        onLostWrite: @escaping @Sendable () -> Void = {}
    ) throws(DirectoryError) {
        self.onLostWrite = onLostWrite
        self.writer = writer
        self.reader = reader
        self.time = time
        self.random = random
        self.cost = cost
        key = try Self.wrapping { try AccountSchema.prepare(writer, freshKey: random.bytes(32)) }
    }

    package func generation() throws(DirectoryError) -> UInt64 {
        // A single statement needs no transaction, and this one runs every second.
        try Self.wrapping {
            try reader.inDatabase { db in
                UInt64(try Int64.fetchOne(db.cachedStatement(sql: "SELECT revocations FROM relay")) ?? 0)
            }
        }
    }

    package func relayKey() throws(DirectoryError) -> [UInt8] { key }

    /// Returns a pragma of the writing connection: `journal_mode`, `synchronous` (2 is FULL) or `integrity_check`.
    package func pragma(_ name: String) throws(DirectoryError) -> String? {
        try Self.wrapping {
            try writer.writeWithoutTransaction { db in try String.fetchOne(db, sql: "PRAGMA \(name)") }
        }
    }

    func read<Value>(_ body: (Database) throws -> Value) throws(DirectoryError) -> Value {
        // In memory there is one connection, and no other process. GRDB's `read` would make it read-only meanwhile,
        // which makes SQLite prepare every statement again.
        try Self.wrapping { try reader === writer ? reader.inDatabase(body) : reader.read(body) }
    }

    func write<Value>(_ body: (Database) throws -> Value) throws(DirectoryError) -> Value {
        try Self.wrapping {
            guard !isStopped.withLock({ $0 }) else { throw StoreFailure.stopped }
            let entry = takeNote()
            do {
                return try transaction { db in
                    let value = try body(db)
                    if let entry { try Self.insert(entry, db) }
                    return value
                }
            } catch  where StoreFailure.isLostWrite(error) {
                // A retry proves nothing: the kernel may have dropped the pages that it could not write.
                if !isStopped.withLock({ stopped in
                    defer { stopped = true }
                    return stopped
                }) {
                    onLostWrite()
                }
                throw error
            }
        }
    }

    private func transaction<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writer.writeWithoutTransaction { db in
            var value: Value?
            try db.inTransaction(.immediate) {
                value = try body(db)
                return .commit
            }
            guard let value else { throw DirectoryError.unavailable("the transaction returned no value") }
            return value
        }
    }

    /// Runs a write that removes or changes access, after which every relay drops its cached credentials.
    func revoke(_ body: (Database) throws -> Void) throws(DirectoryError) {
        try write { db in
            try body(db)
            try db.execute(sql: "UPDATE relay SET revocations = revocations + 1")
        }
    }

    /// Runs `body`, and converts SQLite's errors to `DirectoryError`.
    static func wrapping<Value>(_ body: () throws -> Value) throws(DirectoryError) -> Value {
        do {
            return try body()
        } catch let error as DirectoryError {
            throw error
        } catch {
            throw DirectoryError(error, in: "relay.sqlite")
        }
    }

    private static func openWriter(_ path: String, in folder: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { CheckedVFS.leaveRoom($0) }
        var attempts = 0
        while true {
            do {
                let queue = try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
                // Before anything in the file changes.
                try AccountSchema.demandOurs(queue, in: folder)
                try queue.keepDurableLog()
                return queue
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY && attempts < 100 {
                // Turning on WAL needs exclusive access and does not wait for it; two commands may start at the same
                // time.
                attempts += 1
                usleep(20_000)
            }
        }
    }

    /// SQLite gives its files beside the main file the same permissions.
    private static func makePrivate(folder: String, file: String) throws {
        if !FileManager.default.fileExists(atPath: folder) {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        }
        // Only a file that does not exist: closing any descriptor of a file releases all locks that this process has on
        // it, and a running relay that inspects its own folder would lose SQLite's.
        let descriptor = open(file, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            if errno == EEXIST { return }
            throw DirectoryError.unavailable("\(file) cannot be opened: \(String(cString: strerror(errno)))")
        }
        close(descriptor)
    }
}
