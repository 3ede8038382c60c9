import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// One change to send to the relay.
struct Outgoing: Sendable {
    var oid: String
    var entity: String
    var operation: Outbox.Operation
    var version: Int64
    var tries: Int
    var place: Int64
    var zone: ZoneID
    /// The write with all its local values.
    var write: ClientRequest.Write
    /// Fields whose values are sent as assets, mapped to the fields that then refer to the assets.
    var large: [String: String] = [:]
    /// The approximate size of the change in a request, in bytes.
    var size: Int
    /// The reason why the change cannot be sent at all.
    var refusal: CKError?
}

extension Outgoing {
    init(_ row: OutboxRow, in zone: ZoneID, _ write: ClientRequest.Write, size: Int) {
        self.init(
            oid: row.oid,
            entity: row.entity,
            operation: row.operation,
            version: row.version,
            tries: row.tries,
            place: row.place,
            zone: zone,
            write: write,
            size: size
        )
    }
}

/// Reads the changes to send from a store and stores their results, within one transaction each.
struct Exporter {
    let db: Database
    let file: StoreFile
    let names: RecordNameTranslator
    private let hierarchies: Hierarchies
    var records: RecordTable { RecordTable(db) }

    init(_ db: Database, _ file: StoreFile) throws {
        self.db = db
        self.file = file
        names = try RecordNameTranslator(db)
        hierarchies = try Hierarchies(db, file, names)
    }

    /// A part of the outbox.
    struct Batch: SendBatch {
        var items: [Outgoing] = []
        /// Only the requests are atomic.
        var isAtomic: Bool { false }
        var isReportedAsWhole: Bool { false }
        /// The place in the outbox up to which it was read.
        var upTo: Int64
        var isLast = false
        /// Objects have joined shares: they must be moved, and this part read again.
        var hasMoves = false
        /// New objects whose share is unknown.
        var objectsWithoutShare: [String] = []
    }

    /// Returns the next changes after a place in the outbox.
    ///
    /// Returns at most `limit` changes and stops after the change that exceeds `room` bytes, including values sent as
    /// assets.
    ///
    /// A new record is marked as possibly sent **before** it is sent, so that a later deletion is sent too.
    func batch(after place: Int64, limit: Int, room: Int, isFull: Bool) throws -> Batch {
        let rows = try OutboxRow.next(db, after: place, limit: limit)
        var (batch, bytes) = (Batch(upTo: place), 0)
        for row in rows where try !isFull || makesRoom(row) {
            batch.upTo = row.place
            let item: Outgoing?
            switch try placement(of: row) {
            case .staysInZone: item = try outgoing(row, &batch)
            case .spansShares(let zone): item = try refused(row, zone)
            case .movesToShare:
                batch.hasMoves = true
                continue
            }
            guard let item else { continue }
            batch.items.append(item)
            bytes += item.write.fields.reduce(0) { $0 + Self.bytes(in: $1.value) }
            if bytes > room { break }
        }
        if batch.hasMoves { return Batch(upTo: place, hasMoves: true) }
        if bytes <= room { (batch.upTo, batch.isLast) = (rows.last?.place ?? place, rows.count < limit) }
        return batch
    }

    /// Returns whether a change needs no more space on the relay; such changes are sent even while the quota is
    /// exceeded.
    func makesRoom(_ row: OutboxRow) throws -> Bool {
        if row.operation == .delete { return true }
        guard let table = file.mapping.tables[row.entity], let known = try KnownRecord.find(db, oid: row.oid),
            known.state.isInZone, let values = try table.row(db, row.oid)
        else { return false }
        let mine = file.mapping.fields(of: try names.toRelay(values, table, row.oid, db), in: table)
        let base = known.serverFields()
        func room(_ fields: [String: FieldValue]) -> Int {
            ownFields(table).reduce(0) { sum, name in
                sum + (fields[name].map { name.utf8.count + Self.bytes(in: $0) } ?? 0)
            }
        }
        return room(mine) <= room(base)
    }

    private func outgoing(_ row: OutboxRow, _ batch: inout Batch) throws -> Outgoing? {
        guard let table = file.mapping.tables[row.entity] else {
            let reason = "The model no longer has \(row.entity). The change is sent when it has the entity again."
            try records.hold(row.oid, .entityMissing, reason, code: CKError.Code.incompatibleVersion.rawValue)
            return nil
        }
        let known = try KnownRecord.find(db, oid: row.oid)
        let home = try known.flatMap { try KnownZone.find(db, id: $0.zone) }
        guard home?.isEnding != true else {
            try wait(row.oid, "Its zone no longer exists. The mirror is searching for its new zone.")
            return nil
        }
        guard let zone = home?.zone ?? file.homeZone else {
            try wait(
                row.oid,
                "A new object in a shared store must be related to a shared object or assigned to a share."
            )
            batch.objectsWithoutShare.append(row.oid)
            return nil
        }
        var write: ClientRequest.Write
        var large: [String: String] = [:]
        if row.operation == .delete {
            guard let known, known.state.mayBeInZone else {
                try records.discardChange(of: row.oid)
                if let known { try records.remove(known) }
                return nil
            }
            // If the record has another version than known here, it may have moved or been changed by somebody else:
            // the merge policy decides.
            write = ClientRequest.Write(known.state.isInZone ? .delete : .forceDelete, known.name)
            write.changeTag = known.changeTag
        } else {
            guard let made = try save(row, table, known, zone) else { return nil }
            (write, large) = made
        }
        var item = Outgoing(row, in: zone, write, size: Self.size(of: write, without: large))
        item.large = large
        return item
    }

    private func save(
        _ row: OutboxRow,
        _ table: TableLayout,
        _ known: KnownRecord?,
        _ zone: ZoneID
    ) throws -> (ClientRequest.Write, large: [String: String])? {
        guard let values = try table.row(db, row.oid) else {
            try records.discardChange(of: row.oid)
            return nil
        }
        let type = known?.type ?? file.mapping.recordType(of: table)
        let relayed = try names.toRelay(values, table, row.oid, db)
        var mine = file.mapping.fields(of: relayed, in: table)
        if !table.lastEditWinsColumns.isEmpty {
            let times = EditTimes(known?.serverFields()[file.mapping.editTimesField])
            mine[file.mapping.editTimesField] = try times.joined(with: EditTimes(db, of: row.oid)).field
        }
        var write = ClientRequest.Write(.create, known?.name ?? row.oid, recordType: type)
        write.encrypted = Set(
            table.columns.filter { $0.attribute?.isEncrypted == true }.map { file.mapping.field($0) }
        )
        let companions = large(mine, table)
        guard let tag = known?.changeTag else {
            // Includes the fields that a newer program wrote into the record.
            let unknown = known?.unknownFields(file.mapping, table) ?? [:]
            write.fields = unknown.merging(mine) { $1 }.mapValues { $0 }
            if !unknown.isEmpty { write.encrypted.formUnion(known?.encryptedFields().intersection(unknown.keys) ?? []) }
            try createSent(row, known, zone, type)
            if let parent = try hierarchies.parent(of: row.oid, relayed, table) {
                write.parent = .some(parent)
                try hierarchies.note(parent, of: row.oid)
            }
            return (write, companions)
        }
        let base = known?.serverFields() ?? [:]
        write.type = .update
        write.changeTag = tag
        for field in changedFields(of: relayed, mine, since: base, table) {
            write.fields.updateValue(mine[field], forKey: field)
            // A value that fits into the record again needs no asset.
            let companion = field + RecordMapping.companionSuffix
            if companions[field] == nil, base[companion] != nil { write.fields.updateValue(nil, forKey: companion) }
        }
        for (field, companion) in companions where base[companion] == nil {
            write.fields.updateValue(mine[field], forKey: field)
        }
        if let parent = try hierarchies.parent(of: row.oid, relayed, table), parent != known?.parent {
            write.parent = .some(parent)
        } else if hierarchies.losesParent(relayed, table, known) {
            write.parent = .some(nil)
        }
        if write.fields.isEmpty, write.parent == nil {
            try records.discardChange(of: row.oid)
            return nil
        }
        // Edit times are sent only together with other changes.
        if let times = mine[file.mapping.editTimesField], times != base[file.mapping.editTimesField] {
            write.fields.updateValue(times, forKey: file.mapping.editTimesField)
        }
        return (write, companions.filter { write.fields.keys.contains($0.key) })
    }

    /// The values that do not fit into the record, mapped to the fields of their assets.
    private func large(_ mine: [String: FieldValue], _ table: TableLayout) -> [String: String] {
        let total = mine.reduce(0) { $0 + Self.bytes(in: $1.value) }
        guard total > LargeValues.limit else { return [:] }
        var (sizes, companions): ([String: Int], [String: String]) = ([:], [:])
        for column in table.columns {
            // Assets are not encrypted, so an encrypted value has to fit.
            guard let attribute = column.attribute, attribute.type.hasLargeForm, !attribute.isEncrypted else {
                continue
            }
            let field = file.mapping.field(column)
            sizes[field] = Self.bytes(in: mine[field])
            companions[field] = file.mapping.assetField(column)
        }
        let moved = LargeValues.moved(out: sizes, total: total)
        return companions.filter { moved.contains($0.key) }
    }

    /// The fields in which a row differs from the relay's record.
    ///
    /// Compared as rows: a field that the record lacks has the attribute's default, as does a value that the attribute
    /// cannot read, which stays on the relay unchanged. A value of the row that no field can hold is not sent.
    private func changedFields(
        of relayed: [DatabaseValue],
        _ mine: [String: FieldValue],
        since base: [String: FieldValue],
        _ table: TableLayout
    ) -> [String] {
        guard table.entity != nil else { return ownFields(table).filter { mine[$0] != base[$0] } }
        let (before, now) = (file.mapping.row(of: base, in: table), file.mapping.roundTripped(relayed, in: table))
        return table.columns.indices.compactMap { position in
            let field = file.mapping.field(table.columns[position])
            // Dates within the same millisecond are equal as fields.
            guard now[position] != before[position], table.columns[position].isDate || mine[field] != base[field]
            else { return nil }
            // A default that no field can hold is sent as no field, which stands for it.
            let isDefault: Bool = table.columns[position].attribute.map { $0.defaultValue == now[position] } ?? false
            let hasNoField = now[position].isNull || isDefault && mine[field] == nil
            let isSendable = hasNoField ? base[field] != nil : mine[field] != nil
            return isSendable ? field : nil
        }
    }

    private func ownFields(_ table: TableLayout) -> [String] {
        if case .pairs = table.kind { return ["CD_entityNames", "CD_recordNames", "CD_relationships"] }
        return table.columns.map { file.mapping.field($0) }
    }

    private func createSent(_ row: OutboxRow, _ known: KnownRecord?, _ zone: ZoneID, _ type: String) throws {
        if let known {
            if known.state.after(.createSent).state == known.state { return }
        } else {
            let home = try KnownZone.make(db, zone)
            try records.address(zone: home.id, name: row.oid, oid: row.oid, entity: row.entity, type: type)
        }
        try records.createSent(row.oid)
    }

    /// Holds a change back until what it depends on is there.
    func wait(_ oid: String, _ reason: String, code: Int? = nil) throws {
        try records.hold(oid, .dependencyMissing, reason, code: code)
    }

    private static func size(of write: ClientRequest.Write, without large: [String: String]) -> Int {
        write.fields.reduce(160 + write.recordName.utf8.count) { sum, field in
            sum + field.key.utf8.count + 40 + (large[field.key] == nil ? bytes(in: field.value) : 200)
        }
    }

    private static func bytes(in value: FieldValue?) -> Int {
        switch value {
        case .string(let text): text.utf8.count
        case .bytes(let bytes): bytes.count * 4 / 3
        case .list(_, let values): values.reduce(0) { $0 + bytes(in: $1) }
        default: 20
        }
    }
}

/// Finds the share for changes that were not saved by a context.
///
/// A context's save moves objects linked to shared objects into their share. For changes by SQL, GRDB, or a program
/// that does not mirror the file, this happens when they are about to be sent. See SharingRules.md, "What is shared".
extension Exporter {
    enum Placement {
        /// The object stays in its zone, or goes to the zone for new objects.
        case staysInZone
        /// The object and those linked to it go to a share; the relay must move existing records before anything else
        /// is sent.
        case movesToShare
        /// The object is linked to several shares, of which this is one.
        case spansShares(Int64)
    }

    /// Puts an object into the share that its links lead to, if it is not in one yet.
    func placement(of row: OutboxRow) throws -> Placement {
        guard row.operation == .save, let table = file.mapping.tables[row.entity] else { return .staysInZone }
        let object = ObjectID(store: file.id, entity: row.entity, name: RecordName(row.oid))
        let known = try KnownRecord.find(db, oid: row.oid)
        if file.scope == .shared, known == nil { return try placeInSharedStore(object, table) }
        guard file.scope == .shared || file.scope == .private, names.hasManyZones, !table.links.isEmpty else {
            return .staysInZone
        }
        let ends = try newEnds(row, table, known)
        guard !ends.isEmpty else { return .staysInZone }
        let home = try file.homeZone.flatMap { try KnownZone.find(db, $0)?.id }
        if let known, known.state.isInZone, known.zone != home {
            let others = try ends.compactMap { try KnownRecord.zone(db, oid: $0) }
            if others.contains(where: { $0 != known.zone && $0 != home }) { return .spansShares(known.zone) }
        }
        return try home.map { try placeInPrivateStore(object, known, home: $0) } ?? .staysInZone
    }

    /// In a shared store, every zone belongs to a share.
    private func placeInSharedStore(_ object: ObjectID, _ table: TableLayout) throws -> Placement {
        let zones = try ShareClosure(db: db, file: file).newcomers(from: object, home: 0).zones
        guard let zone = zones.first else { return .staysInZone }
        guard zones.count == 1 else { return .spansShares(zone) }
        let (oid, type) = (object.name.text, file.mapping.recordType(of: table))
        try records.address(zone: zone, name: oid, oid: oid, entity: table.name, type: type)
        return .staysInZone
    }

    /// The objects that an object is linked to now, but not in the record that the relay had last.
    private func newEnds(_ row: OutboxRow, _ table: TableLayout, _ known: KnownRecord?) throws -> [String] {
        guard let values = try table.row(db, row.oid) else { return [] }
        let base = file.mapping.row(of: known?.state.isInZone == true ? known?.serverFields() ?? [:] : [:], in: table)
        let mine = try names.toRelay(values, table, row.oid, db)
        return table.links.filter { mine[$0] != base[$0] && table.columns[$0].link?.stopsSharing != true }
            .compactMap { String.fromDatabaseValue(values[$0]) }
    }

    /// Linked objects are in one zone, so it is enough to look at the targets of the new links.
    private func placeInPrivateStore(_ object: ObjectID, _ known: KnownRecord?, home: Int64) throws -> Placement {
        let closure = ShareClosure(db: db, file: file)
        let ends = try [object] + closure.targets(of: object)
        let zones = Set(try ends.map { try KnownRecord.zone(db, oid: $0.name.text) ?? home })
        guard zones.contains(home), let zone = zones.first(where: { $0 != home }) else { return .staysInZone }
        let (newcomers, met) = try closure.newcomers(from: object, home: home)
        guard zones.union(met).subtracting([home]).count == 1 else {
            // An object that is in a share already stays there, with a link that leads out of it.
            return (known?.zone ?? home) == home ? .spansShares(zone) : .staysInZone
        }
        guard !newcomers.isEmpty, try KnownZone.find(db, id: zone)?.isEnding == false else { return .staysInZone }
        try ShareMoves.reassign(db, newcomers, to: zone, file: file)
        return .movesToShare
    }

    /// A change that fails without being sent to the relay.
    func refused(_ row: OutboxRow, _ zone: Int64) throws -> Outgoing? {
        guard let zone = try KnownZone.find(db, id: zone)?.zone else { return nil }
        let type = file.mapping.tables[row.entity].map { file.mapping.recordType(of: $0) }
        var item = Outgoing(row, in: zone, .init(.create, row.oid, recordType: type), size: 0)
        item.refusal = CKError(
            .alreadyShared,
            "It cannot be related to objects of two different shares. Remove it from one of them first."
        )
        return item
    }
}

/// Applies the relay's results for sent changes.
extension Exporter {
    /// Stores the record's new version and removes the change from the outbox.
    func saved(_ item: Outgoing, as record: Record) throws {
        guard let known = try KnownRecord.find(db, oid: item.oid) else { return }
        if let zone = try KnownZone.find(db, item.zone), zone.id != known.zone {
            return try records.originalSaved(
                .init(zone: zone.id, name: record.id.recordName, tag: record.changeTag),
                of: known
            )
        }
        // A record that was created again consists of what was sent, without the fields of the record before it.
        let table = known.state.isInZone ? nil : file.mapping.tables[item.entity]
        var fields = table.map { known.unknownFields(file.mapping, $0) } ?? known.allFields()
        let encrypted = record.encryptedFields.union(item.write.encrypted)
        for (name, value) in item.write.fields {
            if let value { fields[name] = value } else { fields[name] = nil }
        }
        // The response to a repeated write is the current record, which somebody else may have changed since. Until
        // that version is imported, this device knows only its own.
        if Self.isForeign(record, after: fields, item.write) {
            try records.superseded(known, fields: KnownRecord.encode(fields, encrypted: encrypted))
            return try records.confirm(item.oid, version: item.version)
        }
        // The relay returns the encrypted value; the store keeps the plain one.
        for (name, value) in record.fields where !item.write.encrypted.contains(name) { fields[name] = value }
        var kept = record
        (kept.fields, kept.encryptedFields) = (fields, encrypted)
        kept.id.recordName = known.name
        // A full fetch under way may already have passed this record, so mark it as seen.
        let sweep = try KnownZone.find(db, id: known.zone)?.sweep ?? 0
        try records.store(
            kept,
            zone: known.zone,
            oid: item.oid,
            entity: item.entity,
            fields: KnownRecord.encode(fields, encrypted: encrypted),
            seen: sweep
        )
        try records.confirm(item.oid, version: item.version)
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
                try records.vanished(known)
            } else {
                try records.remove(known)
            }
        }
        try records.confirm(item.oid, version: item.version)
    }

    func failed(_ item: Outgoing, _ error: CKError, counts: Bool = true) throws {
        try records.failed(item.oid, error.errorDescription, code: error.errorCode, counts: counts)
    }
}
