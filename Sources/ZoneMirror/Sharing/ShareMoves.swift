import Foundation
package import GRDB
package import Records
import SyncCore
import Wire
import ZoneKit

/// Objects that move between two zones of their owner, stored until the relay has followed.
///
/// Their ids stay; only the records' zones change. If the relay can, it moves them in one commit. Otherwise the copies
/// are sent first, and the originals are deleted only after the relay has the copies. So after a crash at any point,
/// the next start completes the move. See SharingRules.md, "What is shared" and "The end of a share".
package enum ShareMoves {
    /// Assigns objects to another zone: they are sent as new records of it.
    static func reassign(_ db: Database, _ objects: [ObjectID], to zone: Int64, file: StoreFile) throws {
        for object in objects {
            // An object to be deleted is deleted in its old zone.
            if try OutboxRow.find(db, object.name.text)?.operation == .delete { continue }
            let type = file.mapping.tables[object.entity].map { file.mapping.recordType(of: $0) }
            try RecordTable(db).reassign(object, to: zone, type: type)
        }
    }

    /// Moves the contents of a zone to be removed: objects, and records that only a newer program knows.
    ///
    /// Returns the number of records and the objects among them.
    static func empty(_ db: Database, zone: Int64, file: StoreFile) throws -> (count: Int, objects: [ObjectID]) {
        let goal = "SELECT target FROM mirror_move WHERE zone = ? AND dropsZone = 1"
        guard let target = try Int64.fetchOne(db, sql: goal, arguments: [zone]) else { return (0, []) }
        let objects = try Row.fetchAll(
            db,
            sql: """
                SELECT r.oid, r.entity FROM mirror_record r LEFT JOIN mirror_outbox o ON o.oid = r.oid
                WHERE r.zone = ? AND r.oid IS NOT NULL AND o.op IS NOT 'delete' ORDER BY r.id
                """,
            arguments: [zone]
        ).map { ObjectID(store: file.id, entity: $0[1], name: RecordName($0[0])) }
        try reassign(db, objects, to: target, file: file)
        return (objects.count + (try RecordTable(db).moveUnknown(in: zone, to: target)), objects)
    }

    /// Moves the contents of all zones to be removed, including records that have appeared in them since.
    static func emptyAll(_ db: Database, file: StoreFile) throws {
        for zone in try Int64.fetchAll(db, sql: "SELECT zone FROM mirror_move WHERE dropsZone = 1") {
            _ = try empty(db, zone: zone, file: file)
        }
    }

    /// Records that must move to another zone.
    package struct ZoneMove: Sendable {
        var from: KnownZone
        var to: KnownZone
        var names: [String]
        /// Whether the zone they leave is removed with the last of them.
        var endsZone = false
    }

    /// Returns the pending moves, grouped by pair of zones, in the order in which they were stored.
    package static func pendingMoves(_ db: Database) throws -> [ZoneMove] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT m.zone, m.target, m.name FROM mirror_move m WHERE m.dropsZone = 0 AND (m.oid = '' OR EXISTS
                    (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid AND r.zone = m.target AND r.name = m.name
                    AND r.state IN \(RecordTable.list(\.isMoving))))
                ORDER BY m.zone, m.target, m.rowid
                """
        )
        var found: [ZoneMove] = []
        for row in rows {
            let (from, to): (Int64, Int64) = (row[0], row[1])
            if let last = found.indices.last, found[last].from.id == from, found[last].to.id == to {
                found[last].names.append(row[2])
            } else if let source = try KnownZone.find(db, id: from), let target = try KnownZone.find(db, id: to) {
                found.append(ZoneMove(from: source, to: target, names: [row[2]]))
            }
        }
        let ending = try Int64.fetchSet(db, sql: "SELECT zone FROM mirror_move WHERE dropsZone = 1")
        for index in found.indices { found[index].endsZone = ending.contains(found[index].from.id) }
        return found
    }

    /// Applies a move that the relay has made.
    ///
    /// The records are imported again from the new zone, because another device may have changed them.
    static func moved(_ db: Database, _ zoneMove: ZoneMove, _ names: [String], file: StoreFile) throws {
        let (from, to) = (zoneMove.from.id, zoneMove.to.id)
        for name in names {
            try RecordTable(db).moved(name, from: from, to: to)
            try reseal(db, zone: to, name, file)
        }
        try zoneMove.to.exists(db)
    }

    /// Queues a record's encrypted values to be sent again, because the new zone has another key.
    static func reseal(_ db: Database, zone: Int64, _ name: String, _ file: StoreFile) throws {
        guard let known = try KnownRecord.find(db, zone: zone, name: name),
            let table = known.entity.flatMap({ file.mapping.tables[$0] })
        else { return }
        let secret = table.columns.filter { $0.attribute?.isEncrypted == true }.map { file.mapping.field($0) }
        guard !secret.isEmpty else { return }
        let fields = known.allFields().filter { !secret.contains($0.key) }
        try RecordTable(db).setBase(KnownRecord.encode(fields, encrypted: known.encryptedFields()), of: known)
    }

    /// Returns what can be deleted on the relay: originals whose copy has arrived, and empty zones.
    package static func removable(_ db: Database) throws -> (
        originals: [ZoneID: [RecordTable.Original]], zones: [ZoneID]
    ) {
        let arrived = "EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid AND r.state IN \(RecordTable.inZone))"
        let deleted = "(m.oid <> '' AND NOT EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid))"
        let dropped = "SELECT zone FROM mirror_move WHERE dropsZone = 1"
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT m.zone, m.name, m.tag FROM mirror_move m
                WHERE m.dropsZone = 0 AND m.zone NOT IN (\(dropped)) AND (\(arrived) OR \(deleted))
                """
        )
        var originals: [ZoneID: [RecordTable.Original]] = [:]
        for row in rows {
            guard let zone = try KnownZone.find(db, id: row[0])?.zone else { continue }
            originals[zone, default: []].append(.init(zone: row[0], name: row[1], tag: row[2]))
        }
        let zones = try Int64.fetchAll(
            db,
            sql: """
                SELECT z.zone FROM mirror_move z WHERE z.dropsZone = 1 AND NOT EXISTS (
                    SELECT 1 FROM mirror_move m WHERE m.zone = z.zone AND m.dropsZone = 0 AND NOT (\(arrived) OR \(deleted)))
                """
        )
        return (originals, try zones.compactMap { try KnownZone.find(db, id: $0)?.zone })
    }

    static func finished(_ db: Database, originals names: [String], in zone: ZoneID) throws {
        guard let known = try KnownZone.find(db, zone) else { return }
        for name in names { try RecordTable(db).forgetOriginal(name, in: known.id) }
    }

    /// Handles the removal of a zone on the relay; new local objects for it go to the same target as the others.
    static func finished(_ db: Database, zone: ZoneID, file: StoreFile) throws {
        guard let known = try KnownZone.find(db, zone) else { return }
        _ = try empty(db, zone: known.id, file: file)
        try RecordTable(db).removeAll(zone: known.id)
        try ShareCache.remove(db, zone: known.id)
        try SentRequest.remove(db, in: zone)
        try known.remove(db)
    }
}
