import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// What became of what was sent.
extension Exporter {
    /// The relay has saved it: the new version, and the end of the entry, in one.
    func saved(_ item: Outgoing, as record: Record) throws {
        guard let known = try KnownRecord.find(db, oid: item.oid) else { return }
        if let zone = try KnownZone.find(db, item.zone), zone.id != known.zone {
            return try ShareMoves.arrivedLate(db, record, of: item.oid, from: zone.id, to: known.zone)
        }
        // A record that was made anew has what was sent, and nothing of the one before it.
        let table = known.tag == nil ? file.mapping.tables[item.entity] : nil
        var fields = table.map { known.unknownFields(file.mapping, $0) } ?? known.allFields()
        let encrypted = record.encryptedFields.union(item.write.encrypted)
        for (name, value) in item.write.fields {
            if let value { fields[name] = value } else { fields[name] = nil }
        }
        // A write that was sent again is answered with what the record is now, which may be somebody else's since: as long as
        // that was not taken in, this device knows its own version only.
        if Self.isForeign(record, after: fields, item.write) {
            try KnownRecord.store(
                db,
                fields: KnownRecord.encode(fields, encrypted: encrypted),
                tag: KnownRecord.unseen,
                of: known.id
            )
            return try OutboxRow.settled(db, item.oid, version: item.version)
        }
        // The relay has a sealed value; what it stands for is known here.
        for (name, value) in record.fields where !item.write.encrypted.contains(name) { fields[name] = value }
        var kept = record
        (kept.fields, kept.encryptedFields) = (fields, encrypted)
        kept.id.recordName = known.name
        // A listing under way may have passed its place already: it is there for certain.
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

    /// Whether a saved record differs from what was sent, as far as that can be compared.
    private static func isForeign(
        _ record: Record,
        after fields: [String: FieldValue],
        _ write: ClientRequest.Write
    ) -> Bool {
        func isCompared(_ name: String, _ value: FieldValue) -> Bool {
            !write.encrypted.contains(name) && !record.encryptedFields.contains(name) && !value.type.isAsset
                && !ZoneSeal.isSealed(value)
                // In the record stands its file.
                && record.fields[name + RecordMapping.companionSuffix] == nil
        }
        for (name, value) in record.fields where isCompared(name, value) && fields[name] != value { return true }
        return fields.contains { name, value in isCompared(name, value) && record.fields[name] == nil }
    }

    /// The relay has deleted it, or never had it.
    func deleted(_ item: Outgoing) throws {
        if let known = try KnownRecord.find(db, oid: item.oid) {
            // An object made again under the name meanwhile is new to the relay.
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
