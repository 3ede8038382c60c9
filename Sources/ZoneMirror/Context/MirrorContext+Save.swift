import Foundation
import GRDB
import Synchronization

extension MirrorContext {
    /// Writes all changes of this context, one transaction for each store; or, where something is wrong, none.
    ///
    /// Returns when the files have them; sending is nobody's wait. A pinned context moves on.
    ///
    /// - Throws: `mergeConflict` under the policy `error`, `permissionFailure`, `crossStoreRelationship`,
    ///   `noStoreForEntity`, and what SQLite throws.
    public func save() throws(MirrorError) {
        let (pending, policy, author, saved) = state.withLock {
            ($0.pending, $0.mergePolicy, $0.author, $0.saved)
        }
        guard !pending.isEmpty else { return }
        var plan = try SavePlan(pending, self)
        try plan.checkPermissions(stores)
        var written: [Key: [DatabaseValue]] = [:]
        do {
            for (store, items) in plan.byStore {
                guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is closed.") }
                let date = stores.now
                let (zones, name, crash) = (plan.zones, name, stores.conditions.crashPoint)
                let rows = try file.pool.write { db in
                    var writer = SaveWriter(db, file, policy: policy, saved: saved, now: date)
                    let rows = try writer.write(items, author: author, context: name, zones: zones)
                    try crash(.insideSave)
                    return rows
                }
                try crash(.afterSave)
                written.merge(rows) { $1 }
            }
        } catch {
            throw MirrorError(from: error)
        }
        state.withLock { state in
            for (key, item) in pending
            where state.pending[key]?.place == item.place && state.pending[key]?.row == item.row {
                state.pending[key] = nil
                state.assigned[key] = nil
                state.assignedZones[key] = nil
            }
            state.saved.merge(written) { $1 }
            state.pin.advance()
        }
    }
}

/// Which change goes to which store, decided before anything is written.
struct SavePlan {
    struct Item {
        var key: MirrorContext.Key
        var pending: MirrorContext.Pending
    }

    private(set) var byStore: [(StoreID, [Item])] = []
    /// The zones of new objects that belong to a share.
    private(set) var zones: [MirrorContext.Key: Int64] = [:]

    init(_ pending: [MirrorContext.Key: MirrorContext.Pending], _ context: MirrorContext) throws(MirrorError) {
        let stores = context.stores
        let (assigned, assignedZones) = context.state.withLock { ($0.assigned, $0.assignedZones) }
        zones = assignedZones
        var homes: [MirrorContext.Key: StoreID] = [:]
        let items = pending.sorted { $0.value.place < $1.value.place }
        for (key, item) in items { homes[key] = item.store ?? assigned[key] }
        // A new object follows the objects it is linked to; what they follow may be new too.
        for _ in 0..<4 {
            for (key, item) in items where homes[key] == nil {
                homes[key] = try Self.homeByLinks(key, item, homes, context)
            }
        }
        var groups: [StoreID: [Item]] = [:]
        var order: [StoreID] = []
        for (key, item) in items {
            let home = if let chosen = homes[key] { chosen } else { try stores.firstWritable(key.entity) }
            guard let file = stores.file(home), !file.description.isReadOnly else {
                throw MirrorError(.noStoreForEntity, "\(home) can only be read.")
            }
            if groups[home] == nil { order.append(home) }
            groups[home, default: []].append(Item(key: key, pending: item))
            homes[key] = home
        }
        for (key, item) in items { try Self.checkLinks(key, item, homes, context) }
        byStore = order.map { ($0, groups[$0] ?? []) }
    }

    /// The objects that a row is linked to, as keys.
    private static func targets(
        _ key: MirrorContext.Key,
        _ item: MirrorContext.Pending,
        _ stores: OpenStores
    ) -> [MirrorContext.Key] {
        guard let table = stores.table(key.entity) else { return [] }
        return table.links.compactMap { position in
            guard let id = String.fromDatabaseValue(item.row[position]),
                let destination = table.columns[position].link?.destination
            else { return nil }
            return MirrorContext.Key(entity: destination, id: id)
        }
    }

    private static func homeByLinks(
        _ key: MirrorContext.Key,
        _ item: MirrorContext.Pending,
        _ homes: [MirrorContext.Key: StoreID],
        _ context: MirrorContext
    ) throws(MirrorError) -> StoreID? {
        for target in targets(key, item, context.stores) {
            if let home = homes[target] { return home }
            for file in context.stores.files(holding: target.entity) {
                guard let table = file.mapping.tables[target.entity] else { continue }
                do {
                    if try file.pool.read({ try table.row($0, target.id) }) != nil { return file.id }
                } catch {
                    throw MirrorError(from: error)
                }
            }
        }
        return nil
    }

    private static func checkLinks(
        _ key: MirrorContext.Key,
        _ item: MirrorContext.Pending,
        _ homes: [MirrorContext.Key: StoreID],
        _ context: MirrorContext
    ) throws(MirrorError) {
        if case .delete = item.change { return }
        // Only where there is more than one store can a link lead out of it.
        guard context.stores.files.count > 1 else { return }
        for target in targets(key, item, context.stores) {
            var home = homes[target]
            if home == nil { home = try context.find(target)?.0 }
            if let home, home != homes[key] {
                throw MirrorError(
                    .crossStoreRelationship,
                    "\(key.entity) \(key.id) and \(target.entity) \(target.id) are in different stores. Keep the name instead of a link."
                )
            }
        }
    }

    /// Refuses what the relay would refuse, where the store wants that.
    mutating func checkPermissions(_ stores: OpenStores) throws(MirrorError) {
        for (store, items) in byStore {
            guard let file = stores.file(store), file.isMirrored, file.description.unpermittedWrites == .reject else {
                continue
            }
            let judge = Permissions(file: file, account: stores.account)
            let refused: [ObjectID]
            do {
                refused = try file.pool.read { db in
                    try items.filter { item in
                        switch item.pending.change {
                        case .insert: try !judge.canInsert(db, entity: item.key.entity)
                        case .update: try !judge.canUpdate(db, oid: item.key.id)
                        case .delete: try !judge.canDelete(db, oid: item.key.id)
                        }
                    }.map { ObjectID(store: store, entity: $0.key.entity, name: RecordName($0.key.id)) }
                }
            } catch {
                throw MirrorError(from: error)
            }
            if !refused.isEmpty {
                throw MirrorError(
                    .permissionFailure(refused),
                    "The user may not change \(refused.map(\.description).joined(separator: ", "))."
                )
            }
        }
    }
}

/// Writes a plan's part into one store, inside one transaction.
struct SaveWriter {
    let db: Database
    let file: StoreFile
    let policy: MergePolicy
    let saved: [MirrorContext.Key: [DatabaseValue]]
    let now: Date
    private var conflicts: [MergeConflict] = []
    private var written: [MirrorContext.Key: [DatabaseValue]] = [:]

    init(
        _ db: Database,
        _ file: StoreFile,
        policy: MergePolicy,
        saved: [MirrorContext.Key: [DatabaseValue]],
        now: Date
    ) {
        self.db = db
        self.file = file
        self.policy = policy
        self.saved = saved
        self.now = now
    }

    mutating func write(
        _ items: [SavePlan.Item],
        author: String?,
        context: String?,
        zones: [MirrorContext.Key: Int64]
    ) throws -> [MirrorContext.Key: [DatabaseValue]] {
        try db.cachedStatement(sql: "INSERT INTO mirror_transaction(author, context, at) VALUES (?, ?, ?)")
            .execute(arguments: [author, context, now.timeIntervalSince1970])
        try db.cachedStatement(sql: "UPDATE mirror_local SET txn = ?").execute(arguments: [db.lastInsertedRowID])
        for item in items {
            guard let table = file.mapping.tables[item.key.entity] else { continue }
            switch item.pending.change {
            case .insert: try insert(item, table, zones[item.key])
            case .update(let base): try update(item, table, base)
            case .delete(let base): try delete(item, table, base)
            }
        }
        try db.cachedStatement(sql: "UPDATE mirror_local SET txn = 0").execute()
        guard conflicts.isEmpty else {
            throw MirrorError(
                .mergeConflict(conflicts),
                "\(conflicts.count) objects changed since they were read. Read them again, or set another merge policy."
            )
        }
        return written
    }

    private mutating func insert(_ item: SavePlan.Item, _ table: TableForm, _ zone: Int64?) throws {
        try table.insert(db, item.key.id, item.pending.row)
        written[item.key] = item.pending.row
        guard file.isMirrored, let zone = try zone ?? zoneByLinks(item, table) else { return }
        try KnownRecord.reserve(
            db,
            zone: zone,
            name: item.key.id,
            oid: item.key.id,
            entity: table.name,
            type: file.mapping.recordType(of: table)
        )
    }

    /// The zone of a share that an object linked to is in; `nil` for the home zone.
    private func zoneByLinks(_ item: SavePlan.Item, _ table: TableForm) throws -> Int64? {
        guard !table.links.isEmpty else { return nil }
        let home = try file.homeZone.flatMap { try KnownZone.find(db, $0)?.id }
        var found: Int64?
        for position in table.links {
            guard let id = String.fromDatabaseValue(item.pending.row[position]),
                let zone = try KnownRecord.find(db, oid: id)?.zone, zone != home
            else { continue }
            if let found, found != zone {
                throw MirrorError(
                    .crossShareRelationship,
                    "\(table.name) \(item.key.id) cannot be linked to objects of two different shares."
                )
            }
            found = zone
        }
        return found
    }

    private mutating func update(_ item: SavePlan.Item, _ table: TableForm, _ base: [DatabaseValue]) throws {
        let (id, mine) = (item.key.id, item.pending.row)
        guard let store = try table.row(db, id) else {
            switch PropertyMerge.keepsObjectDeletedInStore(policy) {
            case true?:
                try table.insert(db, id, mine)
                written[item.key] = mine
            case false?: break
            case nil: conflicts.append(conflict(item, table, base, mine, nil))
            }
            return
        }
        // What this context wrote itself is no change by somebody else.
        let start = saved[item.key] == store ? store : base
        let edited = Self.onTop(of: start, mine, changedSince: base)
        guard let outcome = PropertyMerge.edits(base: start, memory: edited, store: store, policy: policy),
            let values = outcome.values
        else {
            conflicts.append(conflict(item, table, base, mine, store))
            return
        }
        if values != store { try table.update(db, id, values) }
        written[item.key] = values
    }

    /// The edits between `base` and `mine`, made on another start.
    private static func onTop(
        of start: [DatabaseValue],
        _ mine: [DatabaseValue],
        changedSince base: [DatabaseValue]
    ) -> [DatabaseValue] {
        guard start != base else { return mine }
        return start.indices.map { mine[$0] != base[$0] ? mine[$0] : start[$0] }
    }

    private mutating func delete(_ item: SavePlan.Item, _ table: TableForm, _ base: [DatabaseValue]?) throws {
        guard let store = try table.row(db, item.key.id) else { return }
        if let base, store != base, saved[item.key] != store {
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
            return Dictionary(zip(table.columns.map(\.name), row.map(\.description))) { $1 }
        }
        return MergeConflict(
            object: ObjectID(store: file.id, entity: table.name, name: RecordName(item.key.id)),
            base: named(base),
            memory: named(memory),
            store: named(store)
        )
    }
}
