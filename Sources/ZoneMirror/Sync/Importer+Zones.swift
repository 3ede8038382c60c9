import GRDB
import Records
import SyncCore
import ZoneKit

extension KnownZone {
    /// A listing from the beginning starts: from now on records are marked as seen.
    ///
    /// Nothing to do for a zone of which nothing is known.
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
    /// A zone is gone.
    ///
    /// Deleted or purged: its objects go, and changes to them that were not sent; objects that were never sent stay, and make
    /// the home zone anew; what may have reached a purged zone does not. After a reset of encrypted data everything is sent again.
    ///
    /// `isOurs`: this device has ended it, with what is here as the newest that there is.
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
                // A share of ours has ended while a change was under way, or something new: it goes home with its object.
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

    /// Nobody can read any more what the relay had: what is known of it here goes there again.
    private func sendAnew(_ known: KnownRecord, isNewest: Bool) throws {
        guard let oid = known.oid, let entity = known.entity else {
            try db.execute(sql: "UPDATE mirror_record SET tag = NULL WHERE id = ?", arguments: [known.id])
            return try State.set(db, .hasUnsent, "1")
        }
        try known.forgetVersion(db, mapping, keeping: baseFields(of: known, entity, isNewest: isNewest))
        // What was deleted here is gone there by now; and is deleted once more where another device sends it anew.
        guard try OutboxRow.find(db, oid)?.operation != .delete else { return }
        try OutboxRow.add(db, oid, entity: entity, .save)
    }

    /// The fields of which is to be seen what was changed here since the relay had them: what was not is to cover nothing of
    /// what others send.
    ///
    /// Where this device has the newest it is to cover what is older, and only rules of the program's own need to see that.
    /// Nowhere what was encrypted: some of the others may not have been able to read it, and send nothing in its place.
    private func baseFields(of known: KnownRecord, _ entity: String, isNewest: Bool) -> Set<String> {
        guard let table = mapping.tables[entity] else { return [] }
        let resolvers = file.description.cloud?.propertyResolvers ?? [:]
        let ruled = table.columns.filter { resolvers["\(entity).\($0.name)"] != nil }.map { mapping.field($0) }
        return (isNewest ? Set(ruled) : mapping.ownFields(of: table)).subtracting(known.encryptedFields())
    }
}
