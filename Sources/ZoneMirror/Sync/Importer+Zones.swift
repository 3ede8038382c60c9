import GRDB
import Records
import SyncCore
import ZoneKit

extension KnownZone {
    /// Starts a full fetch of a zone: records are marked as seen from now on.
    ///
    /// Does nothing for a zone without known records.
    mutating func beginSweep(_ db: Database, _ number: Int64) throws {
        let hasRecords = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM mirror_record WHERE zone = ? AND tag IS NOT NULL)",
            arguments: [id]
        )
        guard hasRecords == true else { return }
        sweep = number
        try db.execute(sql: "UPDATE mirror_zone SET sweep = ? WHERE id = ?", arguments: [number, id])
    }
}

extension Importer {
    /// Handles the loss of a zone.
    ///
    /// If the zone was deleted or purged, its objects are removed with their unsent changes. Objects that were never
    /// sent stay and create the home zone again; those that may have reached a purged zone do not. After a reset of
    /// encrypted data, everything is sent again.
    ///
    /// `isOurs` means that this device ended the zone, so that the local values are the newest.
    func lose(_ zone: KnownZone, _ loss: DatabasePage.Loss, isOurs: Bool = false) throws -> [MirrorEvent.Detail] {
        let sql = "SELECT name FROM mirror_record WHERE zone = ?"
        let names = try String.fetchAll(db, sql: sql, arguments: [zone.id])
        let isShared = file.description.cloud?.scope == .shared
        var (dropped, gone): ([String], [String]) = ([], [])
        for name in names {
            guard let known = try KnownRecord.find(db, zone: zone.id, name: name) else { continue }
            if loss == .encryptedDataReset, known.type != Share.recordType {
                try sendAnew(known, isNewest: isOurs)
                continue
            }
            if let home = file.homeZone, home != zone.zone, loss == .deleted, let oid = known.oid,
                try OutboxRow.find(db, oid)?.operation == .save
            {
                // A share of this user has ended while a change or a new object was unsent: it moves to the home zone
                // with its object.
                let target = try KnownZone.make(db, home)
                try db.execute(
                    sql: "UPDATE mirror_record SET zone = ?, name = ?, tag = NULL WHERE id = ?",
                    arguments: [target.id, try known.name(in: target.id, db), known.id]
                )
                try OutboxRow.release(db, oid)
                continue
            }
            if known.tag == nil, !isShared, loss == .deleted { continue }
            if let oid = known.oid, try OutboxRow.find(db, oid) != nil {
                dropped.append(oid)
                try OutboxRow.drop(db, oid)
            }
            try remove(known, keepingPending: false)
            gone.append(name)
        }
        for name in gone { try dropPairs(with: name, zone: zone.id) }
        try SentRequest.remove(db, in: zone.zone)
        try db.execute(
            sql: """
                UPDATE mirror_zone SET token = NULL, isThere = 0, isUnfetched = 0, sweep = 0, isEnding = 0 WHERE id = ?
                """,
            arguments: [zone.id]
        )
        if try ShareCache.remove(db, zone: zone.id) { try noteShare(in: zone, .delete) }
        try DepartedRecords.forgetAll(db, zone: zone.id)
        if isShared { try db.execute(sql: "DELETE FROM mirror_zone WHERE id = ?", arguments: [zone.id]) }
        var details: [MirrorEvent.Detail] = [.zoneLost(zone: zone.zone.description, reason: "\(loss)")]
        if !dropped.isEmpty { details.append(.droppedChanges(dropped)) }
        return details
    }

    /// Sends the known version again, because no device can decrypt what the relay had.
    private func sendAnew(_ known: KnownRecord, isNewest: Bool) throws {
        guard let oid = known.oid, let entity = known.entity else {
            try db.execute(sql: "UPDATE mirror_record SET tag = NULL WHERE id = ?", arguments: [known.id])
            return try State.set(db, .hasUnsent, "1")
        }
        try known.forgetVersion(db, mapping, keeping: baseFields(of: known, entity, isNewest: isNewest))
        // An object that was deleted here is gone there too, and is deleted once more if another device sends it
        // again.
        guard try OutboxRow.find(db, oid)?.operation != .delete else { return }
        try OutboxRow.add(db, oid, entity: entity, .save)
    }

    /// The fields whose old values are kept to show what was changed here, so that unchanged ones do not overwrite
    /// those of others.
    ///
    /// If this device has the newest values, they are to overwrite older ones, and only the application's own rules
    /// need the old values. Encrypted fields are never kept: other devices may not have been able to read them, and
    /// send nothing in their place.
    private func baseFields(of known: KnownRecord, _ entity: String, isNewest: Bool) -> Set<String> {
        guard let table = mapping.tables[entity] else { return [] }
        let resolvers = file.description.cloud?.propertyResolvers ?? [:]
        let ruled = table.columns.filter { resolvers["\(entity).\($0.name)"] != nil }.map { mapping.field($0) }
        return (isNewest ? Set(ruled) : mapping.ownFields(of: table)).subtracting(known.encryptedFields())
    }
}
