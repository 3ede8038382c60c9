import Foundation
package import GRDB
package import Records
import Wire
import ZoneKit

/// The mirror's bookkeeping for one record: its address, its version and the contents the relay had last.
package struct KnownRecord {
    /// A change tag that no record has: the relay answers with its own version.
    private static let noVersion = "0"

    var id: Int64
    package var zone: Int64
    package var name: String
    /// The object's id; `nil` for a record that the model does not know.
    var oid: String?
    var entity: String?
    var type: String
    package var state: RecordState
    /// The version that the store has, in the states that have one.
    package var tag: String?
    var fields: [UInt8]?
    /// The record name of its parent in a hierarchy.
    package var parent: String?

    private static let select =
        "SELECT id, zone, name, oid, entity, type, state, tag, fields, parent FROM mirror_record WHERE "
    private static let byName = select + "zone = ? AND name = ?"
    private static let byIdentity = select + "oid = ?"

    private init(_ row: BoundStatement) {
        id = row.int(0)
        zone = row.int(1)
        name = row.text(2)
        oid = row.optionalText(3)
        entity = row.optionalText(4)
        type = row.text(5)
        state = RecordState(rawValue: row.text(6)) ?? .outdated
        tag = row.optionalText(7)
        fields = row.optionalBytes(8)
        parent = row.optionalText(9)
    }

    static func find(_ db: Database, zone: Int64, name: String) throws -> KnownRecord? {
        let statement = try BoundStatement(db, byName)
        statement.bind(1, zone)
        statement.bind(2, name)
        return try statement.first(KnownRecord.init)
    }

    package static func find(_ db: Database, oid: String) throws -> KnownRecord? {
        let statement = try BoundStatement(db, byIdentity)
        statement.bind(1, oid)
        return try statement.first(KnownRecord.init)
    }

    /// Returns the zone of an object's record without reading the rest.
    static func zone(_ db: Database, oid: String) throws -> Int64? {
        let statement = try db.cachedStatement(sql: "SELECT zone FROM mirror_record WHERE oid = ?")
        return try Int64.fetchOne(statement, arguments: [oid])
    }

    /// The change tag with which to change or delete the record; `nil` if the relay does not have it in this zone.
    var changeTag: String? { state.isInZone ? tag ?? Self.noVersion : nil }

    /// The fields that the relay had last, without values that this device cannot decrypt.
    package func serverFields() -> [String: FieldValue] {
        let (fields, encrypted) = Self.parse(fields)
        return encrypted.isEmpty
            ? fields : fields.filter { !encrypted.contains($0.key) || !ZoneSeal.isSealed($0.value) }
    }

    /// The fields that the relay had last, with encrypted values as they were received.
    func allFields() -> [String: FieldValue] { Self.decode(fields) }

    /// The fields that the relay's schema keeps encrypted, whether or not they could be decrypted.
    func encryptedFields() -> Set<String> { Self.parse(fields).encrypted }

    /// The fields that the model does not know, for a record that is created again, without assets, whose files are
    /// not here.
    ///
    /// Values that could not be decrypted are left out: no device could decrypt them in a new record.
    func unknownFields(_ mapping: RecordMapping, _ table: TableLayout) -> [String: FieldValue] {
        let own = mapping.ownFields(of: table)
        return serverFields().filter { !own.contains($0.key) && !$0.value.type.isAsset }
    }

    static func decode(_ fields: [UInt8]?) -> [String: FieldValue] { parse(fields).0 }

    private static func parse(_ fields: [UInt8]?) -> ([String: FieldValue], encrypted: Set<String>) {
        guard let fields, let document = try? JSONDocument(parsing: fields, limits: .response) else { return ([:], []) }
        return (try? ClientResponse.fields(document.root)) ?? ([:], [])
    }

    /// Encodes fields and which of them are encrypted.
    ///
    /// Encrypted fields must be sent as such, even by a model that does not know them.
    static func encode(_ fields: [String: FieldValue], encrypted: Set<String> = []) -> Data {
        let entries = fields.map {
            FieldsJSON.Entry(name: $0.key, value: $0.value, isEncrypted: encrypted.contains($0.key))
        }
        return Data(FieldsJSON.encode(entries))
    }

    /// Returns the record's name in another zone: a new one if that zone already has a record of this name.
    func name(in zone: Int64, _ db: Database) throws -> String {
        try Self.find(db, zone: zone, name: name) == nil ? name : RecordName().text
    }

    /// The values to compare with if the record is created again: fields that the model does not know, so that they are
    /// sent too, and of the model's own those in `kept`.
    ///
    /// If other devices may create the record again too, the kept values show what this device and the others have
    /// changed since.
    func baseForNewRecord(_ mapping: RecordMapping, keeping kept: Set<String> = []) -> Data? {
        guard let table = entity.flatMap({ mapping.tables[$0] }) else { return nil }
        let base = unknownFields(mapping, table).merging(serverFields().filter { kept.contains($0.key) }) { $1 }
        guard !base.isEmpty || !kept.isEmpty else { return nil }
        return Self.encode(base, encrypted: encryptedFields().intersection(base.keys))
    }
}

extension Record {
    /// Whether some values were encrypted with a key that this device does not have.
    var isLocked: Bool { encryptedFields.contains { isLocked($0) } }

    func isLocked(_ field: String) -> Bool {
        encryptedFields.contains(field) && fields[field].map { ZoneSeal.isSealed($0) } ?? false
    }
}
