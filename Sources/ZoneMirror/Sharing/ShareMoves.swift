import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Objects that move between two zones of their owner, stored until the relay has followed.
///
/// Their ids stay; only the records' zones change. If the relay can, it moves them in one commit. Otherwise the copies
/// are sent first, and the originals are deleted only after the relay has the copies. So after a crash at any point,
/// the next start completes the move. See SharingRules.md, "What is shared" and "The end of a share".
enum ShareMoves {
    /// Assigns objects to another zone: they are sent as new records of it.
    static func reassign(_ db: Database, _ objects: [ObjectID], to zone: Int64, file: StoreFile) throws {
        for object in objects {
            let oid = object.name.text
            // An object to be deleted is deleted in its old zone.
            if try OutboxRow.find(db, oid)?.operation == .delete { continue }
            if let known = try KnownRecord.find(db, oid: oid) {
                guard known.zone != zone else { continue }
                if known.tag != nil {
                    try storeOriginal(db, Original(name: known.name, tag: known.tag), oid, in: known.zone, to: zone)
                }
                try db.execute(
                    sql: """
                        UPDATE mirror_record SET zone = ?, name = ?, tag = NULL, parent = NULL, share = NULL WHERE id = ?
                        """,
                    arguments: [zone, try known.name(in: zone, db), known.id]
                )
            } else if let table = file.mapping.tables[object.entity] {
                let type = file.mapping.recordType(of: table)
                try KnownRecord.reserve(db, zone: zone, name: oid, oid: oid, entity: object.entity, type: type)
            }
            try db.execute(sql: "UPDATE mirror_link SET zone = ? WHERE oid = ?", arguments: [zone, oid])
            try OutboxRow.add(db, oid, entity: object.entity, .save)
        }
    }

    /// Stores the original, to be deleted when the copy has arrived.
    private static func storeOriginal(
        _ db: Database,
        _ original: Original,
        _ oid: String,
        in zone: Int64,
        to target: Int64
    ) throws {
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO mirror_move(zone, name, oid, dropsZone, target, tag) VALUES (?, ?, ?, 0, ?, ?)
                """,
            arguments: [zone, original.name, oid, target, original.tag]
        )
    }

    /// Handles a record that the relay has saved in a zone from which its object was moved meanwhile: the saved record
    /// is moved too.
    static func savedInFormerZone(
        _ db: Database,
        _ record: Record,
        of oid: String,
        from zone: Int64,
        to target: Int64
    ) throws {
        try storeOriginal(db, Original(name: record.id.recordName, tag: record.changeTag), oid, in: zone, to: target)
    }

    /// Marks a zone to be removed when everything in it has moved.
    static func drop(_ db: Database, zone: Int64, to target: Int64) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO mirror_move(zone, name, oid, dropsZone, target) VALUES (?, '', '', 1, ?)",
            arguments: [zone, target]
        )
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
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO mirror_move(zone, name, oid, dropsZone, target, tag)
                SELECT zone, name, '', 0, ?, tag FROM mirror_record
                WHERE zone = ? AND oid IS NULL AND tag IS NOT NULL AND type <> ?
                """,
            arguments: [target, zone, Share.recordType]
        )
        return (objects.count + db.changesCount, objects)
    }

    /// Moves the contents of all zones to be removed, including records that have appeared in them since.
    static func emptyAll(_ db: Database, file: StoreFile) throws {
        for zone in try Int64.fetchAll(db, sql: "SELECT zone FROM mirror_move WHERE dropsZone = 1") {
            _ = try empty(db, zone: zone, file: file)
        }
    }

    /// Returns whether an object was assigned to another zone while the relay has it only in the old one.
    static func isUnderWay(_ db: Database, _ known: KnownRecord) throws -> Bool {
        guard known.tag == nil, let oid = known.oid else { return false }
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_move WHERE oid = ? AND target = ? AND dropsZone = 0)"
        return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [oid, known.zone]) ?? false
    }

    /// Records that must move to another zone.
    struct ZoneMove: Sendable {
        var from: KnownZone
        var to: KnownZone
        var names: [String]
        /// Whether the zone they leave is removed with the last of them.
        var endsZone = false
    }

    /// Returns the pending moves, grouped by pair of zones, in the order in which they were stored.
    static func pendingMoves(_ db: Database) throws -> [ZoneMove] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT m.zone, m.target, m.name FROM mirror_move m WHERE m.dropsZone = 0 AND (m.oid = '' OR EXISTS
                    (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid AND r.zone = m.target AND r.tag IS NULL
                    AND r.name = m.name))
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
            // Records that the model does not know were kept in their old zone until now.
            try db.execute(
                sql: "UPDATE mirror_record SET zone = ? WHERE zone = ? AND name = ? AND oid IS NULL",
                arguments: [to, from, name]
            )
            try db.execute(
                sql: "UPDATE mirror_record SET tag = ? WHERE zone = ? AND name = ? AND (tag IS NULL OR oid IS NULL)",
                arguments: [KnownRecord.unseen, to, name]
            )
            try reseal(db, zone: to, name, file)
            try db.execute(
                sql: "DELETE FROM mirror_move WHERE zone = ? AND name = ? AND dropsZone = 0",
                arguments: [from, name]
            )
        }
        try db.execute(sql: "UPDATE mirror_zone SET isThere = 1 WHERE id = ?", arguments: [to])
    }

    /// Queues a record's encrypted values to be sent again, because the new zone has another key.
    static func reseal(_ db: Database, zone: Int64, _ name: String, _ file: StoreFile) throws {
        guard let known = try KnownRecord.find(db, zone: zone, name: name),
            let table = known.entity.flatMap({ file.mapping.tables[$0] })
        else { return }
        let secret = table.columns.filter { $0.attribute?.isEncrypted == true }.map { file.mapping.field($0) }
        guard !secret.isEmpty else { return }
        let fields = known.allFields().filter { !secret.contains($0.key) }
        try db.execute(
            sql: "UPDATE mirror_record SET fields = ? WHERE id = ?",
            arguments: [KnownRecord.encode(fields, encrypted: known.encryptedFields()), known.id]
        )
    }

    /// A record that was copied to another zone, as it was then; `tag` is `nil` if its version is unknown.
    struct Original: Sendable {
        var name: String
        var tag: String?
    }

    /// Returns what can be deleted on the relay: originals whose copy has arrived, and empty zones.
    static func removable(_ db: Database) throws -> (originals: [ZoneID: [Original]], zones: [ZoneID]) {
        let arrived = "EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid AND r.tag IS NOT NULL)"
        let gone = "(m.oid <> '' AND NOT EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = m.oid))"
        let dropped = "SELECT zone FROM mirror_move WHERE dropsZone = 1"
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT m.zone, m.name, m.tag FROM mirror_move m
                WHERE m.dropsZone = 0 AND m.zone NOT IN (\(dropped)) AND (\(arrived) OR \(gone))
                """
        )
        var originals: [ZoneID: [Original]] = [:]
        for row in rows {
            guard let zone = try KnownZone.find(db, id: row[0])?.zone else { continue }
            let tag: String? = row[2]
            let isSeen = tag != KnownRecord.unseen && tag != KnownRecord.awaited
            originals[zone, default: []].append(Original(name: row[1], tag: isSeen ? tag : nil))
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

    /// Handles the removal of a zone on the relay; new local objects for it go to the same target as the others.
    static func finished(_ db: Database, zone: ZoneID, file: StoreFile) throws {
        guard let known = try KnownZone.find(db, zone) else { return }
        _ = try empty(db, zone: known.id, file: file)
        try db.execute(sql: "DELETE FROM mirror_move WHERE zone = ?", arguments: [known.id])
        try db.execute(sql: "DELETE FROM mirror_record WHERE zone = ?", arguments: [known.id])
        try ShareCache.remove(db, zone: known.id)
        try SentRequest.remove(db, in: zone)
        try db.execute(sql: "DELETE FROM mirror_zone WHERE id = ?", arguments: [known.id])
    }
}
