import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Objects that move between two zones of their owner, as the store keeps them until the relay has followed.
///
/// Identities stay; only the records' zones change. First the copies are sent, and only when the relay has them the
/// originals are deleted, so that a crash at any point ends in "all moved" after the next start. SDK reference 14.3 and 16.
enum ShareMoves {
    /// The objects now belong into another zone: they are sent as new records of it.
    static func rebind(_ db: Database, _ objects: [ObjectID], to zone: Int64, file: StoreFile) throws {
        for object in objects {
            let oid = object.name.text
            if let known = try KnownRecord.find(db, oid: oid) {
                guard known.zone != zone else { continue }
                if known.tag != nil { try leave(db, known, oid) }
                try db.execute(
                    sql: "UPDATE mirror_record SET zone = ?, tag = NULL, parent = NULL, share = NULL WHERE id = ?",
                    arguments: [zone, known.id]
                )
            } else if let table = file.mapping.tables[object.entity] {
                let type = file.mapping.recordType(of: table)
                try KnownRecord.reserve(db, zone: zone, name: oid, oid: oid, entity: object.entity, type: type)
            }
            try db.execute(sql: "UPDATE mirror_link SET zone = ? WHERE oid = ?", arguments: [zone, oid])
            try OutboxRow.add(db, oid, entity: object.entity, .save)
        }
    }

    /// Notes the original, to be deleted when the copy is there.
    private static func leave(_ db: Database, _ known: KnownRecord, _ oid: String) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO mirror_move(zone, name, oid, dropsZone) VALUES (?, ?, ?, 0)",
            arguments: [known.zone, known.name, oid]
        )
    }

    /// Notes that a zone is to go when everything in it has moved out.
    static func drop(_ db: Database, zone: Int64) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO mirror_move(zone, name, oid, dropsZone) VALUES (?, '', '', 1)",
            arguments: [zone]
        )
    }

    /// What can be deleted on the relay by now: originals whose copy is there, and zones that everything has left.
    static func due(_ db: Database) throws -> (originals: [ZoneID: [String]], zones: [ZoneID]) {
        let arrived = "EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid AND r.tag IS NOT NULL)"
        let gone = "NOT EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid)"
        let dropped = "SELECT zone FROM mirror_move WHERE dropsZone = 1"
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT m.zone, m.name FROM mirror_move m
                WHERE m.dropsZone = 0 AND m.zone NOT IN (\(dropped)) AND (\(arrived) OR \(gone))
                """
        )
        var originals: [ZoneID: [String]] = [:]
        for row in rows {
            guard let zone = try KnownZone.find(db, id: row[0])?.zone else { continue }
            originals[zone, default: []].append(row[1])
        }
        let zones = try Int64.fetchAll(
            db,
            sql: """
                SELECT z.zone FROM mirror_move z WHERE z.dropsZone = 1 AND NOT EXISTS (
                    SELECT 1 FROM mirror_move m WHERE m.zone = z.zone AND m.dropsZone = 0 AND NOT (\(arrived) OR \(gone)))
                """
        )
        return (originals, try zones.compactMap { try KnownZone.find(db, id: $0)?.zone })
    }

    static func finished(_ db: Database, originals names: [String], in zone: ZoneID) throws {
        guard let known = try KnownZone.find(db, zone) else { return }
        for name in names {
            try db.execute(
                sql: "DELETE FROM mirror_move WHERE zone = ? AND name = ? AND dropsZone = 0",
                arguments: [known.id, name]
            )
        }
    }

    static func finished(_ db: Database, zone: ZoneID) throws {
        guard let known = try KnownZone.find(db, zone) else { return }
        try db.execute(sql: "DELETE FROM mirror_move WHERE zone = ?", arguments: [known.id])
        try db.execute(sql: "DELETE FROM mirror_record WHERE zone = ?", arguments: [known.id])
        try db.execute(sql: "DELETE FROM mirror_zone WHERE id = ?", arguments: [known.id])
    }
}

extension MirrorSync {
    /// Deletes what has moved away, once its copies are there.
    func finishMoves() async throws {
        let (originals, zones) = try await file.pool.read { try ShareMoves.due($0) }
        for (zone, names) in originals {
            for start in stride(from: 0, to: names.count, by: 200) {
                let part = Array(names[start..<min(start + 200, names.count)])
                for answer in try await link.modify(part.map { .init(.forceDelete, $0) }, in: zone, atomically: false) {
                    if case .failed(let error, _) = answer, error.code != .unknownItem { throw error }
                }
                try await file.pool.write { try ShareMoves.finished($0, originals: part, in: zone) }
            }
            await tellOthers([zone])
        }
        for zone in zones {
            try await link.delete(zone)
            try await file.pool.write { try ShareMoves.finished($0, zone: zone) }
            feed.lost(zone)
            await tellOthers([zone])
        }
    }

    /// Moves objects into another zone of this user, in the store alone; the next round sends it.
    func rebind(_ objects: [ObjectID], to zone: ZoneID, dropping old: ZoneID? = nil) async throws {
        let file = file
        try await withSendLane {
            try await file.pool.write { db in
                let target = try KnownZone.make(db, zone)
                try ShareMoves.rebind(db, objects, to: target.id, file: file)
                if let old, let known = try KnownZone.find(db, old) { try ShareMoves.drop(db, zone: known.id) }
            }
        }
    }
}

/// Everything that hangs together with some objects: links followed both ways, to the end.
///
/// SDK reference 14.2.
struct ShareClosure {
    let db: Database
    let file: StoreFile

    /// The objects and all that they lead to; pairs of many-to-many links are among them.
    func objects(from start: [ObjectID]) throws -> [ObjectID] {
        var found = Set(start)
        var order = start
        var next = 0
        while next < order.count {
            let object = order[next]
            next += 1
            for other in try neighbours(of: object) where found.insert(other).inserted { order.append(other) }
        }
        return order
    }

    private func neighbours(of object: ObjectID) throws -> [ObjectID] {
        guard let table = file.mapping.tables[object.entity], let row = try table.row(db, object.name.text) else {
            return []
        }
        var found: [ObjectID] = []
        for position in table.links {
            guard let id = String.fromDatabaseValue(row[position]), let link = table.columns[position].link,
                !link.stopsSharing
            else { continue }
            found.append(ObjectID(store: file.id, entity: link.destination, name: RecordName(id)))
        }
        for other in file.mapping.tables.values {
            for position in other.links where other.columns[position].link?.destination == object.entity {
                let back = other.columns[position].link
                if back?.stopsSharing == true || stops(back, at: object.entity) { continue }
                let sql = "SELECT id FROM \(other.name.quoted) WHERE \(other.columns[position].name.quoted) = ?"
                for id in try String.fetchAll(db, sql: sql, arguments: [object.name.text]) {
                    found.append(ObjectID(store: file.id, entity: other.name, name: RecordName(id)))
                }
            }
        }
        return found
    }

    /// The relationship at the other end may say so too.
    private func stops(_ link: Relationship?, at entity: String) -> Bool {
        guard let name = link?.inverse else { return false }
        return file.model.entities[entity]?.relationships.first { $0.name == name }?.stopsSharing == true
    }
}
