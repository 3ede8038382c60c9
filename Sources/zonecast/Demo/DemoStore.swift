import Foundation
import GRDB
import SyncCore
import Synchronization
import ZoneKit

/// A note, as a client of the demo has it.
struct DemoNote: Equatable, Sendable {
    var name: String
    var title: String
    var isDone = false

    var fields: [String: String] { ["title": title, "done": isDone ? "yes" : "no"] }

    init(name: String, title: String, isDone: Bool = false) {
        self.name = name
        self.title = title
        self.isDone = isDone
    }

    init(name: String, fields: [String: String]) {
        self.init(name: name, title: fields["title"] ?? "", isDone: fields["done"] == "yes")
    }

    init(_ record: CKRecord) {
        self.init(
            name: record.recordID.recordName,
            title: record["title"] ?? "",
            isDone: (record["done"] as Int64?) == 1
        )
    }
}

/// One client's own SQLite file: its notes, the board, what is not sent yet, and the sync engine's state.
///
/// An edit and the word that it is to be sent are one transaction, and so are data from the relay and what they settle:
/// a client that is ended at any moment goes on where it was.
final class DemoStore: Sendable {
    /// `nil` once closed.
    private let open: Mutex<DatabaseQueue?>

    init(path: String) throws {
        let queue = try DatabaseQueue(path: path)
        open = Mutex(queue)
        try queue.writeWithoutTransaction {
            try $0.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        }
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, title TEXT NOT NULL, done INTEGER NOT NULL);
                    CREATE TABLE IF NOT EXISTS server (name TEXT PRIMARY KEY, record BLOB NOT NULL);
                    CREATE TABLE IF NOT EXISTS change (
                        version INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, isDelete INTEGER NOT NULL);
                    CREATE TABLE IF NOT EXISTS board (name TEXT PRIMARY KEY, text TEXT NOT NULL, isGone INTEGER NOT NULL);
                    CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value BLOB NOT NULL);
                    """
            )
        }
    }

    /// Ends the use of the file.
    ///
    /// Whoever is in the middle of something still holds it, and the file is closed when the last one is done: closing it
    /// under them would end the process.
    func close() { open.withLock { $0 = nil } }

    private var queue: DatabaseQueue {
        get throws {
            guard let queue = open.withLock({ $0 }) else {
                throw CommandFailure(.failed, "The client's file is closed already.")
            }
            return queue
        }
    }

    // MARK: What people see

    func notes() throws -> [DemoNote] {
        try self.queue.read { db in
            try Row.fetchAll(db, sql: "SELECT name, title, done FROM note ORDER BY name").map { row in
                DemoNote(name: row["name"], title: row["title"], isDone: row["done"])
            }
        }
    }

    func board() throws -> [String: String] {
        try self.queue.read { db in
            let rows = try Row.fetchAll(db, sql: "SELECT name, text FROM board WHERE isGone = 0")
            return Dictionary(rows.map { ($0["name"], $0["text"]) }, uniquingKeysWith: { $1 })
        }
    }

    func pendingCount() throws -> Int {
        try self.queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM change") ?? 0 }
    }

    // MARK: Edits here

    func save(_ note: DemoNote) throws {
        try self.queue.write { db in
            try Self.put(note, db)
            try Self.noteChange(note.name, isDelete: false, db)
        }
    }

    func delete(_ name: String) throws {
        try self.queue.write { db in
            try db.execute(sql: "DELETE FROM note WHERE name = ?", arguments: [name])
            try Self.noteChange(name, isDelete: true, db)
        }
    }

    /// What is to be sent: names, and whether the note is to be deleted.
    func changes() throws -> [(name: String, isDelete: Bool)] {
        try self.queue.read { db in
            try Row.fetchAll(db, sql: "SELECT name, isDelete FROM change ORDER BY version").map {
                ($0["name"], $0["isDelete"])
            }
        }
    }

    /// A note as it is to be sent: on top of what the relay last had, with the version of the edit; `nil` if it is gone.
    func recordToSend(_ id: CKRecord.ID) throws -> (record: CKRecord, version: Int64)? {
        try self.queue.read { db in
            let name = id.recordName
            guard let row = try Row.fetchOne(db, sql: "SELECT title, done FROM note WHERE name = ?", arguments: [name]),
                let version = try Int64.fetchOne(
                    db,
                    sql: "SELECT version FROM change WHERE name = ?",
                    arguments: [name]
                )
            else { return nil }
            let record = try Self.server(name, db) ?? CKRecord(recordType: "Note", recordID: id)
            record["title"] = row["title"] as String
            record["done"] = (row["done"] as Bool) ? Int64(1) : Int64(0)
            return (record, version)
        }
    }

    func versionOfDelete(_ name: String) throws -> Int64? {
        try self.queue.read {
            try Int64.fetchOne($0, sql: "SELECT version FROM change WHERE name = ? AND isDelete", arguments: [name])
        }
    }

    // MARK: The relay's word

    /// The relay has taken what was sent as `version`; an edit made since stays to be sent.
    func confirm(_ record: CKRecord, version: Int64) throws {
        try self.queue.write { db in
            try Self.keep(record, db)
            try Self.settle(record.recordID.recordName, version, db)
        }
    }

    func confirmDelete(_ name: String, version: Int64) throws {
        try self.queue.write { db in
            try db.execute(sql: "DELETE FROM server WHERE name = ?", arguments: [name])
            try Self.settle(name, version, db)
        }
    }

    /// Takes a record that changed on the relay; an edit of ours that is not sent yet is put on top of it.
    ///
    /// Returns the names of fields in which the relay's change gave way to ours.
    @discardableResult
    func apply(_ record: CKRecord) throws -> [String] {
        try self.queue.write { db in
            let name = record.recordID.recordName
            let theirs = DemoNote(record)
            defer { try? Self.keep(record, db) }
            let pending = try Bool.fetchOne(db, sql: "SELECT isDelete FROM change WHERE name = ?", arguments: [name])
            guard let isDelete = pending else {
                try Self.put(theirs, db)
                return []
            }
            guard !isDelete, let mine = try Self.note(name, db) else { return [] }
            let base = try Self.server(name, db).map { DemoNote($0).fields } ?? [:]
            let merged = Merge.fields(base: base, mine: mine.fields, theirs: theirs.fields, trump: .mine)
            try Self.put(DemoNote(name: name, fields: merged.fields), db)
            return merged.lost
        }
    }

    /// Takes a deletion; a note that was edited here since is kept, and will be made again.
    func applyDeletion(_ name: String) throws {
        try self.queue.write { db in
            try db.execute(sql: "DELETE FROM server WHERE name = ?", arguments: [name])
            let isPending =
                try Bool.fetchOne(db, sql: "SELECT 1 FROM change WHERE name = ?", arguments: [name]) ?? false
            if !isPending { try db.execute(sql: "DELETE FROM note WHERE name = ?", arguments: [name]) }
        }
    }

    func forgetServerCopy(_ name: String) throws {
        try self.queue.write { try $0.execute(sql: "DELETE FROM server WHERE name = ?", arguments: [name]) }
    }

    func applyBoard(_ records: [CKRecord]) throws {
        try self.queue.write { db in
            for record in records {
                try db.execute(
                    sql: "INSERT OR REPLACE INTO board VALUES (?, ?, ?)",
                    arguments: [
                        record.recordID.recordName, (record["text"] as String?) ?? "",
                        (record["deletedAt"] as Date?) != nil,
                    ]
                )
            }
        }
    }

    // MARK: States of engine and poller

    func keep(state value: some Encodable, as key: String) throws {
        let data = try JSONEncoder().encode(value)
        try self.queue.write {
            try $0.execute(sql: "INSERT OR REPLACE INTO state VALUES (?, ?)", arguments: [key, data])
        }
    }

    func state<Value: Decodable>(_ key: String, as type: Value.Type = Value.self) throws -> Value? {
        let data = try self.queue.read {
            try Data.fetchOne($0, sql: "SELECT value FROM state WHERE key = ?", arguments: [key])
        }
        return try data.map { try JSONDecoder().decode(Value.self, from: $0) }
    }

    // MARK: Statements

    private static func note(_ name: String, _ db: Database) throws -> DemoNote? {
        try Row.fetchOne(db, sql: "SELECT title, done FROM note WHERE name = ?", arguments: [name]).map {
            DemoNote(name: name, title: $0["title"], isDone: $0["done"])
        }
    }

    private static func put(_ note: DemoNote, _ db: Database) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO note VALUES (?, ?, ?)",
            arguments: [note.name, note.title, note.isDone]
        )
    }

    private static func noteChange(_ name: String, isDelete: Bool, _ db: Database) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO change (name, isDelete) VALUES (?, ?)",
            arguments: [name, isDelete]
        )
    }

    private static func settle(_ name: String, _ version: Int64, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM change WHERE name = ? AND version <= ?", arguments: [name, version])
    }

    private static func keep(_ record: CKRecord, _ db: Database) throws {
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        try db.execute(
            sql: "INSERT OR REPLACE INTO server VALUES (?, ?)",
            arguments: [record.recordID.recordName, data]
        )
    }

    private static func server(_ name: String, _ db: Database) throws -> CKRecord? {
        let data = try Data.fetchOne(db, sql: "SELECT record FROM server WHERE name = ?", arguments: [name])
        return try data.flatMap { try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: $0) }
    }
}
