import Foundation
import GRDB
import ZoneKit

/// One client's own SQLite file: its notes, what of them is not sent yet, and how far its engine has come.
final class DemoStore: Sendable {
    /// A note as this client has it.
    struct Row: Hashable, Sendable {
        var name: String
        var note: DemoNote
        /// The relay's last version that this client has seen; `nil`: it has never been there.
        var base: DemoNote?
        /// CKRecord's system fields, as archived.
        var system: Data?
        /// Grows with each edit here, so that a confirmation clears only what was sent.
        var version: Int = 0
        var isDirty = false
        /// Deleted here, and the relay does not know yet.
        var isDeleted = false
        var changeTag = ""
    }

    private let database: DatabaseQueue

    init(path: String) throws {
        database = try DatabaseQueue(path: path)
        try database.write { database in
            try database.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS note (
                        name TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL, done INTEGER NOT NULL,
                        base_title TEXT, base_done INTEGER, system BLOB,
                        version INTEGER NOT NULL, dirty INTEGER NOT NULL, deleted INTEGER NOT NULL, tag TEXT NOT NULL
                    ) STRICT;
                    CREATE TABLE IF NOT EXISTS post (name TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL) STRICT;
                    CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT;
                    """
            )
        }
    }

    // MARK: Notes

    func row(_ name: String) throws -> Row? {
        try database.read { try Self.fetch($0, "WHERE name = ?", [name]).first }
    }

    func rows() throws -> [Row] {
        try database.read { try Self.fetch($0, "ORDER BY rowid", []) }
    }

    func put(_ row: Row) throws {
        try database.write { database in
            try database.execute(
                sql: """
                    INSERT OR REPLACE INTO note
                    (name, title, done, base_title, base_done, system, version, dirty, deleted, tag)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    row.name, row.note.title, row.note.isDone, row.base?.title, row.base?.isDone, row.system,
                    row.version, row.isDirty, row.isDeleted, row.changeTag,
                ]
            )
        }
    }

    func remove(_ name: String) throws {
        try database.write { try $0.execute(sql: "DELETE FROM note WHERE name = ?", arguments: [name]) }
    }

    func removeAll() throws {
        try database.write { try $0.execute(sql: "DELETE FROM note") }
    }

    private static func fetch(_ database: Database, _ rest: String, _ arguments: StatementArguments) throws -> [Row] {
        try GRDB.Row.fetchAll(
            database,
            sql: """
                SELECT name, title, done, base_title, base_done, system, version, dirty, deleted, tag FROM note \(rest)
                """,
            arguments: arguments
        ).map { row in
            let baseTitle: String? = row[3]
            return Row(
                name: row[0],
                note: DemoNote(title: row[1], isDone: row[2]),
                base: baseTitle.map { DemoNote(title: $0, isDone: row[4] ?? false) },
                system: row[5],
                version: row[6],
                isDirty: row[7],
                isDeleted: row[8],
                changeTag: row[9]
            )
        }
    }

    // MARK: The public board

    func post(_ name: String, _ title: String) throws {
        try database.write {
            try $0.execute(sql: "INSERT OR REPLACE INTO post (name, title) VALUES (?, ?)", arguments: [name, title])
        }
    }

    func posts() throws -> [String: String] {
        try database.read { database in
            try GRDB.Row.fetchAll(database, sql: "SELECT name, title FROM post ORDER BY rowid").reduce(into: [:]) {
                $0[$1[0]] = $1[1] as String
            }
        }
    }

    // MARK: What is kept between two runs

    func keep(_ state: CKSyncEngine.State.Serialization) throws {
        let bytes = try JSONEncoder().encode(state)
        try database.write {
            try $0.execute(sql: "INSERT OR REPLACE INTO kept (name, value) VALUES ('engine', ?)", arguments: [bytes])
        }
    }

    func engineState() throws -> CKSyncEngine.State.Serialization? {
        let bytes = try database.read { try Data.fetchOne($0, sql: "SELECT value FROM kept WHERE name = 'engine'") }
        return try bytes.map { try JSONDecoder().decode(CKSyncEngine.State.Serialization.self, from: $0) }
    }
}
