import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Objects that change their zone, as a share begins or ends: the two zones' feeds come in any order.
///
/// Whichever tells first, the object stays the same one, with its links and with what was changed here and not sent.
extension Importer {
    /// An object that was in another zone turns up here; `nil` where the record is another one that has its name.
    func movedHere(
        _ table: TableForm,
        _ record: Record,
        _ theirs: [DatabaseValue],
        _ zone: KnownZone
    ) throws -> String? {
        let name = record.id.recordName
        guard let before = try KnownRecord.find(db, oid: name), before.entity == table.name,
            try mayLeave(before, for: zone), try isSame(record, theirs, as: before, table)
        else { return nil }
        try KnownRecord.remove(db, id: before.id)
        if hasDepartures { try DepartedRecords.forget(db, zone: before.zone, before.name) }
        try db.execute(sql: "UPDATE mirror_link SET zone = ? WHERE oid = ?", arguments: [zone.id, name])
        try db.execute(sql: "DELETE FROM mirror_move WHERE oid = ? AND dropsZone = 0", arguments: [name])
        try OutboxRow.release(db, name)
        try update(table, name, theirs, before, zone)
        leftZones.insert(before.zone)
        try Stragglers.mayBe(db)
        return name
    }

    /// A record that the relay has moved was still made when it was, by whom it was; a copy says the same as its original.
    ///
    /// Programs may give one name in several zones: records with it that both stay where they are would else be one object that
    /// is now in the one, now in the other.
    private func isSame(
        _ record: Record,
        _ theirs: [DatabaseValue],
        as before: KnownRecord,
        _ table: TableForm
    ) throws -> Bool {
        let sql = "SELECT created, creator FROM mirror_record WHERE id = ? AND created IS NOT NULL"
        guard let made = try Row.fetchOne(db, sql: sql, arguments: [before.id]), let created = record.created,
            try KnownZone.find(db, id: before.zone)?.isEnding == false
        else { return true }
        return made[0] == created.at.milliseconds && made[1] == created.by.recordName
            || theirs == mapping.row(of: before.serverFields(), in: table)
    }

    /// Between the zones of this user's; those of others only where one has ended, or the record has left it.
    private func mayLeave(_ before: KnownRecord, for zone: KnownZone) throws -> Bool {
        switch file.scope {
        case .private: return true
        case .shared:
            guard let old = try KnownZone.find(db, id: before.zone), old.zone.owner == zone.zone.owner else {
                return false
            }
            return try old.isEnding || hasDepartures && DepartedRecords.contain(db, zone: old.id, before.name)
        case .public, nil: return false
        }
    }

    /// A record's old zone says that it is in another one now: so it is here, and the next version that comes from there is
    /// taken in.
    func expect(_ known: KnownRecord, in zone: KnownZone) throws {
        if let there = try KnownRecord.find(db, zone: zone.id, name: known.name), there.id != known.id {
            return try remove(known)
        }
        try db.execute(
            sql: "UPDATE mirror_record SET zone = ?, tag = ?, parent = NULL, share = NULL, seen = ? WHERE id = ?",
            arguments: [zone.id, KnownRecord.awaited, zone.sweep, known.id]
        )
        if let oid = known.oid {
            try db.execute(sql: "UPDATE mirror_link SET zone = ? WHERE oid = ?", arguments: [zone.id, oid])
            try db.execute(sql: "DELETE FROM mirror_move WHERE oid = ? AND dropsZone = 0", arguments: [oid])
            try OutboxRow.release(db, oid)
        }
        try db.execute(
            sql: "UPDATE mirror_zone SET isThere = 1, isUnfetched = 1, isEnding = 0 WHERE id = ?",
            arguments: [zone.id]
        )
        try State.set(db, .awaitsRecords, "1")
        try Stragglers.mayBe(db)
        awaitingZones.insert(zone.id)
        count += 1
    }

    // MARK: Originals of what is to move

    /// Somebody has written to a record that this device is about to move, or whose copy it has sent: the object that it
    /// stands for takes that in where it is.
    func takeOriginal(
        _ record: Record,
        _ theirs: [DatabaseValue],
        _ table: TableForm,
        _ zone: KnownZone
    ) throws -> Bool {
        guard let moving = try target(ofOriginal: record.id.recordName, zone), moving.entity == table.name,
            let oid = moving.oid, let home = try KnownZone.find(db, id: moving.zone)
        else { return false }
        try db.execute(
            sql: "UPDATE mirror_move SET tag = ? WHERE zone = ? AND name = ? AND dropsZone = 0",
            arguments: [record.changeTag, zone.id, record.id.recordName]
        )
        keepsPlace = true
        defer { keepsPlace = false }
        // A copy that was sent lacks what has come now.
        if try OutboxRow.find(db, oid) == nil { try OutboxRow.add(db, oid, entity: table.name, .save) }
        try update(table, oid, theirs, moving, home)
        if moving.tag == nil {
            try db.execute(
                sql: "UPDATE mirror_record SET fields = ? WHERE id = ?",
                arguments: [KnownRecord.encode(record.fields, encrypted: record.encryptedFields), moving.id]
            )
        }
        return true
    }

    /// A record that this device was about to move is not there any more.
    func originalIsGone(_ name: String, _ zone: KnownZone, movedTo goal: String?) throws {
        guard let moving = try target(ofOriginal: name, zone) else { return }
        try db.execute(
            sql: "DELETE FROM mirror_move WHERE zone = ? AND name = ? AND dropsZone = 0",
            arguments: [zone.id, name]
        )
        // What has arrived has left its original behind by ourselves.
        guard moving.tag == nil else { return }
        if let goal { return try expect(moving, in: try KnownZone.make(db, ZoneID(goal))) }
        guard let oid = moving.oid, let table = moving.entity.flatMap({ mapping.tables[$0] }) else {
            return try KnownRecord.remove(db, id: moving.id)
        }
        // Where nothing but the move was to be sent, the deletion counts.
        let mine = try table.row(db, oid).map { mapping.settled(try names.toRelay($0, table, oid, db), in: table) }
        let isEdited = mine.map { $0 != mapping.row(of: moving.serverFields(), in: table) } ?? false
        try remove(moving, keepingPending: isEdited)
    }

    /// Where the object of a record is to be that is to move out of a zone.
    private func target(ofOriginal name: String, _ zone: KnownZone) throws -> KnownRecord? {
        let sql = "SELECT oid FROM mirror_move WHERE zone = ? AND name = ? AND dropsZone = 0 AND oid <> ''"
        let statement = try db.cachedStatement(sql: sql)
        guard let oid = try String.fetchOne(statement, arguments: [zone.id, name]) else { return nil }
        return try KnownRecord.find(db, oid: oid).flatMap { $0.zone == zone.id ? nil : $0 }
    }
}
