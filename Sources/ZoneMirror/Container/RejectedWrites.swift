public import Foundation
import GRDB
import Records
import SyncCore
public import ZoneKit

/// A change that the relay refused permanently.
public struct RejectedWrite: Hashable, Sendable, Identifiable {
    /// Identifies it among the store's rejected writes.
    public var id: Int64
    /// The object.
    public var object: ObjectID
    /// The record's name.
    public var recordName: String
    /// Whether the object was to be deleted.
    public var isDeletion: Bool
    /// The values to be written, by field, as text for display.
    public var fields: [String: String]
    /// CloudKit's error code.
    public var code: CKError.Code
    /// The reason in one sentence.
    public var explanation: String
    /// When the relay refused it.
    public var date: Date
    /// How often it was sent.
    public var tries: Int
}

/// The changes that the relay refused: they block no others and wait here for a decision.
///
/// See Sync.md, "Refused writes".
extension MirroredContainer {
    /// Returns a store's rejected writes, oldest first; they survive restarts.
    ///
    /// For a public store, only those of the current user are returned.
    public func rejectedWrites(_ store: StoreID) async throws(MirrorError) -> [RejectedWrite] {
        try await reading(store) { db in
            let sql = RefusedRow.select + " WHERE account IS NULL ORDER BY id"
            return try Row.fetchAll(db, sql: sql).map { RefusedRow($0).write(store) }
        }
    }

    /// Applies a rejected change again and sends it with the next round.
    ///
    /// Only what it changed in its object is applied: later changes made here or elsewhere stay.
    ///
    /// - Throws: `objectUnavailable` if it is no longer among the current user's rejected writes, or its entity is not
    ///   in the model.
    public func retry(_ write: RejectedWrite) async throws(MirrorError) {
        guard let store = write.object.store, let file = stores.file(store) else {
            throw MirrorError(.unknownStore, "The store of this write is not open here.")
        }
        try await writing(store) { db in
            guard let refused = try RefusedRow.find(db, write.id) else {
                throw MirrorError(.objectUnavailable, "This write is already resolved, or belongs to another user.")
            }
            guard try refused.apply(db, file) else {
                throw MirrorError(
                    .objectUnavailable,
                    "The model no longer has \(refused.entity), or the values to write are unknown."
                )
            }
            try Refusals.decided(db, write.id)
        }
        if let sync = sync(store) { await sync.outboxChanged() }
    }

    /// Discards a rejected change.
    ///
    /// If it stayed in its object (`keepsRefusedChanges`), the object returns to the relay's last version, unless it
    /// was changed here since or has another rejected write.
    public func discard(_ write: RejectedWrite) async throws(MirrorError) {
        guard let store = write.object.store else { return }
        let (file, now) = (stores.file(store), conditions.wallClock())
        try await writing(store) { db in
            guard let refused = try RefusedRow.find(db, write.id) else { return }
            try Refusals.decided(db, write.id)
            if let file { try refused.revertObject(db, file, at: now) }
        }
    }

    /// Returns a rejected change as JSON, with the fields as they would have been sent.
    public func export(_ write: RejectedWrite) async throws(MirrorError) -> Data {
        guard let store = write.object.store else { return Data() }
        return try await reading(store) { db in
            let sql = "SELECT mine FROM mirror_refused WHERE id = ? AND account IS NULL"
            return try Data.fetchOne(db, sql: sql, arguments: [write.id]) ?? Data()
        }
    }
}

/// A row of `mirror_refused`.
struct RefusedRow {
    static let select =
        "SELECT id, oid, entity, name, op, mine, code, message, at, tries, base, zone, pairs FROM mirror_refused"

    let id: Int64
    let oid: String
    let entity: String
    let name: String
    let operation: Outbox.Operation
    let fields: [String: FieldValue]
    /// The relay's fields when the change was made; `nil` if it had no such record.
    private let base: [String: FieldValue]?
    private let code: Int
    private let message: String
    private let at: Double
    private let tries: Int
    /// The zone of the record, or the one in which it was to be created.
    private let zone: Int64?
    /// The many-to-many links that were removed with an object whose creation was refused.
    private let pairs: [RefusedPair]

    init(_ row: Row) {
        id = row[0]
        oid = row[1]
        entity = row[2]
        name = row[3] ?? row[1]
        operation = row[4] == "delete" ? .delete : .save
        fields = KnownRecord.decode((row[5] as Data?).map { [UInt8]($0) })
        code = row[6]
        message = row[7]
        at = row[8]
        tries = row[9]
        base = (row[10] as Data?).map { KnownRecord.decode([UInt8]($0)) }
        zone = row[11]
        pairs = RefusedPair.decode(row[12])
    }

    static func find(_ db: Database, _ id: Int64) throws -> RefusedRow? {
        try Row.fetchOne(db, sql: select + " WHERE id = ? AND account IS NULL", arguments: [id]).map { RefusedRow($0) }
    }

    func write(_ store: StoreID) -> RejectedWrite {
        RejectedWrite(
            id: id,
            object: ObjectID(store: store, entity: entity, name: RecordName(oid)),
            recordName: name,
            isDeletion: operation == .delete,
            fields: fields.mapValues(\.displayText),
            code: CKError.Code(rawValue: code) ?? .internalError,
            explanation: message,
            date: Date(timeIntervalSince1970: at),
            tries: tries
        )
    }

    /// Applies the change again as a change of the user; returns `false` and does nothing if that is impossible.
    ///
    /// With `automatically`, the change is retried without a decision of the user, so the object must not have changed.
    func apply(_ db: Database, _ file: StoreFile, automatically: Bool = false) throws -> Bool {
        guard let table = file.mapping.tables[entity] else { return false }
        let current = try table.row(db, oid)
        let known = try KnownRecord.find(db, oid: oid)
        if automatically, isObsolete(current, known) { return false }
        if operation == .delete {
            if current != nil {
                try table.delete(db, oid)
            } else if known?.state.isInZone == true, try OutboxRow.find(db, oid) == nil {
                // If the deletion was kept, there is no row left for a statement to delete.
                try RecordTable(db).queue(oid, entity: entity, .delete)
            }
            return true
        }
        // The row was already gone when the change was refused, so the stored change has no values; it does not mean
        // that all are empty.
        guard !fields.isEmpty else { return false }
        let names = try RecordNameTranslator(db)
        var row = file.mapping.row(of: fields, in: table)
        if let current, let base {
            let now = file.mapping.roundTripped(try names.toRelay(current, table, oid, db), in: table)
            let theirs = file.mapping.row(of: known?.serverFields() ?? [:], in: table)
            let merged = PropertyMerge.edits(
                base: file.mapping.row(of: base, in: table),
                memory: row,
                store: theirs,
                policy: automatically ? file.description.cloud?.mergePolicy ?? .error : .mergeByPropertyObjectTrump
            )
            guard let values = merged?.values else { return false }
            // A later local change is newer.
            row = row.indices.map { now[$0] == theirs[$0] ? values[$0] : now[$0] }
        }
        let share = try known == nil ? shareZone(db, file) : nil
        let zone = try known?.zone ?? share ?? file.homeZone.flatMap { try KnownZone.find(db, $0)?.id } ?? 0
        let local = try names.toLocal(row, table, zone: zone, db)
        if current == nil {
            try table.insert(db, oid, local.values)
        } else {
            try table.update(db, oid, local.values)
        }
        for link in local.unresolved {
            try UnresolvedLinks.keep(db, oid, table.name, table.columns[link.column].name, zone, to: link.name)
        }
        if let share {
            let type = file.mapping.recordType(of: table)
            try RecordTable(db).address(zone: share, name: name, oid: oid, entity: entity, type: type)
        }
        if current == nil { for pair in pairs { try pair.restore(db, file.mapping, share: share) } }
        // If the object kept the change, no statement has changed its row.
        if try OutboxRow.find(db, oid) == nil { try RecordTable(db).queue(oid, entity: entity, .save) }
        return true
    }

    /// Removes the change from the object in which it stayed, if no other change of the object waits for a decision.
    func revertObject(_ db: Database, _ file: StoreFile, at now: Date) throws {
        guard file.description.cloud?.keepsRefusedChanges == true, let table = file.mapping.tables[entity],
            try OutboxRow.find(db, oid) == nil, try !Refusals.exist(db, for: oid)
        else { return }
        try Importer.run(db, file, at: now) { importer in
            try importer.revert(oid, table, try table.row(db, oid))
        }
    }

    /// Returns the share's zone in which a new object was to be created, if it still exists; it was forgotten when the
    /// change was undone.
    private func shareZone(_ db: Database, _ file: StoreFile) throws -> Int64? {
        guard let home = try zone.flatMap({ try KnownZone.find(db, id: $0) }), home.zone != file.homeZone, home.isThere,
            try KnownRecord.find(db, zone: home.id, name: name) == nil
        else { return nil }
        return home.id
    }

    /// Returns whether the object was created, deleted or changed since, so that the change is no longer what its user
    /// meant.
    private func isObsolete(_ current: [DatabaseValue]?, _ known: KnownRecord?) -> Bool {
        switch operation {
        case .delete: known.map { $0.serverFields() != base ?? [:] } ?? false
        case .save: base == nil ? known?.state.isInZone == true : current == nil
        }
    }
}

extension FieldValue {
    /// The value as text for display.
    fileprivate var displayText: String {
        switch self {
        case .string(let text): text
        case .int64(let number): String(number)
        case .double(let number): String(number)
        case .timestamp(let timestamp):
            Date(timeIntervalSince1970: Double(timestamp.milliseconds) / 1000).formatted(Date.ISO8601FormatStyle())
        case .bytes(let bytes): "\(bytes.count) bytes"
        case .reference(let reference): reference.recordName
        case .list(_, let values): values.map(\.displayText).joined(separator: ", ")
        default: "\(self)"
        }
    }
}

/// A many-to-many link of an object whose creation the relay refused; it is restored with the object.
///
/// On the relay the link is a record of its own, but it is not offered for a decision by itself: without the object it
/// links nothing.
struct RefusedPair: Codable {
    let table: String
    let id: String
    /// The ids of the linked objects, in the order of the table's columns.
    let ends: [String]

    /// Returns an object's links, encoded for its refused change, or `nil` if it has none.
    static func encoded(of oid: String, _ table: String, _ mapping: RecordMapping, _ db: Database) throws -> Data? {
        var pairs: [RefusedPair] = []
        for (other, column) in mapping.incoming[table] ?? [] where other.entity == nil {
            let sql = "SELECT id FROM \(other.name.quoted) WHERE \(column.quoted) = ?"
            for id in try String.fetchAll(db.cachedStatement(sql: sql), arguments: [oid]) {
                let ends = try other.row(db, id)?.compactMap { String.fromDatabaseValue($0) } ?? []
                guard ends.count == other.columns.count else { continue }
                pairs.append(RefusedPair(table: other.name, id: id, ends: ends))
            }
        }
        return pairs.isEmpty ? nil : try JSONEncoder().encode(pairs)
    }

    static func decode(_ data: Data?) -> [RefusedPair] {
        data.flatMap { try? JSONDecoder().decode([RefusedPair].self, from: $0) } ?? []
    }

    /// Links the objects again, as a change of the user.
    ///
    /// If one of them is not here, its own restoration does this. `share` is the zone of the share in which to create
    /// the link; `nil` means the usual zone.
    func restore(_ db: Database, _ mapping: RecordMapping, share: Int64?) throws {
        guard let form = mapping.tables[table], form.entity == nil, ends.count == form.columns.count,
            try zip(form.columns, ends).allSatisfy({ try Self.isHere($1, $0, mapping, db) }),
            try form.insertIfNew(db, id, ends.map(\.databaseValue)), let share, try KnownRecord.find(db, oid: id) == nil
        else { return }
        let type = mapping.recordType(of: form)
        try RecordTable(db).address(zone: share, name: id, oid: id, entity: table, type: type)
    }

    private static func isHere(
        _ oid: String,
        _ column: ColumnLayout,
        _ mapping: RecordMapping,
        _ db: Database
    ) throws -> Bool {
        guard let target = column.link.flatMap({ mapping.tables[$0.destination] }) else { return false }
        return try target.row(db, oid) != nil
    }
}
