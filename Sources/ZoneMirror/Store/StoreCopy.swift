import Foundation
import GRDB

/// Copies the objects of one file to another, under their own ids, as changes of the user.
///
/// An id that the other file already has keeps its object. The copy is committed before the originals are deleted:
/// after a crash both exist, and the next run finds the copies.
struct StoreCopy {
    let from: StoreFile
    let into: StoreFile
    let now: Date
    /// The properties by which duplicates are merged once the import is complete, as JSON.
    var mergeKeys: String?

    /// The author of these changes in the history.
    static let author = "zonecast.takeover"

    /// Copies the objects and returns how many are new in the other file.
    @discardableResult
    func run(emptying: Bool = false) throws -> Int {
        var rows: [(TableForm, [(String, [DatabaseValue])])] = []
        try from.pool.read { db in
            for name in from.mapping.tableNames {
                guard let table = from.mapping.tables[name], into.mapping.tables[name] != nil else { continue }
                rows.append((table, try Row.fetchAll(db, sql: table.sql.select).map { ($0[0], table.values($0)) }))
            }
        }
        let count = try into.pool.write { try insert(rows, $0) }
        guard emptying else { return count }
        try from.pool.write { db in
            // Objects that were written after they were copied stay.
            let copied = try rows.map { table, objects in
                (table, try objects.filter { try table.row(db, $0.0) == $0.1 }.map(\.0))
            }
            try StoreFile.importing(db, author: Self.author, at: now) { _ in
                for (table, names) in copied { for name in names { try remove(name, of: table, db) } }
            }
        }
        return count
    }

    private func remove(_ name: String, of table: TableForm, _ db: Database) throws {
        try table.delete(db, name)
        try OutboxRow.drop(db, name)
    }

    private func insert(_ rows: [(TableForm, [(String, [DatabaseValue])])], _ db: Database) throws -> Int {
        var count = 0
        try db.execute(
            sql: "INSERT INTO mirror_transaction(author, at) VALUES (?, ?)",
            arguments: [Self.author, now.timeIntervalSince1970]
        )
        try db.execute(sql: "UPDATE mirror_local SET txn = ?", arguments: [db.lastInsertedRowID])
        for (table, objects) in rows {
            for (id, row) in objects where try table.insertIfNew(db, id, row) {
                count += table.entity == nil ? 0 : 1
            }
        }
        try db.execute(sql: "UPDATE mirror_local SET txn = 0")
        if into.mapping.keepsEditTimes { try EditTimes.date(db, now) }
        if let mergeKeys { try State.set(db, .mergeKeys, mergeKeys) }
        return count
    }
}
