import GRDB
import Records
import Synchronization

/// A place to read objects and to gather changes, until `save()` writes them all or none.
///
/// Contexts may be used from any task; each call is atomic. Reads see the file as it is, or one moment of it where the
/// context is pinned, with the context's own changes on top. Nothing waits for the network, ever.
public final class MirrorContext: Sendable {
    struct Pending: Sendable {
        enum Change: Sendable {
            case insert
            case update(base: [DatabaseValue])
            case delete(base: [DatabaseValue]?)
        }

        var change: Change
        /// `nil` for a new object whose store is chosen at the save.
        var store: StoreID?
        var row: [DatabaseValue]
        /// In the order of the first touch.
        var place: Int
        /// Which files were behind the stores when the change was made: into others, another user's, it is not written.
        var files: [StoreID: String]

        /// Whether it may be a change of the object that a store has; `nil`: of whichever.
        func isIn(_ home: StoreID?) -> Bool { store == nil || home == nil || store == home }
    }

    struct Key: Hashable, Sendable {
        var entity: String
        var id: String
    }

    struct State: Sendable {
        var pending: [Key: Pending] = [:]
        var nextPlace = 0
        /// What this context wrote last: what follows on that is no conflict.
        var saved = SavedRows()
        var assigned: [Key: StoreID] = [:]
        /// New objects that go into the zone of a share.
        var assignedZones: [Key: ShareHome] = [:]
        var pin = Pin.none
        var mergePolicy = MergePolicy.error
        var merges = false
        var author: String?
    }

    /// Where in a share a new object goes.
    struct ShareHome: Sendable {
        var zone: ZoneID
        /// The root of a share that is no whole zone.
        var parent: String?
    }

    let stores: OpenStores
    /// What the history calls the context.
    public let name: String?
    let state = Mutex(State())
    /// The context whose changes this one's are made on; `nil`: the files'.
    let parent: MirrorContext?

    init(childOf parent: MirrorContext, name: String?) {
        self.stores = parent.stores
        self.parent = parent
        self.name = name
    }

    init(_ stores: OpenStores, name: String?, policy: MergePolicy, merges: Bool) {
        self.stores = stores
        self.name = name
        parent = nil
        state.withLock {
            $0.mergePolicy = policy
            $0.merges = merges
        }
        if merges { stores.setMerging(self, true) }
    }

    /// What happens where a row changed since this context read it.
    ///
    /// With `error` a context that merges what arrives refuses to save whatever changed elsewhere meanwhile; an event warns.
    public var mergePolicy: MergePolicy {
        get { state.withLock(\.mergePolicy) }
        set {
            let isRisky = state.withLock { state in
                state.mergePolicy = newValue
                return newValue == .error && state.merges
            }
            if isRisky { warnOfMerging() }
        }
    }

    private func warnOfMerging() {
        stores.notice(
            "The context \(name ?? "without a name") merges imports and has the policy error: saves of objects that others changed meanwhile fail."
        )
    }

    /// Who the history says made this context's changes.
    public var transactionAuthor: String? {
        get { state.withLock(\.author) }
        set { state.withLock { $0.author = newValue } }
    }

    /// Whether a pinned context moves on when something is imported or another context saves.
    ///
    /// Of any context of the container, and whatever it is pinned to: from each such commit on it shows the newest state, as
    /// after `refreshAll()`. A context that is not pinned always does. Changes that were not saved stay on top.
    public var automaticallyMergesChangesFromParent: Bool {
        get { state.withLock(\.merges) }
        set {
            let policy = state.withLock { state in
                state.merges = newValue
                return state.mergePolicy
            }
            stores.setMerging(self, newValue)
            if newValue, policy == .error { warnOfMerging() }
        }
    }

    /// Whether there is something to save.
    public var hasChanges: Bool { state.withLock { !$0.pending.isEmpty } }

    // MARK: Changes

    /// Adds a new object.
    ///
    /// It goes to the first writable store that holds its entity, unless `assign` said otherwise or it is linked to an
    /// object of another store.
    ///
    /// - Throws: `noStoreForEntity`, and what encoding the object throws.
    public func insert<T: SyncedRecord>(_ object: T) throws(MirrorError) {
        let (row, link) = try encoded(object)
        let home = link.flatMap { stores.file($0)?.mapping.tables[T.entityName] == nil ? nil : $0 }
        let key = Key(entity: T.entityName, id: object.id.text)
        let files = stores.paths
        state.withLock { state in
            if let home, state.assigned[key] == nil { state.assigned[key] = home }
            if let pending = state.pending[key], case .delete(let base?) = pending.change {
                // Deleted and made again before a save: the same object with other values.
                state.touch(key, .update(base: base), pending.store, row, pending.files)
            } else {
                state.touch(key, .insert, nil, row, files)
            }
        }
    }

    /// Writes an object's values: those that differ from what was read.
    ///
    /// - Throws: `objectUnavailable` when there is no such object, `wrongStore` where the context has changes of another
    ///   store's object of that name, and what encoding the object throws.
    public func update<T: SyncedRecord>(_ object: T) throws(MirrorError) {
        let key = Key(entity: T.entityName, id: object.id.text)
        let origin = object.id.origin
        guard isHere(origin) else { throw .unavailable(key) }
        let row = try row(of: object, readFrom: origin?.row)
        try checkStore(of: key, home(of: object.id))
        let isKnown = state.withLock { state in
            guard let pending = state.pending[key] else { return false }
            var values = row
            if case .update(let base) = pending.change { values = state.values(row, key, origin, over: base) }
            state.touch(key, pending.change, pending.store, values, pending.files)
            return true
        }
        if isKnown { return }
        guard let (store, base, files) = try locate(key, origin, home(of: object.id)) else { throw .unavailable(key) }
        state.withLock { state in
            let values = state.values(row, key, origin, over: base)
            state.touch(key, .update(base: base), store, values, files)
        }
    }

    /// Changes an object in place.
    ///
    /// - Throws: `objectUnavailable` when there is no such object, and what encoding the object throws.
    public func edit<T: SyncedRecord>(
        _ type: T.Type,
        _ id: RecordName,
        _ change: (inout T) -> Void
    ) throws(MirrorError) {
        guard var object = try object(type, id) else { throw .unavailable(Key(entity: T.entityName, id: id.text)) }
        change(&object)
        try update(object)
    }

    /// Deletes an object at the next save.
    ///
    /// - Throws: `wrongStore` where the context has changes of another store's object of that name.
    public func delete<T: SyncedRecord>(_ object: T) throws(MirrorError) {
        try delete(T.self, object.id, base: object.id.origin)
    }

    /// Deletes an object at the next save.
    ///
    /// - Throws: `objectUnavailable` when there is no such object.
    public func delete<T: SyncedRecord>(_ type: T.Type, id: RecordName) throws(MirrorError) {
        try delete(type, id, base: nil)
    }

    private func delete<T: SyncedRecord>(_ type: T.Type, _ id: RecordName, base: Origin?) throws(MirrorError) {
        let key = Key(entity: T.entityName, id: id.text)
        guard isHere(base) else { throw .unavailable(key) }
        try checkStore(of: key, home(of: id))
        let tables = stores.tables
        let isDone = state.withLock { state in
            guard let pending = state.pending[key] else { return false }
            switch pending.change {
            case .insert: state.forget(key, tables)
            case .update(let base): state.touch(key, .delete(base: base), pending.store, pending.row, pending.files)
            case .delete: break
            }
            return true
        }
        if isDone { return }
        guard let (store, row, files) = try locate(key, base, home(of: id)) else { throw .unavailable(key) }
        state.withLock { $0.touch(key, .delete(base: row), store, row, files) }
    }

    /// Says in which store a new object is to be; before its first save.
    ///
    /// - Throws: `unknownStore`, and `wrongStore` for an object that has been saved.
    public func assign<T: SyncedRecord>(_ object: T, to store: StoreID) throws(MirrorError) {
        guard let file = stores.file(store), file.mapping.tables[T.entityName] != nil else {
            throw MirrorError(.unknownStore, "\(store) holds no \(T.entityName).")
        }
        let key = Key(entity: T.entityName, id: object.id.text)
        let isNew = state.withLock { state in
            guard case .insert? = state.pending[key]?.change else { return false }
            state.assigned[key] = store
            return true
        }
        if !isNew {
            throw MirrorError(.wrongStore, "Only a new object can be assigned; move(_:to:) moves one that is saved.")
        }
    }

    /// Forgets all changes since the last save.
    public func rollback() {
        state.withLock { state in
            state.pending = [:]
            state.assigned = [:]
            state.assignedZones = [:]
        }
    }

    /// Another user's file is behind a store now: what was to be written into the one before is nobody's change any more.
    func fileReplaced(behind store: StoreID) {
        let path = stores.paths[store]
        state.withLock { state in
            for (key, pending) in state.pending {
                let home = pending.store ?? state.assigned[key] ?? (try? stores.firstWritable(key.entity))
                guard home == store, let file = pending.files[store], file != path else { continue }
                state.pending[key] = nil
                state.assigned[key] = nil
                state.assignedZones[key] = nil
            }
        }
    }

    /// Forgets changes, and what was pinned.
    public func reset() {
        rollback()
        state.withLock { state in
            state.saved = SavedRows()
            state.pin.advance()
        }
    }

    // MARK: Single objects

    /// An object by its name, with the changes of this context.
    ///
    /// - Returns: `nil` where there is none, or this context has deleted it.
    public func object<T: SyncedRecord>(_ type: T.Type, _ id: RecordName) throws(MirrorError) -> T? {
        let key = Key(entity: T.entityName, id: id.text)
        let home = home(of: id)
        if let pending = overlay(key), pending.isIn(home) {
            if case .delete = pending.change { return nil }
            return try decode(type, key.id, pending.row, pending.store, pending.files)
        }
        guard let (store, row, files) = try find(key, home) else { return nil }
        return try decode(type, key.id, row, store, files)
    }

    /// The object at the other end of a link.
    public func object<T: SyncedRecord>(_ link: ToOne<T>) throws(MirrorError) -> T? {
        guard let target = link.target else { return nil }
        return try object(T.self, target)
    }

    /// The store that holds an object; `nil` for one that is not saved.
    public func store<T: SyncedRecord>(of object: T) throws(MirrorError) -> StoreID? {
        let key = Key(entity: T.entityName, id: object.id.text)
        if let pending = overlay(key), pending.isIn(home(of: object.id)) { return pending.store }
        return try locate(key, object.id.origin, home(of: object.id))?.0
    }

    /// Names an object for calls about its record.
    public func objectID<T: SyncedRecord>(of object: T) throws(MirrorError) -> ObjectID {
        ObjectID(store: try store(of: object), entity: T.entityName, name: RecordName(object.id.text))
    }

    /// Where an object was read from; for one that was not, where it is.
    private func locate(_ key: Key, _ origin: Origin?, _ home: StoreID?) throws(MirrorError) -> Found? {
        if let origin, let row = origin.row { return (origin.store, row, origin.files) }
        return try find(key, home)
    }

    /// The store of an object whose name was read in this container.
    func home(of id: RecordName) -> StoreID? {
        id.origin.flatMap { stores.paths[$0.store] == nil ? nil : $0.store }
    }

    /// A context holds changes of one object of a name: of another store's one it knows only after the save.
    private func checkStore(of key: Key, _ home: StoreID?) throws(MirrorError) {
        guard let pending = overlay(key), !pending.isIn(home) else { return }
        throw MirrorError(
            .wrongStore,
            "The \(key.entity) \(key.id) of another store has changes here. Save those first, or use another context."
        )
    }

    /// Whether the file that an object was read from is still the one behind its store.
    func isHere(_ origin: Origin?) -> Bool {
        guard let origin, let file = origin.files[origin.store] else { return true }
        return stores.paths[origin.store] == file
    }

    /// A row, in which store it is, and which files were behind the stores.
    typealias Found = (store: StoreID?, row: [DatabaseValue], files: [StoreID: String])

    /// The row of an object that this context has not changed, as it sees it; without a store where the object is new in a
    /// context below.
    ///
    /// `home`: the store that it is in, where that is known; another one may have an object of that name too.
    func find(_ key: Key, _ home: StoreID? = nil) throws(MirrorError) -> Found? {
        if let below = parent?.overlay(key), below.isIn(home) {
            if case .delete = below.change { return nil }
            return (below.store, below.row, below.files)
        }
        // Before the row: what is put behind the store meanwhile is then taken for another file.
        let files = stores.paths
        for file in stores.files(holding: key.entity) where home == nil || file.id == home {
            guard let table = file.mapping.tables[key.entity] else { continue }
            if let row = try read(file, { try table.row($0, key.id) }) { return (file.id, row, files) }
        }
        return nil
    }
}

extension MirrorError {
    static func unavailable(_ key: MirrorContext.Key) -> MirrorError {
        MirrorError(
            .objectUnavailable,
            "There is no \(key.entity) \(key.id) here any more: it was deleted, or the access to it has ended."
        )
    }
}
