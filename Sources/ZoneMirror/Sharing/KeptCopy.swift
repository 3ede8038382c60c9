import Foundation
import GRDB
import Records
import ZoneKit

/// A copy of everything in one zone of a shared store, in another store: made when the access to the zone ends.
///
/// Copies have names of their own, derived from those of the originals, so that one that is interrupted and made again does
/// not double anything. See SharingRules.md, "The end of a share".
struct KeptCopy {
    let file: StoreFile
    let target: StoreFile
    let now: Date

    /// Returns how many objects were copied.
    func run(_ zone: KnownZone) throws -> Int {
        let found = try file.pool.read { try objects(of: zone, $0) }
        guard !found.isEmpty else { return 0 }
        // What a zone held at another time, by its token, has other copies.
        let place = "\(zone.zone.owner.recordName)/\(zone.zone.zoneName)/\(zone.token ?? "")"
        let names = Dictionary(found.map { ($0.id, ShortName.of("\(place)/\($0.id)")) }) { first, _ in first }
        return try target.pool.write { db in
            try db.execute(
                sql: "INSERT INTO mirror_transaction(author, at) VALUES (?, ?)",
                arguments: [StoreCopy.author, now.timeIntervalSince1970]
            )
            try db.execute(sql: "UPDATE mirror_local SET txn = ?", arguments: [db.lastInsertedRowID])
            var count = 0
            for object in found {
                guard let table = target.mapping.tables[object.table.name], table.columns == object.table.columns,
                    let name = names[object.id]
                else { continue }
                var row = object.row
                for position in table.links {
                    // Links to what is not copied lead nowhere.
                    let copy = String.fromDatabaseValue(row[position]).flatMap { names[$0] }
                    row[position] = copy.databaseValue
                }
                if try table.insertIfNew(db, name, row), table.entity != nil { count += 1 }
            }
            try db.execute(sql: "UPDATE mirror_local SET txn = 0")
            if target.mapping.keepsEditTimes { try EditTimes.date(db, now) }
            return count
        }
    }

    private struct Object {
        var table: TableForm
        var id: String
        var row: [DatabaseValue]
    }

    private func objects(of zone: KnownZone, _ db: Database) throws -> [Object] {
        let sql = "SELECT oid, entity FROM mirror_record WHERE zone = ? AND oid IS NOT NULL ORDER BY id"
        return try Row.fetchAll(db, sql: sql, arguments: [zone.id]).compactMap { found in
            let (id, entity): (String, String?) = (found[0], found[1])
            guard let table = entity.flatMap({ file.mapping.tables[$0] }), let row = try table.row(db, id) else {
                return nil
            }
            return Object(table: table, id: id, row: row)
        }
    }
}

extension MirrorSync {
    /// Copies what a zone holds before it goes, where that is wanted.
    func keepCopy(of zone: KnownZone) throws -> [MirrorEvent.Detail] {
        guard case .keepCopy(let url)? = file.description.cloud?.losingAccess, link.database.databaseScope == .shared,
            let target = otherStore(StoreID(url)), target.id != file.id
        else { return [] }
        let count = try KeptCopy(file: file, target: target, now: conditions.wallClock()).run(zone)
        return count > 0 ? [.keptCopy(count)] : []
    }
}
