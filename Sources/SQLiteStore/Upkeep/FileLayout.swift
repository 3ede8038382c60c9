package import GRDB
import RelayCore

/// The tables of one kind of SQLite file in a data folder, and their version, which a file stores as `user_version`.
package struct FileLayout: Sendable {
    /// The version of the first released layout; builds from before the first release wrote 0 to 12.
    static let baseline = 13

    /// The statements that create the tables of the version `baseline`.
    package let tables: String
    /// The statements that lead from each version to the next, the first one from `baseline` to the version after it.
    ///
    /// A migration that was released must never be changed.
    var migrations: [String] = []

    package init(tables: String, migrations: [String] = []) {
        self.tables = tables
        self.migrations = migrations
    }

    /// The version that this program reads and writes.
    var version: Int { Self.baseline + migrations.count }

    /// Returns the layout of a file, by its path in a data folder.
    package static func of(_ path: String) -> FileLayout {
        path == "relay.sqlite" ? AccountSchema.file : StoreLayout.file
    }

    /// Returns the version of a file; 0 for an empty file.
    ///
    /// - Throws: `LayoutError` if this program cannot open the file.
    package func version(of database: Database) throws -> Int {
        let found = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        if (Self.baseline...version).contains(found) { return found }
        let isEmpty = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") == 0
        guard found == 0, isEmpty else { throw LayoutError(found: found, known: Self.baseline...version) }
        return 0
    }

    /// Creates the tables in an empty file, or runs the migrations that a file lacks, in one transaction.
    ///
    /// `begin` inserts the first rows of an empty file.
    package func migrate(_ database: Database, begin: (Database) throws -> Void = { _ in }) throws {
        guard try version(of: database) < version else { return }
        try database.inTransaction(.immediate) {
            // Another process may have migrated the file meanwhile.
            let found = try version(of: database)
            guard found < version else { return .commit }
            if found == 0 {
                try database.execute(sql: tables)
                try begin(database)
            }
            for migration in migrations.dropFirst(max(0, found - Self.baseline)) {
                try database.execute(sql: migration)
            }
            try database.execute(sql: "PRAGMA user_version = \(version)")
            return .commit
        }
    }
}
