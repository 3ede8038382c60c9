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
    var homeless: [SavePlan.Item] = []
    /// Objects in which links were set, as written.
    private var linked: [(key: MirrorContext.Key, table: TableForm, row: [DatabaseValue])] = []
    /// The home zone's number; `nil` if nothing is shared, so that zones do not matter.
    let home: Int64?
    /// The rows before this save, if one of its changes may cause another; otherwise `nil`.
    private var starts: [MirrorContext.Key: [DatabaseValue]]?
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
        zones: [MirrorContext.Key: MirrorContext.ShareHome]
    ) throws -> SavedRows {
        try db.cachedStatement(sql: "INSERT INTO mirror_transaction(author, context, at) VALUES (?, ?, ?)")
            .execute(arguments: [author, context, now.timeIntervalSince1970])
        let transaction = db.lastInsertedRowID
        // Few changes are assigned to their transaction afterwards, which saves writing a page; many are assigned as
        // they are recorded.
        let last = try lastChange()
        let areFew = items.count <= Self.few
        if !areFew { try fileChanges(under: transaction) }
        let items = Self.ordered(items)
        let mayFollow = items.contains { followsMore($0) }
        if mayFollow, items.count > 1 { starts = try rows(of: items) }
        for item in items {
            guard let table = file.mapping.tables[item.key.entity] else { continue }
            switch item.pending.change {
            case .insert: try insert(item, table, zones[item.key])
            case .update(let base): try update(item, table, base)
            case .delete(let base): try delete(item, table, base)
            }
        }
        try settleHomeless()
        try openLost()
        try joinShares()
        if file.mapping.keepsEditTimes { try EditTimes.date(db, now) }
        if mayFollow { try noteFollowing(after: last) }
        if areFew {
            try db.cachedStatement(sql: "UPDATE mirror_change SET txn = ? WHERE seq > ?")
                .execute(arguments: [transaction, last])
        } else {
            try fileChanges(under: 0)
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

    private static let few = 8

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
    private func followsMore(_ item: SavePlan.Item) -> Bool {
        item.isDeletion || file.mapping.tables[item.key.entity]?.columns.contains { $0.back != nil } == true
    }

    private func rows(of items: [SavePlan.Item]) throws -> [MirrorContext.Key: [DatabaseValue]] {
        var rows: [MirrorContext.Key: [DatabaseValue]] = [:]
        for item in items { rows[item.key] = try file.mapping.tables[item.key.entity]?.row(db, item.key.id) }
        return rows
    }

    /// Returns a row as it was before this save.
    private func start(_ item: SavePlan.Item, _ table: TableForm) throws -> [DatabaseValue]? {
        if let starts { return starts[item.key] }
        return try table.row(db, item.key.id)
    }

    /// The maximum number of objects whose caused changes are remembered.
    private static let following = 1_000

    /// Remembers changes caused by this save, so that they count as made by this context.
    private mutating func noteFollowing(after last: Int64) throws {
        let sql = "SELECT oid, entity, names FROM mirror_change WHERE seq > ? AND kind = 2 AND names <> '' LIMIT ?"
        for change in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [last, Self.following]) {
            let key = MirrorContext.Key(entity: change[1], id: change[0])
            guard let table = file.mapping.tables[key.entity], let row = try table.row(db, key.id) else { continue }
            let names = (change[2] as String).split(separator: ",")
            written.follow(key, row, names.compactMap { table.index[String($0)] })
        }
    }

    private func lastChange() throws -> Int64 {
        try Int64.fetchOne(try db.cachedStatement(sql: "SELECT max(seq) FROM mirror_change")) ?? 0
    }

    /// Sets the transaction number under which the triggers record changes from now on.
    private func fileChanges(under transaction: Int64) throws {
        try db.cachedStatement(sql: "UPDATE mirror_local SET txn = ?").execute(arguments: [transaction])
    }

    private mutating func insert(_ item: SavePlan.Item, _ table: TableForm, _ home: MirrorContext.ShareHome?) throws {
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
            if file.scope == .shared { homeless.append(item) }
            return
        }
        try reserve(item, table, in: zone)
        guard let parent = home?.parent else { return }
        try db.execute(
            sql: "UPDATE mirror_record SET parent = ? WHERE oid = ? AND tag IS NULL",
            arguments: [parent, item.key.id]
        )
    }

    /// Merges a new object with one of the same name from another device that was imported before this save.
    private mutating func merge(_ item: SavePlan.Item, _ table: TableForm, into store: [DatabaseValue]) throws {
        if case .pairs = table.kind { return }
        try update(item, table, file.mapping.row(of: [:], in: table))
    }

    private mutating func update(_ item: SavePlan.Item, _ table: TableForm, _ base: [DatabaseValue]) throws {
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
        guard let now = try starts == nil ? store : table.row(db, id) else { return }
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
    private mutating func updateMissing(_ item: SavePlan.Item, _ table: TableForm, _ base: [DatabaseValue]) throws {
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
            guard try !wentWithShare(id) else { throw MirrorError.unavailable(item.key) }
            conflicts.append(conflict(item, table, base, mine, nil))
        }
    }

    /// Makes links open whose target was deleted since it was read.
    private mutating func openLost() throws {
        guard file.isMirrored else { return }
        var targets = LostTargets(db, file)
        for (key, table, values) in linked {
            guard try targets.areAmong(values, table), let row = try table.row(db, key.id) else { continue }
            guard let open = try targets.open(key.id, table, row) else {
                written.forget(key)
                continue
            }
            written.follow(key, open, table.links)
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

    private mutating func delete(_ item: SavePlan.Item, _ table: TableForm, _ base: [DatabaseValue]?) throws {
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
        _ table: TableForm,
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
