import Foundation
import GRDB
import Records
import Wire
import ZoneKit

/// What the mirror knows of one record besides the object: its address, its version, and what the relay had last.
struct KnownRecord {
    /// A version that no record ever has: the next one that comes is taken in, whichever it is.
    static let unseen = "0"
    /// Likewise, of a record that its old zone says has moved to this one, where it has not been seen yet.
    static let awaited = "00"

    var id: Int64
    var zone: Int64
    var name: String
    /// `nil` for a record that the model knows nothing of.
    var oid: String?
    var entity: String?
    var type: String
    /// `nil` before the first save, and after the record has gone from the relay.
    var tag: String?
    var fields: [UInt8]?
    /// Some of its values were sealed with a key that is not here.
    var isLocked: Bool
    /// The name of the record that it hangs below in a hierarchy.
    var parent: String?

    private static let select =
        "SELECT id, zone, name, oid, entity, type, tag, fields, isLocked, parent FROM mirror_record WHERE "
    private static let byName = select + "zone = ? AND name = ?"
    private static let byIdentity = select + "oid = ?"

    private init(_ row: BoundStatement) {
        id = row.int(0)
        zone = row.int(1)
        name = row.text(2)
        oid = row.optionalText(3)
        entity = row.optionalText(4)
        type = row.text(5)
        tag = row.optionalText(6)
        fields = row.optionalBytes(7)
        isLocked = row.bool(8)
        parent = row.optionalText(9)
    }

    static func find(_ db: Database, zone: Int64, name: String) throws -> KnownRecord? {
        let statement = try BoundStatement(db, byName)
        statement.bind(1, zone)
        statement.bind(2, name)
        return try statement.first(KnownRecord.init)
    }

    static func find(_ db: Database, oid: String) throws -> KnownRecord? {
        let statement = try BoundStatement(db, byIdentity)
        statement.bind(1, oid)
        return try statement.first(KnownRecord.init)
    }

    /// The zone of an object's record, as cheaply as can be.
    static func zone(_ db: Database, oid: String) throws -> Int64? {
        let statement = try db.cachedStatement(sql: "SELECT zone FROM mirror_record WHERE oid = ?")
        return try Int64.fetchOne(statement, arguments: [oid])
    }

    /// What the relay had last; values that cannot be read here are left out.
    func serverFields() -> [String: FieldValue] {
        isLocked ? allFields().filter { !ZoneSeal.isSealed($0.value) } : allFields()
    }

    /// What the relay had last, sealed values as they came.
    func allFields() -> [String: FieldValue] { Self.decode(fields) }

    /// It belongs into this zone, and has not been seen in it yet.
    var isMoving: Bool { tag == nil || tag == Self.unseen || tag == Self.awaited }

    /// The fields that the relay's schema keeps encrypted, whether they could be opened or not.
    func encryptedFields() -> Set<String> { Self.parse(fields).encrypted }

    /// What the model does not know, for a record that is made anew; what stands in files is not here to be sent.
    ///
    /// Without what could not be opened: nobody can any more, once the record is another one.
    func unknownFields(_ mapping: RecordMapping, _ table: TableForm) -> [String: FieldValue] {
        let own = mapping.ownFields(of: table)
        return serverFields().filter { !own.contains($0.key) && !$0.value.type.isAsset }
    }

    static func decode(_ fields: [UInt8]?) -> [String: FieldValue] { parse(fields).0 }

    private static func parse(_ fields: [UInt8]?) -> ([String: FieldValue], encrypted: Set<String>) {
        guard let fields, let document = try? JSONDocument(parsing: fields, limits: .response) else { return ([:], []) }
        return (try? ClientResponse.fields(document.root)) ?? ([:], [])
    }

    /// `encrypted` is remembered with the values: as such they have to be sent, also by a model that does not know them.
    static func encode(_ fields: [String: FieldValue], encrypted: Set<String> = []) -> Data {
        let entries = fields.map {
            FieldsJSON.Entry(name: $0.key, value: $0.value, isEncrypted: encrypted.contains($0.key))
        }
        return Data(FieldsJSON.encode(entries))
    }

    /// Makes the place for a record that is about to be sent for the first time.
    static func reserve(_ db: Database, zone: Int64, name: String, oid: String, entity: String, type: String) throws {
        let sql = """
            INSERT INTO mirror_record(zone, name, oid, entity, type) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT(zone, name) DO UPDATE SET oid = excluded.oid, entity = excluded.entity
            """
        try db.cachedStatement(sql: sql).run([
            zone.databaseValue, name.databaseValue, oid.databaseValue, entity.databaseValue, type.databaseValue,
        ])
    }

    /// Keeps what the relay has sent.
    static func store(
        _ db: Database,
        _ record: Record,
        zone: Int64,
        oid: String?,
        entity: String?,
        fields: Data,
        seen: Int64
    ) throws {
        let sql = """
            INSERT INTO mirror_record(zone, name, oid, entity, type, tag, created, creator, modified, modifier, parent,
                share, fields, seen, isLocked)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT(zone, name) DO UPDATE SET oid = excluded.oid, entity = excluded.entity, type = excluded.type,
                tag = excluded.tag, created = excluded.created, creator = excluded.creator,
                modified = excluded.modified, modifier = excluded.modifier, parent = excluded.parent,
                share = excluded.share, fields = excluded.fields, seen = excluded.seen, isLocked = excluded.isLocked
            """
        try db.cachedStatement(sql: sql).run([
            zone.databaseValue, record.id.recordName.databaseValue, oid.databaseValue, entity.databaseValue,
            record.type.databaseValue, record.changeTag.databaseValue,
            (record.created?.at.milliseconds).databaseValue, (record.created?.by.recordName).databaseValue,
            (record.modified?.at.milliseconds).databaseValue, (record.modified?.by.recordName).databaseValue,
            record.parent.databaseValue, record.share.databaseValue, fields.databaseValue, seen.databaseValue,
            record.isLocked.databaseValue,
        ])
    }

    /// Changes what is known of a record's contents, and nothing else.
    static func store(_ db: Database, fields: Data, tag: String, of id: Int64) throws {
        let sql = "UPDATE mirror_record SET fields = ?, tag = ? WHERE id = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [fields, tag, id])
    }

    /// What it is called in another zone, which may have a record of its name.
    func name(in zone: Int64, _ db: Database) throws -> String {
        try Self.find(db, zone: zone, name: name) == nil ? name : RecordName().text
    }

    /// The relay has it no more; the object, if it stays, is new to the relay.
    static func forgetVersion(_ db: Database, id: Int64) throws {
        try db.execute(sql: "UPDATE mirror_record SET tag = NULL, fields = NULL WHERE id = ?", arguments: [id])
    }

    /// Likewise, where the record is to be made anew as it was: with what a newer program has written into it.
    func forgetVersion(_ db: Database, _ mapping: RecordMapping) throws {
        let unknown = entity.flatMap { mapping.tables[$0] }.map { unknownFields(mapping, $0) } ?? [:]
        guard !unknown.isEmpty else { return try Self.forgetVersion(db, id: id) }
        try db.execute(
            sql: "UPDATE mirror_record SET tag = NULL, fields = ?, isLocked = 0 WHERE id = ?",
            arguments: [Self.encode(unknown, encrypted: encryptedFields()), id]
        )
    }

    /// Likewise, where others make it anew too: of these fields of the model, what they and this device have changed since
    /// shows by what the relay had last.
    func forgetVersion(_ db: Database, _ mapping: RecordMapping, keeping kept: Set<String>) throws {
        guard !kept.isEmpty, let table = entity.flatMap({ mapping.tables[$0] }) else {
            return try forgetVersion(db, mapping)
        }
        let base = unknownFields(mapping, table).merging(serverFields().filter { kept.contains($0.key) }) { $1 }
        try db.execute(
            sql: "UPDATE mirror_record SET tag = NULL, fields = ?, isLocked = 0 WHERE id = ?",
            arguments: [Self.encode(base, encrypted: encryptedFields().intersection(base.keys)), id]
        )
    }

    static func remove(_ db: Database, id: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_record WHERE id = ?").execute(arguments: [id])
    }
}

extension Record {
    /// Some of its values were sealed with a key that is not here.
    var isLocked: Bool { encryptedFields.contains { isLocked($0) } }

    func isLocked(_ field: String) -> Bool {
        encryptedFields.contains(field) && fields[field].map { ZoneSeal.isSealed($0) } ?? false
    }
}

/// A zone as the store keeps it.
struct KnownZone {
    var id: Int64
    var zone: ZoneID
    var token: String?
    /// Whether the relay is known to have it.
    var isThere: Bool
    /// Not 0 while a listing from the beginning is under way: what does not turn up in it is gone.
    var sweep: Int64
    /// The relay has it no more; what is in it is kept until all that has changed was fetched, since it may have moved.
    var isEnding = false

    private static let select = "SELECT id, name, owner, token, isThere, sweep, isEnding FROM mirror_zone "
    private static let byName = select + "WHERE name = ? AND owner = ?"
    private static let byNumber = select + "WHERE id = ?"

    private static func make(_ row: BoundStatement) -> KnownZone {
        KnownZone(
            id: row.int(0),
            zone: ZoneID(row.text(1), owner: UserID(row.text(2))),
            token: row.optionalText(3),
            isThere: row.bool(4),
            sweep: row.int(5),
            isEnding: row.bool(6)
        )
    }

    static func find(_ db: Database, _ zone: ZoneID) throws -> KnownZone? {
        let statement = try BoundStatement(db, byName)
        statement.bind(1, zone.zoneName)
        statement.bind(2, zone.owner.recordName)
        return try statement.first(make)
    }

    static func find(_ db: Database, id: Int64) throws -> KnownZone? {
        let statement = try BoundStatement(db, byNumber)
        statement.bind(1, id)
        return try statement.first(make)
    }

    static func all(_ db: Database) throws -> [KnownZone] {
        try BoundStatement(db, select + "ORDER BY id").all(make)
    }

    /// The relay has it no more; whether its objects are gone as well is not certain yet.
    static func end(_ db: Database, _ zone: ZoneID) throws {
        guard let known = try find(db, zone) else { return }
        try db.execute(
            sql: """
                UPDATE mirror_zone SET token = NULL, isThere = 0, isUnfetched = 0, sweep = 0, isEnding = 1 WHERE id = ?
                """,
            arguments: [known.id]
        )
    }

    /// Finds it, or notes a zone not known before.
    static func make(_ db: Database, _ zone: ZoneID) throws -> KnownZone {
        if let known = try find(db, zone) { return known }
        try db.execute(
            sql: "INSERT INTO mirror_zone(name, owner) VALUES (?, ?)",
            arguments: [zone.zoneName, zone.owner.recordName]
        )
        return KnownZone(id: db.lastInsertedRowID, zone: zone, token: nil, isThere: false, sweep: 0)
    }
}
