import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Writes records from the relay into a store, inside one transaction.
///
/// A record with a pending local change is merged by the store's policy; the merged values stay pending, based on the
/// relay's version.
final class Importer {
    let db: Database
    let file: StoreFile
    let mapping: RecordMapping
    let transaction: Int64
    let now: Date
    let policy: MergePolicy
    /// The number of records that changed something here.
    var count = 0
    /// Objects with conflicts that the policy leaves undecided.
    var conflicts: [String] = []
    /// The record being imported.
    private(set) var arriving: Record?
    var hasOutbox: Bool
    /// Whether some links are open.
    var hasLinks: Bool
    /// Whether objects of this store are moving to other zones.
    let hasMoves: Bool
    /// Objects whose unsent changes are dropped because access to them has ended.
    var dropped: [String] = []
    /// Zones whose records have appeared in another zone; pages of them that were read earlier are out of date.
    var leftZones: Set<Int64> = []
    /// Zones in which records are expected.
    var awaitingZones: Set<Int64> = []
    /// Whether a merged object stays in the outbox even if it contains no change of the user.
    var keepsOutboxRow = false
    let names: RecordNameTranslator
    var records: RecordTable { RecordTable(db) }

    /// Runs an import as a transaction of the history.
    static func run<Result>(
        _ db: Database,
        _ file: StoreFile,
        at now: Date,
        _ body: (Importer) throws -> Result
    ) throws -> Result {
        try HistoryTable.importing(db, author: author, at: now) { transaction in
            try body(try Importer(db, file, transaction: transaction, now: now))
        }
    }

    init(_ db: Database, _ file: StoreFile, transaction: Int64, now: Date) throws {
        self.db = db
        self.file = file
        self.transaction = transaction
        self.now = now
        mapping = file.mapping
        policy = file.description.cloud?.mergePolicy ?? .mergeByPropertyObjectTrump
        hasOutbox = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM mirror_outbox)") ?? false
        hasLinks = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM mirror_link)") ?? false
        hasMoves = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM mirror_move)") ?? false
        names = try RecordNameTranslator(db)
    }

    /// The author of imports in the history.
    static let author = "zonecast.import"

    // MARK: Many records

    /// Imports records in their order; `prepared` holds the prepared form of each, or is empty.
    ///
    /// While records turn out to be new, they are inserted without a lookup: a name conflict shows that one exists
    /// already.
    func importRecords(_ records: [Record], _ prepared: [PreparedRecord?], zone: KnownZone) throws {
        var budget = prepared.count == records.count && records.count >= Self.fastPathMinimum ? Self.fastPathBudget : 0
        var inserter = budget > 0 ? try BulkInserter(db) : nil
        for index in records.indices {
            if budget > 0, let ready = prepared[index], inserter != nil {
                if try insertNew(records[index], ready, zone, &inserter) {
                    budget = min(budget + 1, Self.fastPathBudget)
                    continue
                }
                budget -= 2
            }
            try importRecord(records[index], zone: zone)
        }
        // GRDB's observers of the tables must be notified of rows inserted through SQLite's C functions.
        for name in inserter?.touched ?? [] { try db.notifyChanges(in: Table(name)) }
    }

    /// The minimum number of records for which the fast path for new records is tried.
    private static let fastPathMinimum = 20
    /// The fast path ends after this many more known than new records.
    private static let fastPathBudget = 16

    /// Inserts a record that is new here; returns `false` and writes nothing if its name is taken.
    private func insertNew(
        _ record: Record,
        _ ready: PreparedRecord,
        _ zone: KnownZone,
        _ inserter: inout BulkInserter?
    ) throws -> Bool {
        let name = record.id.recordName
        let table = ready.table
        // An unsent object, possibly of another entity, may have the name.
        if hasOutbox, try OutboxRow.find(db, name) != nil { return false }
        guard try inserter?.record(record, zone, table.name, ready.fields) == true else { return false }
        var row = RecordNameTranslator.Local(values: ready.row)
        if !table.links.isEmpty { row = try names.toLocal(ready.row, table, of: (name, name), zone: zone.id, db) }
        guard try inserter?.row(table, name, row.values) == true else {
            // The row of another program, or an unsent local object, has the name.
            try inserter?.forget(name, in: zone)
            return false
        }
        try inserter?.change(transaction, name, table.name)
        if !row.unresolved.isEmpty { try keep(row.unresolved, of: table, name, zone.id) }
        if hasLinks { try resolveLinks(to: name, zone: zone.id, as: name, table) }
        count += 1
        return true
    }

    // MARK: One record

    /// Imports one record; `again` means that values of a known version have become readable.
    func importRecord(_ record: Record, zone: KnownZone, again: Bool = false) throws {
        var known = try KnownRecord.find(db, zone: zone.id, name: record.id.recordName)
        if let known, let tag = known.tag, tag == record.changeTag, known.state != .invisible, !again {
            if zone.sweep != 0 { try records.markSeen(known, zone.sweep) }
            return
        }
        let fields = KnownRecord.encode(record.fields, encrypted: record.encryptedFields)
        let readable = record.isLocked ? record.fields.filter { !record.isLocked($0.key) } : record.fields
        guard let table = mapping.table(forType: record.type, fields: record.fields) else {
            return try keepUnknown(record, known, zone, fields)
        }
        count += 1
        arriving = record
        let theirs = mapping.row(of: readable, in: table)
        known = try clearName(of: record, known, table, zone)
        if known == nil, hasMoves, try takeOriginal(record, theirs, table, zone) { return }
        // This device has begun to move the record: values encrypted with the old zone's key must be encrypted with
        // this one's.
        let needsResealing =
            !record.encryptedFields.isEmpty && known?.state.hasVersion == false && file.scope == .private
        keepsOutboxRow = needsResealing
        defer { keepsOutboxRow = false }
        let oid = try place(theirs, record, known, table, zone)
        let (id, seen) = (zone.id, zone.sweep)
        try records.store(record, zone: id, oid: oid, entity: table.name, fields: fields, seen: seen)
        guard needsResealing, hasOutbox, try OutboxRow.find(db, oid) != nil else { return }
        try ShareMoves.reseal(db, zone: zone.id, record.id.recordName, file)
    }

    /// Keeps a record of a type that only a newer or older program knows until the model has the type.
    private func keepUnknown(_ record: Record, _ known: KnownRecord?, _ zone: KnownZone, _ fields: Data) throws {
        // The object is still in the file.
        let left = known?.entity.flatMap { mapping.tables[$0] == nil ? known?.oid : nil }
        if let known, let left, hasOutbox, try OutboxRow.find(db, left) != nil {
            // Only a model with this type can merge the pending change, and it needs the version that the change is
            // based on.
            return try records.superseded(known, seen: zone.sweep)
        }
        let entity = left == nil ? nil : known?.entity
        let (seen, id) = (zone.sweep, zone.id)
        try records.store(record, zone: id, oid: left, entity: entity, fields: fields, seen: seen)
    }

    /// Writes the row to its table and returns the object's id.
    func place(
        _ theirs: [DatabaseValue],
        _ record: Record,
        _ known: KnownRecord?,
        _ table: TableLayout,
        _ zone: KnownZone
    ) throws -> String {
        if let oid = known?.oid {
            try update(table, oid, theirs, known, zone)
            return oid
        }
        let name = record.id.recordName
        let row = try names.toLocal(theirs, table, of: (name, name), zone: zone.id, db)
        // A record of another zone may have the name, in another table.
        let isTaken = try KnownRecord.zone(db, oid: name).map { $0 != zone.id } ?? false
        if try !isTaken && table.insertIfNew(db, name, row.values) {
            try keep(row.unresolved, of: table, name, zone.id)
            if hasLinks { try resolveLinks(to: name, zone: zone.id, as: name, table) }
            try note(table, name, .insert, names: nil)
            return name
        }
        // The name belongs to an unsent local object that was created under the same name, or to a record of another
        // zone.
        if try KnownRecord.find(db, oid: name) == nil, zone.zone == file.homeZone {
            try update(table, name, theirs, known, zone)
            return name
        }
        if let moved = try movedHere(table, record, theirs, zone) { return moved }
        let other = UUID().uuidString
        names.hasAliases = true
        _ = try write(theirs, to: table, other, named: name, over: nil, zone: zone.id)
        try note(table, other, .insert, names: nil)
        return other
    }

    // MARK: Updates and merges

    func update(
        _ table: TableLayout,
        _ oid: String,
        _ theirs: [DatabaseValue],
        _ known: KnownRecord?,
        _ zone: KnownZone
    ) throws {
        let pending = hasOutbox ? try OutboxRow.find(db, oid) : nil
        let name = known?.name ?? oid
        guard let current = try table.row(db, oid) else {
            // Deleted here but not yet on the relay.
            if pending?.operation == .delete, try !restoresDeletedObject(table, oid, theirs, known, zone) { return }
            try records.discardChange(of: oid)
            _ = try write(theirs, to: table, oid, named: name, over: nil, zone: zone.id)
            return try note(table, oid, .insert, names: nil)
        }
        var values = theirs
        if pending?.operation == .save {
            values = try merge(table, oid, theirs, current, known, zone)
        }
        let changed = try write(values, to: table, oid, named: name, over: current, zone: zone.id)
        guard !changed.isEmpty else { return }
        try note(table, oid, .update, names: changed.map { table.columns[$0].name }.joined(separator: ","))
    }

    // MARK: Deletions

    /// Removes a record that its zone no longer has.
    ///
    /// `targetZone` is the zone to which the relay says it has moved. `isInvisible` means that it still exists but this
    /// user cannot see it.
    func remove(
        _ name: String,
        zone: KnownZone,
        movedTo targetZone: String? = nil,
        isInvisible: Bool = false
    ) throws {
        guard let known = try KnownRecord.find(db, zone: zone.id, name: name) else {
            if hasMoves { try originalIsGone(name, zone, movedTo: targetZone) }
            if targetZone == nil { try dropPairs(with: name, zone: zone.id) }
            return
        }
        if let targetZone { return try expect(known, in: try KnownZone.make(db, ZoneID(targetZone))) }
        if isInvisible { return try lostVisibility(of: known) }
        try remove(known)
        try dropPairs(with: name, zone: zone.id)
    }

    /// Removes a record that the relay no longer has.
    func remove(_ known: KnownRecord, keepingPending: Bool = true) throws {
        count += 1
        if known.type == Share.recordType, try ShareCache.remove(db, zone: known.zone, named: known.name),
            let zone = try KnownZone.find(db, id: known.zone)
        {
            try noteShare(in: zone, .delete)
        }
        guard let oid = known.oid, let table = try known.entity.flatMap({ try self.table(named: $0) }) else {
            return try records.remove(known)
        }
        let pending = hasOutbox ? try OutboxRow.find(db, oid) : nil
        let acceptsDeletion = file.description.cloud?.acceptsDeletions ?? false
        if keepingPending, pending?.operation == .save, !acceptsDeletion,
            PropertyMerge.keepsObjectDeletedInStore(policy) == true
        {
            return try records.vanished(known, base: known.baseForNewRecord(mapping))
        }
        if pending?.operation == .save { try editLostToDeletion(table, oid, known, acceptsDeletion) }
        try records.discardChange(of: oid)
        try noteDeletion(table, oid)
        try deleteRow(table, oid, named: known.name)
        try records.remove(known)
    }

    /// Returns an entity's table, even if the model no longer has the entity: its objects are still in the file and
    /// would return with it.
    private func table(named entity: String) throws -> TableLayout? {
        if let table = mapping.tables[entity] { return table }
        return try db.tableExists(entity) ? TableLayout(name: entity, kind: .entity(Entity(entity)), columns: []) : nil
    }

    /// Ends a full fetch: removes the records that were not listed.
    func sweep(_ zone: KnownZone) throws {
        guard zone.sweep != 0 else { return }
        let deletedNames = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM mirror_record WHERE zone = ? AND seen <> ?
                AND state IN \(RecordTable.list { $0.isInZone && $0 != .invisible })
                """,
            arguments: [zone.id, zone.sweep]
        )
        let lost = try lostWithShares(deletedNames, in: zone)
        for name in deletedNames { try remove(name, zone: zone, isInvisible: lost.contains(name)) }
        try zone.endSweep(db)
    }

    // MARK: History

    func note(_ table: TableLayout, _ oid: String, _ kind: ChangeKind, names: String?) throws {
        try HistoryTable.note(db, oid, of: table.name, kind, names: names, in: transaction)
    }

    /// Records a change of a share in the history, as an object of the entity `cloudkit.share` named by its zone.
    func noteShare(in zone: KnownZone, _ kind: ChangeKind) throws {
        try HistoryTable.note(db, zone.zone.zoneName, of: Share.recordType, kind, names: nil, in: transaction)
    }

    func noteReversal(_ table: TableLayout, _ oid: String, wasGone: Bool) throws {
        try note(table, oid, wasGone ? .insert : .update, names: nil)
    }

    func noteDeletion(_ table: TableLayout, _ oid: String) throws {
        try HistoryTable.noteDeletion(db, oid, of: table, in: transaction)
    }
}

/// Resolves conflicts between objects of different entities with the same name; a zone has each name once, and the
/// relay's record keeps it.
extension Importer {
    /// Removes the local object of another entity that has an imported record's name, and returns what is known of the
    /// record itself.
    ///
    /// If the relay knew that object, it is gone there, since its name is in use. If it was never sent, it waits for a
    /// decision: another device was first.
    func clearName(
        of record: Record,
        _ known: KnownRecord?,
        _ table: TableLayout,
        _ zone: KnownZone
    ) throws -> KnownRecord? {
        if let known, known.entity == nil || known.entity == table.name { return known }
        let name = record.id.recordName
        if let known, known.state.isInZone {
            try remove(known, keepingPending: false)
            try dropPairs(with: name, zone: zone.id)
            return nil
        }
        guard hasOutbox, let pending = try OutboxRow.find(db, known?.oid ?? name), pending.entity != table.name,
            try known != nil || KnownRecord.find(db, oid: name) == nil
        else { return known }
        try giveUp(pending, known, in: zone)
        return nil
    }

    private func giveUp(_ pending: OutboxRow, _ known: KnownRecord?, in zone: KnownZone) throws {
        let oid = pending.oid
        if let table = mapping.tables[pending.entity], let row = try table.row(db, oid) {
            let mine = mapping.fields(of: try names.toRelay(row, table, oid, db), in: table)
            let what = "On the relay, an object of another entity has this name. Insert it with another name."
            try storeForDecision(table, oid, pending.operation, mine, what)
            try noteDeletion(table, oid)
            try deleteRow(table, oid, named: known?.name ?? oid)
        }
        try records.discardChange(of: oid)
        guard let known else { return }
        try dropPairs(with: known.name, zone: zone.id)
        try records.remove(known)
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
    func zoneLost(_ zone: KnownZone, _ reason: ZoneDeletionReason, isOurs: Bool = false) throws -> [MirrorEvent
        .Detail]
    {
        let sql = "SELECT name FROM mirror_record WHERE zone = ?"
        let names = try String.fetchAll(db, sql: sql, arguments: [zone.id])
        let isShared = file.description.cloud?.scope == .shared
        var (dropped, deletedNames): ([String], [String]) = ([], [])
        for name in names {
            guard let known = try KnownRecord.find(db, zone: zone.id, name: name) else { continue }
            if reason == .encryptedDataReset, known.type != Share.recordType {
                try requeue(known, isNewest: isOurs)
                continue
            }
            if let home = file.homeZone, home != zone.zone, reason == .deleted, let oid = known.oid,
                try OutboxRow.find(db, oid)?.operation == .save
            {
                // A share of this user has ended while a change or a new object was unsent: it moves to the home zone
                // with its object.
                try records.zoneEnded(known, movingTo: try KnownZone.make(db, home).id)
                continue
            }
            if !known.state.isInZone, !isShared, reason == .deleted { continue }
            if let oid = known.oid, try OutboxRow.find(db, oid) != nil {
                dropped.append(oid)
                try records.discardChange(of: oid)
            }
            try remove(known, keepingPending: false)
            deletedNames.append(name)
        }
        for name in deletedNames { try dropPairs(with: name, zone: zone.id) }
        try SentRequest.remove(db, in: zone.zone)
        try zone.lost(db)
        if try ShareCache.remove(db, zone: zone.id) { try noteShare(in: zone, .delete) }
        if isShared { try zone.remove(db) }
        var details: [MirrorEvent.Detail] = [.zoneLost(zone: zone.zone.description, reason: "\(reason)")]
        if !dropped.isEmpty { details.append(.droppedChanges(dropped)) }
        return details
    }

    /// Sends the known version again, because no device can decrypt what the relay had.
    private func requeue(_ known: KnownRecord, isNewest: Bool) throws {
        guard let oid = known.oid, let entity = known.entity else {
            try records.vanished(known, base: known.fields.map { Data($0) })
            return try State.set(db, .hasUnsent, "1")
        }
        let kept = baseFields(of: known, entity, isNewest: isNewest)
        try records.vanished(known, base: known.baseForNewRecord(mapping, keeping: kept))
        // An object that was deleted here is gone there too, and is deleted once more if another device sends it
        // again.
        guard try OutboxRow.find(db, oid)?.operation != .delete else { return }
        try records.queue(oid, entity: entity, .save)
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

extension Importer {
    /// Creates objects for records whose type the model has only now, and fills new columns.
    func adopt(_ changes: [String: [LayoutChange]]) throws {
        for (zone, name, type, fields) in try unknownRecords() {
            guard let table = mapping.table(forType: type, fields: fields) else { continue }
            let theirs = mapping.row(of: fields, in: table)
            let record = Record(id: RecordID(name, in: zone.zone), type: type, fields: fields)
            let oid = try place(theirs, record, nil, table, zone)
            try records.adopt(name, in: zone.id, oid: oid, entity: table.name)
            try refetchAssets(of: oid, fields, table.columns)
        }
        for (name, changes) in changes {
            if let table = mapping.tables[name] { try fill(changes, of: table) }
        }
    }

    private func unknownRecords() throws -> [(KnownZone, String, String, [String: FieldValue])] {
        let zones = Dictionary(uniqueKeysWithValues: try KnownZone.all(db).map { ($0.id, $0) })
        let rows = try Row.fetchAll(db, sql: "SELECT zone, name FROM mirror_record WHERE oid IS NULL")
        return try rows.compactMap { row in
            let (zone, name): (Int64, String) = (row[0], row[1])
            guard let home = zones[zone], let known = try KnownRecord.find(db, zone: zone, name: name) else {
                return nil
            }
            return (home, name, known.type, known.serverFields())
        }
    }

    private func fill(_ changes: [LayoutChange], of table: TableLayout) throws {
        let oids = try String.fetchAll(
            db,
            sql: "SELECT oid FROM mirror_record WHERE entity = ? AND fields IS NOT NULL",
            arguments: [table.name]
        )
        let returns = changes.count { if case .returns = $0.cause { true } else { false } } == table.columns.count
        for oid in oids {
            guard let known = try KnownRecord.find(db, oid: oid), var row = try table.row(db, oid) else { continue }
            let isPending = hasOutbox ? try OutboxRow.find(db, oid) != nil : false
            // The pending change is based on the version that this device had then; newer versions are fetched again
            // and merged.
            if returns, isPending {
                if known.state == .outdated { try refetch(known) }
                continue
            }
            let (zone, fields) = (known.zone, known.serverFields())
            let relayed = mapping.row(of: fields, in: table)
            let theirs = try names.toLocal(relayed, table, of: (known.name, oid), zone: zone, db)
            for change in changes {
                guard let position = table.index[change.column.name],
                    !keeps(row[position], change, fields, isPending: isPending)
                else { continue }
                row[position] = theirs.values[position]
            }
            try table.update(db, oid, row)
            try keep(theirs.unresolved, of: table, oid, zone)
            if hasLinks { try resolveLinks(to: known.name, zone: zone, as: oid, table) }
            try refetchAssets(of: oid, known.allFields(), changes.map(\.column))
        }
    }

    /// Returns whether a column's value must be kept in place of the record's.
    private func keeps(
        _ value: DatabaseValue,
        _ change: LayoutChange,
        _ fields: [String: FieldValue],
        isPending: Bool
    ) -> Bool {
        let fallback = change.column.attribute?.defaultValue ?? .null
        return switch change.cause {
        // Another program that had this model earlier has changed the value.
        case .new: isPending && value != fallback
        case .returns: false
        case .newDefault(let before):
            value != before || fields[mapping.field(change.column)] != nil
                || fields[mapping.assetField(change.column)] != nil
        }
    }

    /// Fetches records again whose assets were not fetched because no attribute used them.
    private func refetchAssets(
        of oid: String,
        _ fields: [String: FieldValue],
        _ columns: [ColumnLayout]
    ) throws {
        let isMissing = columns.contains { column in
            column.attribute?.type.hasLargeForm == true && fields[mapping.field(column)] == nil
                && fields[mapping.assetField(column)] != nil
        }
        if isMissing, let known = try KnownRecord.find(db, oid: oid) { try refetch(known) }
    }

    private func refetch(_ known: KnownRecord) throws {
        let isPublic = file.scope == .public
        try records.contentMissing(known, isPublic: isPublic)
        if isPublic { try PollProgress.forget(db, known.type) }
    }
}
