import Foundation
import GRDB
package import Records
import RelayCore
package import RelaySystem
import Synchronization

/// A container's schemas in a data folder, for commands that run beside a relay.
///
/// The relay notices a change with its next commit or read. Throws `DirectoryError` if a file cannot be used.
package struct SchemaFolder: ContainerSchemas {
    private let folder: String
    private let container: ContainerID
    private let disk: DiskCalls

    /// How often this process has changed a schema, so that stores that are open in it read the new one.
    static var changes: UInt64 { changeCount.load(ordering: .acquiring) }
    private static let changeCount = Atomic<UInt64>(0)

    /// The container must exist.
    package init(folder: String, container: ContainerID, disk: DiskCalls = .system) {
        self.folder = folder
        self.container = container
        self.disk = disk
    }

    package func schema(of environment: Records.Environment) throws -> Schema {
        let path = path(of: environment)
        guard FileManager.default.fileExists(atPath: path) else { return Schema() }
        // Reading must not need disk space: opening a file to update its layout writes even if nothing is to be done.
        if let schema = try? look(path) { return schema }
        return try open(environment) { connections in try connections.read(SchemaRows.read) }
    }

    /// `nil` if opening the file would migrate it.
    private func look(_ path: String) throws -> Schema? {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        let queue = try DatabaseQueue.ofStore(path, configuration)
        defer { try? queue.close() }
        return try queue.read { database in
            try StoreLayout.file.version(of: database) == StoreLayout.file.version ? SchemaRows.read(database) : nil
        }
    }

    package func change<Result>(
        _ environment: Records.Environment,
        _ body: (Schema) throws -> (schema: Schema?, Result)
    ) throws -> Result {
        // After the commit.
        defer { Self.changeCount.add(1, ordering: .releasing) }
        return try open(environment) { connections in
            try connections.write { database in
                let old = try SchemaRows.read(database)
                let (new, result) = try body(old)
                if let new { try SchemaRows.replace(old, by: new, database) }
                return result
            }
        }
    }

    package func resetDevelopment(draw: () -> UInt64) throws {
        let production = try schema(of: .production)
        try open(.development) { connections in
            try connections.write { database in
                let version = try SchemaRows.version(database)
                try Self.empty(database)
                try StoreLayout.begin(database, draw: draw)
                var copy = production
                copy.members = [:]
                try SchemaRows.replace(Schema(version: version), by: copy, database)
            }
            // Releases the space of the deleted records to the disk. If the disk is too full for that, the reset is done
            // anyway.
            try? connections.inspect { try $0.execute(sql: "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)") }
        }
        // No record uses them any more. What cannot be removed now, the relay removes later.
        let assets = SQLiteStore.Place.assetFolder(ofFile: path(of: .development))
        try? FileManager.default.removeItem(atPath: assets)
    }

    /// Deletes all rows of all tables.
    private static func empty(_ database: Database) throws {
        try database.execute(sql: "PRAGMA defer_foreign_keys = ON")
        let tables = try String.fetchAll(
            database,
            sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        for table in tables { try database.execute(sql: "DELETE FROM \(table.quotedDatabaseIdentifier)") }
    }

    private func path(of environment: Records.Environment) -> String {
        StoreFolder.path(of: ContainerEnvironment(container, environment), in: folder)
    }

    private func open<Result>(
        _ environment: Records.Environment,
        _ body: (StoreConnections) throws -> Result
    ) throws -> Result {
        do {
            let path = path(of: environment)
            try StoreFolder.makeFolder(ofFile: path, in: folder)
            let connections = try StoreConnections(.file(path: path), disk: disk)
            defer { connections.close() }
            return try body(connections)
        } catch let error as DiskCalls.Failure {
            throw DirectoryError.unavailable("\(path(of: environment)): \(error)")
        } catch  where error is StoreFailure || error is LayoutError || error is DatabaseError {
            throw DirectoryError(error, in: path(of: environment))
        }
    }
}
