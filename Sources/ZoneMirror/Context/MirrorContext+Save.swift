import Foundation
import GRDB
import Records
import Synchronization
import ZoneKit

extension MirrorContext {
    /// Writes all changes of this context, in one transaction for each store; or none if there is an error.
    ///
    /// Only a disk failure at the very end of a transaction can leave some stores with their changes and others
    /// without; changes that were written are then no longer pending in the context. Returns after the commit, without
    /// waiting for the relay. A pinned context advances. A child context adds its changes to its parent instead.
    ///
    /// - Throws: `mergeConflict` under the policy `error`, `permissionFailure`, `invalidName`,
    ///   `crossStoreRelationship`, `noStoreForEntity`, `objectUnavailable` for a change that was made while another
    ///   user was signed in, and SQLite's errors.
    public func save() throws(MirrorError) {
        if let parent {
            let changes = state.withLock { state in
                defer { (state.pending, state.assigned, state.assignedZones) = ([:], [:], [:]) }
                return state
            }
            return parent.absorb(changes)
        }
        let (pending, policy, author, saved) = state.withLock {
            ($0.pending, $0.mergePolicy, $0.author, $0.saved)
        }
        guard !pending.isEmpty else { return }
        var plan = try SavePlan(pending, self)
        try plan.checkNames(stores)
        try plan.checkPermissions(stores)
        plan.sort(as: stores.files.map(\.id))
        let options = SaveOptions(policy: policy, author: author, saved: saved, zones: plan.zones, date: stores.now)
        do {
            try write(plan.byStore[...], options)
        } catch {
            throw MirrorError(from: error)
        }
        state.withLock { $0.pin.advance() }
    }

    /// Writes to one store and, before it is committed, to those that follow.
    ///
    /// So an error in any store rolls back all of them. All saves lock the stores in the same order, which prevents
    /// deadlocks.
    private func write(_ parts: ArraySlice<(StoreID, [SavePlan.Item])>, _ options: SaveOptions) throws {
        guard let (store, items) = parts.first else { return }
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is closed.") }
        // Checked on the file that is written, because accounts may switch at any time.
        for item in items {
            if let path = item.pending.files[store], path != file.path { throw MirrorError.unavailable(item.key) }
        }
        let crash = stores.conditions.crashPoint
        let rows = try file.pool.write { db in
            var writer = try SaveWriter(db, file, policy: options.policy, saved: options.saved, now: options.date)
            let rows = try writer.write(items, author: options.author, context: name, zones: options.zones)
            try crash(.insideSave)
            try write(parts.dropFirst(), options)
            return rows
        }
        state.withLock { state in
            for item in items {
                let (key, written) = (item.key, item.pending)
                guard state.pending[key]?.place == written.place, state.pending[key]?.row == written.row else {
                    continue
                }
                state.pending[key] = nil
                state.assigned[key] = nil
                state.assignedZones[key] = nil
            }
            state.saved.merge(rows)
        }
        try crash(.afterSave)
    }
}

/// The settings that apply to all stores of one save.
private struct SaveOptions {
    var policy: MergePolicy
    var author: String?
    var saved: SavedRows
    var zones: [MirrorContext.Key: MirrorContext.ShareAssignment]
    var date: Date
}

/// Assigns the changes to stores before anything is written.
struct SavePlan {
    struct Item {
        var key: MirrorContext.Key
        var pending: MirrorContext.Pending

        var isDeletion: Bool { if case .delete = pending.change { true } else { false } }
    }

    private(set) var byStore: [(StoreID, [Item])] = []
    /// The share zones of new objects that were assigned to a share.
    private(set) var zones: [MirrorContext.Key: MirrorContext.ShareAssignment] = [:]

    init(_ pending: [MirrorContext.Key: MirrorContext.Pending], _ context: MirrorContext) throws(MirrorError) {
        let stores = context.stores
        let (assigned, assignedZones) = context.state.withLock { ($0.assigned, $0.assignedZones) }
        zones = assignedZones
        var homes: [MirrorContext.Key: StoreID] = [:]
        let items = pending.sorted { $0.value.place < $1.value.place }
        for (key, item) in items { homes[key] = item.store ?? assigned[key] }
        // A new object goes to the store of the objects it is linked to, which may be new too.
        for _ in 0..<(stores.files.count > 1 ? 4 : 0) {
            for (key, item) in items where homes[key] == nil {
                homes[key] = try Self.homeByLinks(key, item, homes, pending, context)
            }
            // A new object also goes to the store of objects that link to it.
            for (key, item) in items {
                guard let home = homes[key] else { continue }
                for target in Self.targets(key, item, stores)
                where homes[target] == nil && stores.file(home)?.mapping.tables[target.entity] != nil {
                    if case .insert? = pending[target]?.change { homes[target] = home }
                }
            }
        }
        var groups: [StoreID: [Item]] = [:]
        var order: [StoreID] = []
        for (key, item) in items {
            let home = if let chosen = homes[key] { chosen } else { try stores.firstWritable(key.entity) }
            guard let file = stores.file(home) else {
                throw MirrorError(.noStoreForEntity, "\(home), where \(key.entity) \(key.id) goes, is not open.")
            }
            if file.description.isReadOnly { throw MirrorError(.noStoreForEntity, "\(home) is read-only.") }
            if groups[home] == nil { order.append(home) }
            groups[home, default: []].append(Item(key: key, pending: item))
            homes[key] = home
        }
        for (key, item) in items { try Self.checkLinks(key, item, homes, isAssigned: assigned[key] != nil, context) }
        byStore = order.map { ($0, groups[$0] ?? []) }
    }

    /// Sorts the stores into the order that all saves use.
    mutating func sort(as order: [StoreID]) {
        let places = Dictionary(order.enumerated().map { ($1, $0) }) { first, _ in first }
        byStore.sort { places[$0.0, default: .max] < places[$1.0, default: .max] }
    }

    /// Returns the targets of a row's links as keys.
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
        _ pending: [MirrorContext.Key: MirrorContext.Pending],
        _ context: MirrorContext
    ) throws(MirrorError) -> StoreID? {
        for target in targets(key, item, context.stores) {
            if let home = homes[target], context.stores.file(home)?.mapping.tables[key.entity] != nil { return home }
            // A new target is not the object that some store has under this name.
            if case .insert? = pending[target]?.change { continue }
            for file in context.stores.files(holding: target.entity) {
                guard let table = file.mapping.tables[target.entity], file.mapping.tables[key.entity] != nil else {
                    continue
                }
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
        isAssigned: Bool,
        _ context: MirrorContext
    ) throws(MirrorError) {
        if case .delete = item.change { return }
        // Only with more than one store can a link lead to another store.
        guard context.stores.files.count > 1 else { return }
        for target in targets(key, item, context.stores) {
            var home = homes[target]
            if home == nil { home = try context.find(target)?.0 }
            if home == nil, !isAssigned, case .insert = item.change { try checkAccess(to: target, homes[key], context) }
            // Another store may also have an object with this name.
            if let home, home != homes[key], try context.find(target, homes[key]) == nil {
                throw MirrorError(
                    .crossStoreRelationship,
                    "\(key.entity) \(key.id) and \(target.entity) \(target.id) are in different stores. Store the record name instead of a relationship."
                )
            }
        }
    }

    /// Throws if a new object is linked to an object of a shared store that is no longer there.
    ///
    /// The new object belongs in that store. In another one, it would wait for a target that never arrives.
    private static func checkAccess(
        to target: MirrorContext.Key,
        _ home: StoreID?,
        _ context: MirrorContext
    ) throws(MirrorError) {
        for file in context.stores.files(holding: target.entity) where file.scope == .shared && file.id != home {
            let isGone: Bool
            do {
                isGone = try file.pool.read { db in
                    let sql = "SELECT EXISTS (SELECT 1 FROM mirror_change WHERE oid = ? AND entity = ? AND kind = 3)"
                    return try Bool.fetchOne(db, sql: sql, arguments: [target.id, target.entity]) ?? false
                }
            } catch {
                throw MirrorError(from: error)
            }
            if isGone { throw .unavailable(target) }
        }
    }

    /// Throws for new objects of mirrored stores whose names cannot be record names.
    func checkNames(_ stores: OpenStores) throws(MirrorError) {
        for (store, items) in byStore where stores.file(store)?.isMirrored == true {
            let wrong = items.filter { item in
                guard case .insert = item.pending.change else { return false }
                return !NameRules.isRecordName(item.key.id) || item.key.id == Share.zoneWideName
            }
            guard let first = wrong.first?.key else { continue }
            throw MirrorError(
                .invalidName(wrong.map { ObjectID(store: nil, entity: $0.key.entity, name: RecordName($0.key.id)) }),
                """
                The \(first.entity) "\(first.id)" cannot be saved: in a mirrored store an object's name has 1 to 255 printable \
                ASCII characters and is not \(Share.zoneWideName). Give it another name, such as RecordName().
                """
            )
        }
    }

    /// Throws for changes that the relay would refuse, if the store is configured so.
    mutating func checkPermissions(_ stores: OpenStores) throws(MirrorError) {
        for (store, items) in byStore {
            // The user's own database accepts all changes; whether the store is writable was checked before.
            guard let file = stores.file(store), file.isMirrored, file.scope != .private,
                file.description.unpermittedWrites == .reject
            else { continue }
            let permissions = Permissions(file: file, account: stores.account)
            let refused: [ObjectID]
            do {
                refused = try file.pool.read { db in
                    try items.filter { item in
                        switch item.pending.change {
                        case .insert: try !permissions.canInsert(db, entity: item.key.entity)
                        case .update: try !permissions.canUpdate(db, oid: item.key.id)
                        case .delete: try !permissions.canDelete(db, oid: item.key.id)
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

/// Hashes of a row that a context wrote, by which the row is recognized.
///
/// Hashes instead of values, because values may be large and a context may exist as long as its program.
private struct SavedRow: Sendable {
    let hashes: [Int]

    init(_ row: [DatabaseValue]) { hashes = row.map(Self.hash) }

    static func hash(_ value: DatabaseValue) -> Int {
        var hasher = Hasher()
        // `Data` by itself hashes only its first bytes.
        if case .blob(let data) = value.storage {
            data.withUnsafeBytes { hasher.combine(bytes: $0) }
        } else {
            hasher.combine(value)
        }
        return hasher.finalize()
    }
}

/// The rows that a context's saves have written, so that its own changes are no conflicts.
struct SavedRows: Sendable {
    private var rows: [MirrorContext.Key: SavedRow] = [:]
    /// Links that were changed as an effect of saves, by delete rules and one-to-one links, by column.
    private var sideEffects: [MirrorContext.Key: [Int: DatabaseValue]] = [:]

    /// Stores that a row was written.
    mutating func note(_ key: MirrorContext.Key, _ row: [DatabaseValue]) {
        rows[key] = SavedRow(row)
        sideEffects[key] = nil
    }

    /// Stores that some values of a row were changed as an effect of a save.
    mutating func noteSideEffects(_ key: MirrorContext.Key, _ row: [DatabaseValue], _ positions: [Int]) {
        for position in positions where rows[key].map({ $0.hashes[position] != SavedRow.hash(row[position]) }) ?? true {
            sideEffects[key, default: [:]][position] = row[position]
        }
    }

    mutating func forget(_ key: MirrorContext.Key) {
        rows[key] = nil
        sideEffects[key] = nil
    }

    mutating func merge(_ newer: SavedRows) {
        for (key, row) in newer.rows {
            rows[key] = row
            sideEffects[key] = nil
        }
        for (key, values) in newer.sideEffects { sideEffects[key, default: [:]].merge(values) { $1 } }
    }

    /// Returns whether a row is as this context left it.
    func isLast(_ key: MirrorContext.Key, _ row: [DatabaseValue]) -> Bool {
        guard let hashes = rows[key]?.hashes, hashes.count == row.count else { return false }
        let links = sideEffects[key] ?? [:]
        return hashes.indices.allSatisfy { position in
            links[position].map { $0 == row[position] } ?? (hashes[position] == SavedRow.hash(row[position]))
        }
    }

    /// Returns the row that an object was read from, with the links that saves have changed since, unless others
    /// changed them.
    func following(_ base: [DatabaseValue], _ key: MirrorContext.Key, _ row: [DatabaseValue]) -> [DatabaseValue] {
        guard let links = sideEffects[key], base.count == row.count else { return base }
        return base.indices.map { links[$0] == row[$0] ? row[$0] : base[$0] }
    }

    /// Returns the values of `row` with the changes in `edited` since its object was written.
    func edits(_ key: MirrorContext.Key, of edited: [DatabaseValue], over row: [DatabaseValue]) -> [DatabaseValue] {
        guard let hashes = rows[key]?.hashes, hashes.count == edited.count, row.count == edited.count else {
            return edited
        }
        return hashes.indices.map { SavedRow.hash(edited[$0]) != hashes[$0] ? edited[$0] : row[$0] }
    }
}
