import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Imports objects that change zones when a share begins or ends.
///
/// The feeds of the two zones may arrive in any order. The object stays the same one, with its links and its unsent
/// changes.
extension Importer {
    /// Returns the object of a record that was in another zone before; `nil` if that record is a different one with
    /// the same name.
    func movedHere(
        _ table: TableLayout,
        _ record: Record,
        _ theirs: [DatabaseValue],
        _ zone: KnownZone
    ) throws -> String? {
        let name = record.id.recordName
        guard let before = try KnownRecord.find(db, oid: name), before.entity == table.name,
            try mayLeave(before, for: zone), try isSame(record, theirs, as: before, table)
        else { return nil }
        try records.remove(before)
        try records.forgetOriginals(of: name)
        try records.release(name)
        try UnresolvedLinks.move(db, of: name, to: zone.id)
        try update(table, name, theirs, before, zone)
        leftZones.insert(before.zone)
        try UnsharedLinkedObjects.markPossible(db)
        return name
    }

    /// Returns whether a record is one that has moved: it then has the same creation date and creator; a copy has the
    /// same values as its original.
    ///
    /// Programs may use one name in several zones. Without this check, such records would be one object that switches
    /// between the zones.
    private func isSame(
        _ record: Record,
        _ theirs: [DatabaseValue],
        as before: KnownRecord,
        _ table: TableLayout
    ) throws -> Bool {
        let sql = "SELECT created, creator FROM mirror_record WHERE id = ? AND created IS NOT NULL"
        guard let made = try Row.fetchOne(db, sql: sql, arguments: [before.id]), let created = record.created,
            try KnownZone.find(db, id: before.zone)?.isEnding == false
        else { return true }
        return made[0] == created.at.milliseconds && made[1] == created.by.recordName
            || theirs == mapping.row(of: before.serverFields(), in: table)
    }

    /// Returns whether a record may have left a zone.
    ///
    /// Always between the user's own zones; from another user's zone only if that has ended or the record was removed
    /// from it.
    private func mayLeave(_ before: KnownRecord, for zone: KnownZone) throws -> Bool {
        switch file.scope {
        case .private: return true
        case .shared:
            guard let old = try KnownZone.find(db, id: before.zone), old.zone.owner == zone.zone.owner else {
                return false
            }
            return old.isEnding || before.state == .invisible
        case .public, nil: return false
        }
    }

    /// Assigns a record to the zone to which its old zone's feed says it has moved; the next version from there is
    /// imported.
    func expect(_ known: KnownRecord, in zone: KnownZone) throws {
        if let there = try KnownRecord.find(db, zone: zone.id, name: known.name), there.id != known.id {
            return try remove(known)
        }
        try records.expect(known, in: zone)
        try zone.changed(db)
        try UnsharedLinkedObjects.markPossible(db)
        awaitingZones.insert(zone.id)
        count += 1
    }

    // MARK: Originals of moved records

    /// Imports another user's change to a record that this device is about to move, or whose copy it has sent, into the
    /// object.
    func takeOriginal(
        _ record: Record,
        _ theirs: [DatabaseValue],
        _ table: TableLayout,
        _ zone: KnownZone
    ) throws -> Bool {
        guard let moving = try target(ofOriginal: record.id.recordName, zone), moving.entity == table.name,
            let oid = moving.oid, let home = try KnownZone.find(db, id: moving.zone)
        else { return false }
        try records.originalChanged(.init(zone: zone.id, name: record.id.recordName, tag: record.changeTag))
        keepsOutboxRow = true
        defer { keepsOutboxRow = false }
        // A copy that was already sent lacks the new changes.
        if try OutboxRow.find(db, oid) == nil { try records.queue(oid, entity: table.name, .save) }
        try update(table, oid, theirs, moving, home)
        if !moving.state.isInZone {
            try records.setBase(KnownRecord.encode(record.fields, encrypted: record.encryptedFields), of: moving)
        }
        return true
    }

    /// Handles a record that this device was about to move but that is gone.
    func originalIsGone(_ name: String, _ zone: KnownZone, movedTo targetZone: String?) throws {
        guard var moving = try target(ofOriginal: name, zone) else { return }
        try records.originalGone(.init(zone: zone.id, name: name), of: moving)
        // If the copy has arrived, this device itself deleted the original.
        guard !moving.state.isInZone else { return }
        moving.state = moving.state.after(.originalGone).state
        if let targetZone { return try expect(moving, in: try KnownZone.make(db, ZoneID(targetZone))) }
        guard let oid = moving.oid, let table = moving.entity.flatMap({ mapping.tables[$0] }) else {
            return try records.remove(moving)
        }
        // If only the move was pending, the deletion wins.
        let mine = try table.row(db, oid).map { mapping.roundTripped(try names.toRelay($0, table, oid, db), in: table) }
        let isEdited = mine.map { $0 != mapping.row(of: moving.serverFields(), in: table) } ?? false
        try remove(moving, keepingPending: isEdited)
    }

    /// Returns the target of a record that is about to move out of a zone.
    private func target(ofOriginal name: String, _ zone: KnownZone) throws -> KnownRecord? {
        let sql = "SELECT oid FROM mirror_move WHERE zone = ? AND name = ? AND dropsZone = 0 AND oid <> ''"
        let statement = try db.cachedStatement(sql: sql)
        guard let oid = try String.fetchOne(statement, arguments: [zone.id, name]) else { return nil }
        return try KnownRecord.find(db, oid: oid).flatMap { $0.zone == zone.id ? nil : $0 }
    }
}
