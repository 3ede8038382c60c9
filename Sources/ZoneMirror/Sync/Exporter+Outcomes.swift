import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Applies the relay's results for sent changes.
extension Exporter {
    /// Stores the record's new version and removes the change from the outbox.
    func saved(_ item: Outgoing, as record: Record) throws {
        guard let known = try KnownRecord.find(db, oid: item.oid) else { return }
        if let zone = try KnownZone.find(db, item.zone), zone.id != known.zone {
            return try ShareMoves.arrivedLate(db, record, of: item.oid, from: zone.id, to: known.zone)
        }
        // A record that was created again consists of what was sent, without the fields of the record before it.
        let table = known.tag == nil ? file.mapping.tables[item.entity] : nil
        var fields = table.map { known.unknownFields(file.mapping, $0) } ?? known.allFields()
        let encrypted = record.encryptedFields.union(item.write.encrypted)
        for (name, value) in item.write.fields {
            if let value { fields[name] = value } else { fields[name] = nil }
        }
        // The response to a repeated write is the current record, which somebody else may have changed since. Until
        // that version is imported, this device knows only its own.
        if Self.isForeign(record, after: fields, item.write) {
            try KnownRecord.store(
                db,
                fields: KnownRecord.encode(fields, encrypted: encrypted),
                tag: KnownRecord.unseen,
                of: known.id
            )
            return try OutboxRow.settled(db, item.oid, version: item.version)
        }
        // The relay returns the encrypted value; the store keeps the plain one.
        for (name, value) in record.fields where !item.write.encrypted.contains(name) { fields[name] = value }
        var kept = record
        (kept.fields, kept.encryptedFields) = (fields, encrypted)
        kept.id.recordName = known.name
        // A full fetch under way may already have passed this record, so mark it as seen.
        let sweep = try KnownZone.find(db, id: known.zone)?.sweep ?? 0
        try KnownRecord.store(
            db,
            kept,
            zone: known.zone,
            oid: item.oid,
            entity: item.entity,
            fields: KnownRecord.encode(fields, encrypted: encrypted),
            seen: sweep
        )
        try OutboxRow.settled(db, item.oid, version: item.version)
    }

    /// Returns whether a saved record differs from what was sent, as far as they can be compared.
    private static func isForeign(
        _ record: Record,
        after fields: [String: FieldValue],
        _ write: ClientRequest.Write
    ) -> Bool {
        func isCompared(_ name: String, _ value: FieldValue) -> Bool {
            !write.encrypted.contains(name) && !record.encryptedFields.contains(name) && !value.type.isAsset
                && !ZoneSeal.isSealed(value)
                // The record refers to a file instead.
                && record.fields[name + RecordMapping.companionSuffix] == nil
        }
        for (name, value) in record.fields where isCompared(name, value) && fields[name] != value { return true }
        return fields.contains { name, value in isCompared(name, value) && record.fields[name] == nil }
    }

    /// The relay has deleted the record, or never had it.
    func deleted(_ item: Outgoing) throws {
        if let known = try KnownRecord.find(db, oid: item.oid) {
            // An object that was created again with this id meanwhile is new to the relay.
            if try OutboxRow.find(db, item.oid)?.operation == .save {
                try KnownRecord.forgetVersion(db, id: known.id)
            } else {
                try KnownRecord.remove(db, id: known.id)
            }
        }
        try OutboxRow.settled(db, item.oid, version: item.version)
    }

    func failed(_ item: Outgoing, _ error: CKError, counts: Bool = true) throws {
        try db.cachedStatement(sql: "UPDATE mirror_outbox SET tries = tries + ?, error = ?, code = ? WHERE oid = ?")
            .execute(arguments: [counts ? 1 : 0, error.errorDescription, error.errorCode, item.oid])
    }
}
