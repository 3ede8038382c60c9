import Foundation
import GRDB
package import RelayCore

/// The migrations that the files of a data folder lack, and their execution.
///
/// A relay migrates when it starts; this shows the migrations, or runs them, beforehand.
package struct FolderLayout: Hashable, Sendable {
    /// The migrations of one SQLite file.
    package struct File: Hashable, Sendable {
        /// The path in the data folder.
        package var path: String
        /// The number of migrations that the file has gone through.
        package var done: Int
        /// The names of the migrations that it lacks.
        package var missing: [String]
        /// The number of migrations in this program.
        package var known: Int
        /// Whether a later version of this program has migrated it further.
        package var isNewer: Bool
    }

    package private(set) var files: [File] = []

    package var isCurrent: Bool { files.allSatisfy { $0.missing.isEmpty && !$0.isNewer } }

    /// Inspects the folder's files and changes nothing.
    ///
    /// - Throws: `DirectoryError.unavailable` if a file cannot be read.
    package init(of data: String) throws {
        for path in try BackupFiles.databases(in: data)
        where FileManager.default.fileExists(atPath: "\(data)/\(path)") {
            files.append(try Self.look(path, in: data))
        }
    }

    /// Inspects `relay.sqlite` alone, including its journal mode.
    package static func ofAccounts(in data: String) throws(DirectoryError) -> (file: File, journal: String) {
        try reading("relay.sqlite", in: data) { database in
            (
                try accounts("relay.sqlite", database),
                try String.fetchOne(database, sql: "PRAGMA journal_mode") ?? ""
            )
        }
    }

    /// Returns whether `relay.sqlite` belongs to another program.
    package static func isForeign(_ data: String) -> Bool {
        (try? reading("relay.sqlite", in: data) { try AccountSchema.isForeign($0) }) ?? false
    }

    private static func look(_ path: String, in data: String) throws -> File {
        guard path != "relay.sqlite" else { return try ofAccounts(in: data).file }
        return try reading(path, in: data) { database in
            let migrator = StoreLayout.migrator
            let applied = try migrator.appliedIdentifiers(database)
            return File(
                path: path,
                done: applied.count,
                missing: migrator.migrations.filter { !applied.contains($0) },
                known: migrator.migrations.count,
                isNewer: try migrator.hasBeenSuperseded(database)
            )
        }
    }

    private static func reading<Value>(
        _ path: String,
        in data: String,
        _ body: (Database) throws -> Value
    ) throws(DirectoryError) -> Value {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(10)
        do {
            let queue = try DatabaseQueue.ofStore("\(data)/\(path)", configuration)
            defer { try? queue.close() }
            return try queue.read(body)
        } catch let error as DirectoryError {
            throw error
        } catch {
            throw DirectoryError(error, in: path)
        }
    }

    private static func accounts(_ path: String, _ database: Database) throws -> File {
        guard try AccountSchema.isOurs(database) else {
            throw DirectoryError.unavailable("relay.sqlite contains no relay data")
        }
        let done = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        return File(
            path: path,
            done: done,
            missing: done < AccountSchema.version ? ((done + 1)...AccountSchema.version).map { "\($0) accounts" } : [],
            known: AccountSchema.version,
            isNewer: done > AccountSchema.version
        )
    }

    /// Migrates every file to this program's layout; no relay may run.
    ///
    /// Each migration is a transaction, so an interruption leaves it done or not done. `step` is called with each
    /// file's path before its migration.
    package static func migrate(_ data: String, step: (String) -> Void = { _ in }) throws {
        for file in try FolderLayout(of: data).files where !file.missing.isEmpty {
            step(file.path)
            guard file.path != "relay.sqlite" else {
                _ = try AccountStore(folder: data)
                continue
            }
            try StoreConnections(.file(path: "\(data)/\(file.path)")).close()
        }
    }
}
