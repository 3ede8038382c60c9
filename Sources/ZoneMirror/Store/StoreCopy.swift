import Foundation
import GRDB
import Records
import ZoneKit

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
        var rows: [(TableLayout, [(String, [DatabaseValue])])] = []
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
            try HistoryTable.importing(db, author: Self.author, at: now) { _ in
                for (table, names) in copied { for name in names { try remove(name, of: table, db) } }
            }
        }
        return count
    }

    private func remove(_ name: String, of table: TableLayout, _ db: Database) throws {
        try table.delete(db, name)
        try RecordTable(db).discardChange(of: name)
    }

    private func insert(_ rows: [(TableLayout, [(String, [DatabaseValue])])], _ db: Database) throws -> Int {
        var count = 0
        try HistoryTable.record(db, in: try HistoryTable.begin(db, author: Self.author, at: now))
        for (table, objects) in rows {
            for (id, row) in objects where try table.insertIfNew(db, id, row) {
                count += table.entity == nil ? 0 : 1
            }
        }
        try HistoryTable.record(db, in: 0)
        if into.mapping.keepsEditTimes { try EditTimes.date(db, now) }
        if let mergeKeys { try State.set(db, .mergeKeys, mergeKeys) }
        return count
    }
}

/// Copies the objects of a shared store's zone to another store when access to the zone ends.
///
/// The ids of the copies are derived from those of the originals, so that repeating an interrupted copy creates no
/// duplicates. See SharingRules.md, "The end of a share".
struct KeptCopy {
    let file: StoreFile
    let target: StoreFile
    let now: Date

    /// Copies the objects of the named records of a zone; `nil` means all records.
    ///
    /// Returns how many objects were copied.
    func run(_ zone: KnownZone, only names: Set<String>? = nil) throws -> Int {
        let (found, copySeries) = try file.pool.write { db in
            (try objects(of: zone, only: names, db), try zone.copySeries(db))
        }
        guard !found.isEmpty else { return 0 }
        let place = "\(zone.zone.owner.recordName)/\(zone.zone.zoneName)/\(copySeries)"
        // A record that leaves the zone on its own and returns gets a different copy the next time.
        let copies = found.map { object in
            (object.id, ShortName.of("\(place)/\(object.id)" + (names == nil ? "" : "/\(object.tag ?? "")")))
        }
        let names = Dictionary(copies) { first, _ in first }
        return try target.pool.write { db in
            try HistoryTable.record(db, in: try HistoryTable.begin(db, author: StoreCopy.author, at: now))
            var count = 0
            for object in found {
                guard let table = target.mapping.tables[object.table.name], table.columns == object.table.columns,
                    let name = names[object.id]
                else { continue }
                var row = object.row
                for position in table.links {
                    // Links to objects that are not copied become NULL.
                    let copy = String.fromDatabaseValue(row[position]).flatMap { names[$0] }
                    row[position] = copy.databaseValue
                }
                // A many-to-many link needs both ends.
                if table.entity == nil, table.links.contains(where: { row[$0].isNull }) { continue }
                if try table.insertIfNew(db, name, row), table.entity != nil { count += 1 }
            }
            try HistoryTable.record(db, in: 0)
            if target.mapping.keepsEditTimes { try EditTimes.date(db, now) }
            return count
        }
    }

    private struct Object {
        var table: TableLayout
        var id: String
        var row: [DatabaseValue]
        /// The change tag of its record.
        var tag: String?
    }

    private func objects(of zone: KnownZone, only names: Set<String>?, _ db: Database) throws -> [Object] {
        let sql = "SELECT oid, entity, tag, name FROM mirror_record WHERE zone = ? AND oid IS NOT NULL ORDER BY id"
        return try Row.fetchAll(db, sql: sql, arguments: [zone.id]).compactMap { found in
            let (id, entity): (String, String?) = (found[0], found[1])
            guard names?.contains(found[3]) != false, let table = entity.flatMap({ file.mapping.tables[$0] }),
                let row = try table.row(db, id)
            else { return nil }
            return Object(table: table, id: id, row: row, tag: found[2])
        }
    }
}

extension MirroredStore {
    /// Copies objects of a zone before they are removed, if the store is configured to keep copies.
    func keepCopy(of zone: KnownZone, only names: Set<String>? = nil) throws -> [MirrorEvent.Detail] {
        guard case .keepCopy(let url)? = file.description.cloud?.losingAccess, database.databaseScope == .shared
        else { return [] }
        // The objects stay until the store is open: without a copy they would be lost.
        guard let target = otherStore(StoreID(url)) else {
            throw MirrorError(
                .unknownStore,
                "\(url.lastPathComponent), the store for copies of lost objects, is not open."
            )
        }
        // While another user signs in, the other store may already have that user's file.
        let owners = try [file, target].map { file in try file.pool.read { try State.text($0, .account) } }
        guard !target.isMirrored || owners[1] == nil || owners[0] == owners[1] else {
            throw CKError(.notAuthenticated, "The store for copies of lost objects currently belongs to another user.")
        }
        let count = try KeptCopy(file: file, target: target, now: conditions.wallClock()).run(zone, only: names)
        return count > 0 ? [.keptCopy(count)] : []
    }
}
