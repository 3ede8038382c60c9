import Foundation
import GRDB
import RelayCore

/// Gives the room that deleted records left in a data folder's SQLite files back to the disk.
///
/// SQLite keeps such pages for later records; a file never shrinks by itself. The first time a file is written anew, in one
/// go, during which nobody else writes to it. From then on its free pages can be given back a few at a time, between the
/// commits of a relay that runs.
package struct StoreCompaction: Sendable {
    /// What a file has to give.
    package struct Room: Hashable, Sendable {
        /// Its path in the data folder.
        package var file: String
        /// Of the file, in bytes; what is in its log only is not counted.
        package var bytes: Int64
        /// Of the pages that hold nothing, in bytes.
        package var freeBytes: Int64
        /// Whether they can be given back a few at a time.
        package var isStepwise: Bool
    }

    /// Pages that one step gives back: a write waits for one step at the most, some milliseconds.
    private static let stepPages = 512
    /// How long it waits for others at one place.
    private static let patience = Duration.seconds(30)

    private let file: String
    private let path: String

    /// - Parameters:
    ///   - file: A file's path in the data folder.
    ///   - data: The data folder.
    package init(file: String, in data: String) {
        self.file = file
        path = "\(data)/\(file)"
    }

    /// Every SQLite file of the folder with the room in it.
    ///
    /// - Throws: `DirectoryError` where a file cannot be read.
    package static func rooms(in data: String) throws -> [Room] {
        try BackupFiles.databases(in: data).filter { FileManager.default.fileExists(atPath: "\(data)/\($0)") }
            .map { file in
                let compaction = StoreCompaction(file: file, in: data)
                return try compaction.withConnection(readonly: true) { database in
                    let size = try Int64.fetchOne(database, sql: "PRAGMA page_size") ?? 0
                    return Room(
                        file: file,
                        bytes: size * (try Int64.fetchOne(database, sql: "PRAGMA page_count") ?? 0),
                        freeBytes: size * (try Self.freePages(database)),
                        isStepwise: try Self.isStepwise(database)
                    )
                }
            }
    }

    /// Writes the whole file anew, laid out for `giveBackStepwise` from then on.
    ///
    /// Whoever else writes to the file waits meanwhile. Broken off at any moment, the file is as it was.
    ///
    /// - Throws: `DirectoryError` where that cannot be.
    package func writeAnew() throws {
        try withConnection(readonly: false) { database in
            try database.execute(sql: "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
        }
        try settle()
    }

    /// Gives the file's free pages back a few at a time; others may write between two steps.
    ///
    /// `step` hears after each step how many of how many pages are done, and waits as long as it likes.
    package func giveBackStepwise(_ step: (_ done: Int64, _ all: Int64) -> Void) throws {
        try withConnection(readonly: false) { database in
            let all = try Self.freePages(database)
            var left = all
            while left > 0 {
                try database.inTransaction(.immediate) {
                    try database.execute(sql: "PRAGMA incremental_vacuum(\(Self.stepPages))")
                    return .commit
                }
                let now = try Self.freePages(database)
                // Others may have freed pages meanwhile, but what does not shrink is no progress.
                guard now < left else { break }
                left = now
                step(all - left, all)
            }
        }
        try settle()
    }

    /// Brings the log into the file, which only then becomes shorter.
    ///
    /// Tries so for some time; beside a relay that reads without a pause, that one does the rest with its own next
    /// checkpoint.
    private func settle() throws {
        // While this waits for readers, the relay's writes wait for this.
        try withConnection(readonly: false, patience: .seconds(1)) { database in
            _ = try Row.fetchOne(database, sql: "PRAGMA wal_checkpoint(PASSIVE)")
            let end = ContinuousClock.now + Self.patience
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
        patience: Duration = Self.patience,
        _ body: (Database) throws -> Value
    ) throws -> Value {
        var configuration = Configuration()
        configuration.readonly = readonly
        // SQLite itself would soon look every tenth of a second only. A relay whose disk is slow has the lock nearly all the
        // time, and gives it back for a millisecond between two commits.
        let tries = Int(patience / .milliseconds(1))
        configuration.busyMode = .callback { tried in
            usleep(1_000)
            return tried < tries
        }
        configuration.prepareDatabase { database in
            CheckedVFS.leaveRoom(database)
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
