import Foundation
import GRDB
package import RelayCore

/// Releases the space of deleted records in a data folder's SQLite files to the disk.
///
/// SQLite keeps such pages for later records, and a file never shrinks by itself. The first time, a file is rewritten
/// in one step, during which no other connection can write. From then on its free pages can be released a few at a
/// time, between the commits of a running relay.
package struct StoreCompaction: Sendable {
    /// The number of pages that one step releases: a write waits for one step at most, some milliseconds.
    private static let stepPages = 512
    /// The longest time to wait for other connections.
    private static let busyTimeout = Duration.seconds(30)

    private let file: String
    private let path: String

    /// Prepares the compaction of a file; opens nothing yet.
    ///
    /// - Parameters:
    ///   - file: the file's path in the data folder.
    ///   - data: the data folder.
    package init(file: String, in data: String) {
        self.file = file
        path = "\(data)/\(file)"
    }

    /// Returns the free space in every SQLite file of the folder.
    ///
    /// - Throws: `DirectoryError` if a file cannot be read.
    package static func rooms(in data: String) throws -> [CompactionRoom] {
        try BackupFiles.databases(in: data).filter { FileManager.default.fileExists(atPath: "\(data)/\($0)") }
            .map { file in
                let compaction = StoreCompaction(file: file, in: data)
                return try compaction.withConnection(readonly: true) { database in
                    let size = try Int64.fetchOne(database, sql: "PRAGMA page_size") ?? 0
                    return CompactionRoom(
                        file: file,
                        bytes: size * (try Int64.fetchOne(database, sql: "PRAGMA page_count") ?? 0),
                        freeBytes: size * (try Self.freePages(database)),
                        isStepwise: try Self.isStepwise(database)
                    )
                }
            }
    }

    /// Rewrites the whole file, in a form that allows `vacuumIncrementally` from then on.
    ///
    /// Other writers wait meanwhile. If it is interrupted, the file is unchanged.
    ///
    /// - Throws: `DirectoryError` if the file cannot be rewritten.
    package func vacuum() throws {
        try withConnection(readonly: false) { database in
            try database.execute(sql: "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
        }
        try truncateLog()
    }

    /// Releases the file's free pages a few at a time; others may write between two steps.
    ///
    /// `step` is called after each step with the number of released pages and of all pages to release, and may block.
    package func vacuumIncrementally(_ step: (_ done: Int64, _ all: Int64) -> Void) throws {
        try withConnection(readonly: false) { database in
            let all = try Self.freePages(database)
            var left = all
            while left > 0 {
                try database.inTransaction(.immediate) {
                    try database.execute(sql: "PRAGMA incremental_vacuum(\(Self.stepPages))")
                    return .commit
                }
                let now = try Self.freePages(database)
                // Others may free pages meanwhile; without progress, stop.
                guard now < left else { break }
                left = now
                step(all - left, all)
            }
        }
        try truncateLog()
    }

    /// Copies the log into the file, which shrinks only then.
    ///
    /// Retries for some time. If a relay reads without a pause, its own next checkpoint does the rest.
    private func truncateLog() throws {
        // While this waits for readers, the relay's writes wait for this.
        try withConnection(readonly: false, busyTimeout: .seconds(1)) { database in
            _ = try Row.fetchOne(database, sql: "PRAGMA wal_checkpoint(PASSIVE)")
            let end = ContinuousClock.now + Self.busyTimeout
            repeat {
                let row = try? Row.fetchOne(database, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
                if let isBusy: Int = row?[0], isBusy == 0 { return }
                usleep(500_000)
            } while ContinuousClock.now < end
        }
    }

    private static func freePages(_ database: Database) throws -> Int64 {
        try Int64.fetchOne(database, sql: "PRAGMA freelist_count") ?? 0
    }

    private static func isStepwise(_ database: Database) throws -> Bool {
        try Int.fetchOne(database, sql: "PRAGMA auto_vacuum") == 2
    }

    private func withConnection<Value>(
        readonly: Bool,
        busyTimeout: Duration = Self.busyTimeout,
        _ body: (Database) throws -> Value
    ) throws -> Value {
        var configuration = Configuration()
        configuration.readonly = readonly
        // SQLite's own handler would soon retry only every tenth of a second. A relay with a slow disk holds the lock
        // nearly all the time, and releases it for a millisecond between two commits.
        let tries = Int(busyTimeout / .milliseconds(1))
        configuration.busyMode = .callback { tried in
            usleep(1_000)
            return tried < tries
        }
        configuration.prepareDatabase { database in
            CheckedVFS.reserveChecksumSpace(database)
            if !readonly { try database.execute(sql: "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0") }
        }
        do {
            let queue = try DatabaseQueue.ofStore(path, configuration)
            defer { try? queue.close() }
            return try queue.inDatabase(body)
        } catch {
            throw DirectoryError(error, in: file)
        }
    }
}
