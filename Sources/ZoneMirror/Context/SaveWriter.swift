import Foundation
import GRDB
import Records
import ZoneKit

/// Writes the part of a save plan for one store, within one transaction.
struct SaveWriter {
    let db: Database
    let file: StoreFile
    let policy: MergePolicy
    let saved: SavedRows
    let now: Date
    private var conflicts: [MergeConflict] = []
    /// Objects whose links may bring them or their targets into a share.
    var relinked: [ObjectID] = []
    var objectsWithoutShare: [SavePlan.Item] = []
    /// Objects in which links were set, as written.
    private var linked: [(key: MirrorContext.Key, table: TableLayout, row: [DatabaseValue])] = []
    /// The home zone's number; `nil` if nothing is shared, so that zones do not matter.
    let home: Int64?
    /// The rows before this save, if one of its changes may cause another; otherwise `nil`.
    private var rowsBeforeSave: [MirrorContext.Key: [DatabaseValue]]?
    private var written = SavedRows()

    init(
        _ db: Database,
        _ file: StoreFile,
        policy: MergePolicy,
        saved: SavedRows,
        now: Date
    ) throws {
        self.db = db
        self.file = file
        self.policy = policy
        self.saved = saved
        self.now = now
        let count = try db.cachedStatement(sql: "SELECT count(*) FROM mirror_zone")
        let zones = file.isMirrored ? try Int.fetchOne(count) ?? 0 : 0
        // In a shared store, every zone belongs to a share.
        let isPlain = zones < 2 && file.scope == .private
        home = isPlain ? nil : try file.homeZone.flatMap { try KnownZone.find(db, $0)?.id } ?? 0
    }

    mutating func write(
        _ items: [SavePlan.Item],
        author: String?,
        context: String?,
        zones: [MirrorContext.Key: MirrorContext.ShareAssignment]
    ) throws -> SavedRows {
        let transaction = try HistoryTable.begin(db, author: author, context: context, at: now)
        // Few changes are assigned to their transaction afterwards, which saves writing a page; many are assigned as
        // they are recorded.
        let last = try HistoryTable.last(db)
        let isSmallSave = items.count <= Self.smallSaveLimit
        if !isSmallSave { try HistoryTable.record(db, in: transaction) }
        let items = Self.ordered(items)
        let mayCauseMore = items.contains { mayCauseChanges($0) }
        if mayCauseMore, items.count > 1 { rowsBeforeSave = try rows(of: items) }
        for item in items {
            guard let table = file.mapping.tables[item.key.entity] else { continue }
            switch item.pending.change {
            case .insert: try insert(item, table, zones[item.key])
            case .update(let base): try update(item, table, base)
            case .delete(let base): try delete(item, table, base)
            }
        }
        try placeObjectsWithoutShare()
        try detachDanglingLinks()
        try moveIntoShares()
        if file.mapping.keepsEditTimes { try EditTimes.date(db, now) }
        if mayCauseMore { try recordCausedChanges(after: last) }
        if isSmallSave {
            try HistoryTable.assign(db, after: last, to: transaction)
        } else {
            try HistoryTable.record(db, in: 0)
        }
        guard conflicts.isEmpty else {
            let what = conflicts.count == 1 ? "An object" : "\(conflicts.count) objects"
            throw MirrorError(
                .mergeConflict(conflicts),
                "\(what) changed since this context read it. Fetch again, or set another merge policy."
            )
        }
        return written
    }

    private static let smallSaveLimit = 8

    /// Orders the changes with deletions last, so that the rows that decide about cascades are written before.
    ///
    /// If a name is reused by another object, its deletion comes first.
    private static func ordered(_ items: [SavePlan.Item]) -> [SavePlan.Item] {
        guard items.count > 1, items.contains(where: \.isDeletion) else { return items }
        let given = Set(items.filter { !$0.isDeletion }.map(\.key.id))
        func isLate(_ item: SavePlan.Item) -> Bool { item.isDeletion && !given.contains(item.key.id) }
        return items.filter { !isLate($0) } + items.filter { isLate($0) }
    }

    /// Returns whether a change may change other objects, by delete rules or one-to-one links.
    private func mayCauseChanges(_ item: SavePlan.Item) -> Bool {
        item.isDeletion || file.mapping.tables[item.key.entity]?.columns.contains { $0.inverseLink != nil } == true
    }

    private func rows(of items: [SavePlan.Item]) throws -> [MirrorContext.Key: [DatabaseValue]] {
        var rows: [MirrorContext.Key: [DatabaseValue]] = [:]
        for item in items { rows[item.key] = try file.mapping.tables[item.key.entity]?.row(db, item.key.id) }
        return rows
    }

    /// Returns a row as it was before this save.
    private func start(_ item: SavePlan.Item, _ table: TableLayout) throws -> [DatabaseValue]? {
        if let rowsBeforeSave { return rowsBeforeSave[item.key] }
        return try table.row(db, item.key.id)
    }

    /// The maximum number of objects whose caused changes are remembered.
    private static let following = 1_000

    /// Remembers changes caused by this save, so that they count as made by this context.
    private mutating func recordCausedChanges(after last: Int64) throws {
        let sql = "SELECT oid, entity, names FROM mirror_change WHERE seq > ? AND kind = 2 AND names <> '' LIMIT ?"
        for change in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [last, Self.following]) {
            let key = MirrorContext.Key(entity: change[1], id: change[0])
            guard let table = file.mapping.tables[key.entity], let row = try table.row(db, key.id) else { continue }
            let names = (change[2] as String).split(separator: ",")
            written.noteSideEffects(key, row, names.compactMap { table.index[String($0)] })
        }
    }

    private mutating func insert(_ item: SavePlan.Item, _ table: TableLayout, _ home: MirrorContext.ShareAssignment?)
        throws
    {
        if let store = try table.row(db, item.key.id) { return try merge(item, table, into: store) }
        do {
            try table.insert(db, item.key.id, item.pending.row)
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_TRIGGER {
            throw MirrorError(.storage, "\(object(item)) was not saved. \(error.message ?? "")", underlying: error)
        }
        written.note(item.key, item.pending.row)
        guard file.isMirrored else { return }
        linked.append((item.key, table, item.pending.row))
        guard let zone = try home.flatMap({ try assignedZone($0, item) }) ?? zoneByLinks(item, table) else {
            if file.scope == .shared { objectsWithoutShare.append(item) }
            return
        }
        try reserve(item, table, in: zone)
        guard let parent = home?.parent else { return }
        try RecordTable(db).setParent(parent, of: item.key.id)
    }

    /// Merges a new object with one of the same name from another device that was imported before this save.
    private mutating func merge(_ item: SavePlan.Item, _ table: TableLayout, into store: [DatabaseValue]) throws {
        if case .pairs = table.kind { return }
        try update(item, table, file.mapping.row(of: [:], in: table))
    }

    private mutating func update(_ item: SavePlan.Item, _ table: TableLayout, _ base: [DatabaseValue]) throws {
        let (id, mine) = (item.key.id, item.pending.row)
        guard let store = try start(item, table) else { return try updateMissing(item, table, base) }
        // Changes written by this context itself are no conflict.
        let start = saved.isLast(item.key, store) ? store : saved.following(base, item.key, store)
        let edited = Self.onTop(of: start, mine, changedSince: base)
        guard edited != store else { return written.note(item.key, store) }
        guard let outcome = PropertyMerge.edits(base: start, memory: edited, store: store, policy: policy),
            let values = outcome.values
        else {
            conflicts.append(conflict(item, table, base, mine, store))
            return
        }
        // Values changed by another change of this save stay, as does an object deleted by one.
        guard let now = try rowsBeforeSave == nil ? store : table.row(db, id) else { return }
        let result = now.edited(as: values, since: store)
        if result != now {
            try table.touchDates(db, id, from: now, to: result)
            try table.update(db, id, result)
        }
        written.note(item.key, result)
        guard table.links.contains(where: { values[$0] != store[$0] && !values[$0].isNull }) else { return }
        linked.append((item.key, table, result))
        if home != nil { relinked.append(object(item)) }
    }

    /// Updates an object that was deleted by another context.
    private mutating func updateMissing(_ item: SavePlan.Item, _ table: TableLayout, _ base: [DatabaseValue]) throws {
        let (id, mine) = (item.key.id, item.pending.row)
        switch PropertyMerge.keepsObjectDeletedInStore(policy) {
        case true?:
            let zone = try zoneByLinks(item, table)
            // Another user's object cannot be restored without its share.
            if file.scope == .shared, zone == nil { throw MirrorError.unavailable(item.key) }
            try table.insert(db, id, mine)
            if let zone { try reserve(item, table, in: zone) }
            written.note(item.key, mine)
            linked.append((item.key, table, mine))
        case false?: break
        case nil:
            guard try !wasRemovedWithShare(id) else { throw MirrorError.unavailable(item.key) }
            conflicts.append(conflict(item, table, base, mine, nil))
        }
    }

    /// Makes links open whose target was deleted since it was read.
    private mutating func detachDanglingLinks() throws {
        guard file.isMirrored else { return }
        var targets = DanglingLinks(db, file)
        for (key, table, values) in linked {
            guard try targets.hasDangling(values, table), let row = try table.row(db, key.id) else { continue }
            guard let open = try targets.open(key.id, table, row) else {
                written.forget(key)
                continue
            }
            written.noteSideEffects(key, open, table.links)
        }
    }

    func object(_ item: SavePlan.Item) -> ObjectID {
        ObjectID(store: file.id, entity: item.key.entity, name: RecordName(item.key.id))
    }

    /// Returns the edits between `base` and `mine`, applied to another starting row.
    private static func onTop(
        of start: [DatabaseValue],
        _ mine: [DatabaseValue],
        changedSince base: [DatabaseValue]
    ) -> [DatabaseValue] {
        guard start != base else { return mine }
        return start.indices.map { mine[$0] != base[$0] ? mine[$0] : start[$0] }
    }

    private mutating func delete(_ item: SavePlan.Item, _ table: TableLayout, _ base: [DatabaseValue]?) throws {
        guard let store = try start(item, table) else { return }
        if let base, !saved.isLast(item.key, store), store != saved.following(base, item.key, store) {
            switch PropertyMerge.keepsObjectDeletedInMemory(policy) {
            case true?: return
            case false?: break
            case nil:
                conflicts.append(conflict(item, table, base, nil, store))
                return
            }
        }
        try table.delete(db, item.key.id)
    }

    private func conflict(
        _ item: SavePlan.Item,
        _ table: TableLayout,
        _ base: [DatabaseValue],
        _ memory: [DatabaseValue]?,
        _ store: [DatabaseValue]?
    ) -> MergeConflict {
        func named(_ row: [DatabaseValue]?) -> [String: String] {
            guard let row else { return [:] }
            return Dictionary(zip(table.columns.map(\.name), table.inSQL(row).map(\.description))) { $1 }
        }
        return MergeConflict(
            object: ObjectID(store: file.id, entity: table.name, name: RecordName(item.key.id)),
            base: named(base),
            memory: named(memory),
            store: named(store)
        )
    }
}

/// Determines the share zones of new and newly linked objects.
///
/// See SharingRules.md, "What is shared".
extension SaveWriter {
    /// Assigns zones to new objects of a shared store that have no link of their own: they go to the zone of the
    /// objects that link to them.
    mutating func placeObjectsWithoutShare() throws {
        for item in objectsWithoutShare {
            let closure = ShareClosure(db: db, file: file)
            let zones = try closure.newcomers(from: object(item), home: home ?? 0).zones
            guard zones.count < 2 else { throw Self.crossShareError(object(item)) }
            guard let table = file.mapping.tables[item.key.entity] else { continue }
            guard let zone = zones.first else {
                // Its link's target is gone, so the object would never belong to a share.
                if let lost = try lostTarget(of: item, table) { throw MirrorError.unavailable(lost) }
                continue
            }
            try reserve(item, table, in: zone)
        }
    }

    private func lostTarget(of item: SavePlan.Item, _ table: TableLayout) throws -> MirrorContext.Key? {
        for position in table.links {
            guard let id = String.fromDatabaseValue(item.pending.row[position]),
                let destination = table.columns[position].link?.destination,
                try file.mapping.tables[destination]?.row(db, id) == nil
            else { continue }
            return MirrorContext.Key(entity: destination, id: id)
        }
        return nil
    }

    /// Returns the zone of the share that a new object was assigned to; `nil` if that share of this user has ended
    /// since.
    func assignedZone(_ home: MirrorContext.ShareAssignment, _ item: SavePlan.Item) throws -> Int64? {
        if let zone = try KnownZone.find(db, home.zone) { return zone.id }
        guard file.scope == .shared else { return nil }
        throw MirrorError(
            .objectUnavailable,
            "\(object(item)) was assigned to a share that has ended or that this user has left."
        )
    }

    mutating func reserve(_ item: SavePlan.Item, _ table: TableLayout, in zone: Int64) throws {
        relinked.append(object(item))
        if file.scope == .shared, file.description.unpermittedWrites == .reject,
            try !ShareCache.canWrite(db, zone: zone, record: nil)
        {
            let object = object(item)
            throw MirrorError(
                .permissionFailure([object]),
                "\(object) belongs to a share that this user may only read. Ask its owner for write permission."
            )
        }
        try RecordTable(db).address(
            zone: zone,
            name: item.key.id,
            oid: item.key.id,
            entity: table.name,
            type: file.mapping.recordType(of: table)
        )
    }

    /// Returns the share zone of an object that this one is linked to; `nil` for the home zone.
    func zoneByLinks(_ item: SavePlan.Item, _ table: TableLayout) throws -> Int64? {
        guard let home, !table.links.isEmpty else { return nil }
        var found: Int64?
        for position in table.links {
            guard let id = String.fromDatabaseValue(item.pending.row[position]),
                let zone = try KnownRecord.zone(db, oid: id), zone != home
            else { continue }
            if let found, found != zone { throw Self.crossShareError(object(item)) }
            found = zone
        }
        return found
    }

    /// Returns whether an object was removed because access to it ended; then there is nothing to merge.
    func wasRemovedWithShare(_ id: String) throws -> Bool {
        guard file.scope == .shared else { return false }
        let sql = """
            SELECT EXISTS (SELECT 1 FROM mirror_change o JOIN mirror_change s ON s.txn = o.txn
                WHERE o.oid = ? AND o.kind = 3 AND s.entity = ? AND s.kind = 3)
            """
        return try Bool.fetchOne(db, sql: sql, arguments: [id, Share.recordType]) ?? false
    }

    /// Moves objects that are linked with a shared object into its zone, with all objects connected to them.
    func moveIntoShares() throws {
        guard let home, file.scope == .private else { return }
        for object in relinked {
            let closure = ShareClosure(db: db, file: file)
            // Connected objects are in one zone, so it is enough to look at the ends of the new links.
            let ends = try [object] + closure.targets(of: object)
            var shared = Set(try ends.map { try KnownRecord.zone(db, oid: $0.name.text) ?? home })
            shared.remove(home)
            guard let zone = shared.first else { continue }
            let (newcomers, met) = try closure.newcomers(from: object, home: home)
            guard shared.union(met).count == 1 else { throw Self.crossShareError(object) }
            if !newcomers.isEmpty { try ShareMoves.reassign(db, newcomers, to: zone, file: file) }
        }
    }

    static func crossShareError(_ object: ObjectID) -> MirrorError {
        MirrorError(
            .crossShareRelationship,
            "\(object) cannot be related to objects of two different shares. Remove it from one of them first."
        )
    }
}

/// Handles links, written by a save, whose target is not in the store.
///
/// Another context has deleted the target since it was read, or it has not arrived yet. Other devices will show such
/// links as open, and so does this one.
struct DanglingLinks {
    let db: Database
    let file: StoreFile
    /// The objects deleted here, as far as the history goes back; read when first needed.
    private var deleted: Set<String>?

    init(_ db: Database, _ file: StoreFile) {
        self.db = db
        self.file = file
    }

    /// Returns whether some of an object's links have lost their target.
    mutating func hasDangling(_ row: [DatabaseValue], _ table: TableLayout) throws -> Bool {
        for position in table.links where try isLost(row[position], table.columns[position], table) { return true }
        return false
    }

    /// Makes such links of one object open; deletes a many-to-many link that has lost an end.
    ///
    /// Returns the row after that; `nil` if it was deleted.
    mutating func open(_ id: String, _ table: TableLayout, _ row: [DatabaseValue]) throws -> [DatabaseValue]? {
        let lost = try table.links.filter { try isLost(row[$0], table.columns[$0], table) }
        guard !lost.isEmpty else { return row }
        if table.entity == nil {
            try table.delete(db, id)
            return nil
        }
        var open = row
        for position in lost { open[position] = .null }
        // The user's change itself is recorded and will be sent.
        try HistoryTable.withoutTracking(db) { try table.update(db, id, open) }
        let zone = try KnownRecord.zone(db, oid: id) ?? file.homeZone.map { try KnownZone.make(db, $0).id } ?? 0
        for position in lost {
            guard let target = String.fromDatabaseValue(row[position]) else { continue }
            let name = try KnownRecord.find(db, oid: target)?.name ?? target
            try UnresolvedLinks.keep(db, id, table.name, table.columns[position].name, zone, to: name)
        }
        return open
    }

    /// Many-to-many and one-to-one links to an object that was never here are resolved on its arrival; they stay as
    /// they are.
    private mutating func isLost(_ value: DatabaseValue, _ column: ColumnLayout, _ table: TableLayout) throws -> Bool {
        guard let target = String.fromDatabaseValue(value), let link = column.link else { return false }
        let here = "SELECT EXISTS (SELECT 1 FROM \(link.destination.quoted) WHERE id = ?)"
        if try Bool.fetchOne(db.cachedStatement(sql: here), arguments: [target]) == true { return false }
        guard table.entity == nil || column.inverseLink != nil else { return true }
        let deleted = try deleted ?? String.fetchSet(db, sql: "SELECT oid FROM mirror_change WHERE kind = 3")
        self.deleted = deleted
        return deleted.contains(target)
    }
}
