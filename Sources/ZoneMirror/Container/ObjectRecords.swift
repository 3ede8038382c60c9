import GRDB
import Records
public import ZoneKit

/// The records of objects.
extension MirroredContainer {
    /// Returns an object's record as the relay had it last; `nil` if it was never sent.
    public func record(for object: ObjectID) async throws(MirrorError) -> CKRecord? {
        guard let store = object.store else { return nil }
        return try await reading(store) { db in
            guard let known = try KnownRecord.find(db, oid: object.name.text), known.tag != nil,
                let zone = try KnownZone.find(db, id: known.zone)
            else { return nil }
            let record = try known.record(db, in: zone.zone)
            return CKRecord(state: RecordState(record, id: CKRecord.ID(record.id)))
        }
    }

    /// Returns the ID of an object's record; `nil` if it was never sent.
    public func recordID(for object: ObjectID) async throws(MirrorError) -> CKRecord.ID? {
        try await record(for: object)?.recordID
    }

    /// Returns the records of several objects; objects that were never sent are left out.
    public func records(for objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: CKRecord] {
        var found: [ObjectID: CKRecord] = [:]
        for object in objects { found[object] = try await record(for: object) }
        return found
    }

    /// Returns the record IDs of several objects; objects that were never sent are left out.
    public func recordIDs(for objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: CKRecord.ID] {
        try await records(for: objects).mapValues(\.recordID)
    }
}

extension KnownRecord {
    /// Returns the record as the relay had it last.
    func record(_ db: Database, in zone: ZoneID) throws -> Record {
        var record = Record(id: RecordID(name, in: zone), type: type, fields: allFields(), changeTag: tag)
        let sql = "SELECT created, creator, modified, modifier, parent, share FROM mirror_record WHERE id = ?"
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [id]) else { return record }
        func stamp(_ at: Int64?, _ by: String?) -> Record.Stamp? {
            guard let at, let by else { return nil }
            return Record.Stamp(at: Timestamp(milliseconds: at), by: UserID(by), deviceID: "")
        }
        record.created = stamp(row[0], row[1])
        record.modified = stamp(row[2], row[3])
        record.parent = row[4]
        record.share = row[5]
        if isLocked { record.encryptedFields = Set(record.fields.filter { ZoneSeal.isSealed($0.value) }.keys) }
        return record
    }
}
