import Foundation
import GRDB
package import RelayCore

/// Whether this program can open the files of a data folder; inspects them and changes nothing.
package enum FolderLayout {
    /// Inspects `relay.sqlite`, including its journal mode.
    package static func ofAccounts(in data: String) throws(DirectoryError) -> (file: LayoutStatus, journal: String) {
        try reading("relay.sqlite", in: data) { database in
            guard try AccountSchema.isOurs(database) else {
                throw DirectoryError.unavailable("relay.sqlite contains no relay data")
            }
            let journal = try String.fetchOne(database, sql: "PRAGMA journal_mode") ?? ""
            return (try look("relay.sqlite", in: data, database), journal)
        }
    }

    /// Inspects the stores, without those that cannot be read.
    package static func ofStores(in data: String) -> [LayoutStatus] {
        ((try? storePaths(in: data)) ?? []).compactMap { try? ofStore($0, in: data) }
    }

    /// Returns the paths of the stores in a data folder, sorted.
    package static func storePaths(in data: String) throws(BackupFailure) -> [String] {
        Set(try BackupFiles.stores(in: data)).sorted()
    }

    /// Inspects one store.
    package static func ofStore(_ path: String, in data: String) throws(DirectoryError) -> LayoutStatus {
        try reading(path, in: data) { try look(path, in: data, $0) }
    }

    /// Returns whether `relay.sqlite` belongs to another program.
    package static func isForeign(_ data: String) -> Bool {
        (try? reading("relay.sqlite", in: data) { try AccountSchema.isForeign($0) }) ?? false
    }

    /// Throws if a file belongs to another program, or `LayoutError` if this program cannot open it.
    static func requireOwnFile(_ database: Database, _ path: String) throws {
        guard path.hasSuffix("/relay.sqlite") else { return try StoreLayout.requireOwnFile(database, path) }
        _ = try AccountSchema.file.version(of: database)
    }

    private static func look(_ path: String, in data: String, _ database: Database) throws -> LayoutStatus {
        let layout = FileLayout.of(path)
        do {
            try requireOwnFile(database, "\(data)/\(path)")
            return LayoutStatus(
                path: path,
                version: try layout.version(of: database),
                newVersion: layout.version,
                error: nil
            )
        } catch let error as LayoutError {
            return LayoutStatus(path: path, version: error.found, newVersion: layout.version, error: error)
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
}
