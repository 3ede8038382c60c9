import GRDB
import Records
import Synchronization

/// Reads objects and collects changes until `save()` writes all of them or none.
///
/// Contexts may be used from any task; each call is atomic. Reads see the file's current state, or the state to which
/// the context is pinned, with the context's own changes applied. No call waits for the network.
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
        /// The order in which the objects were first changed.
        var place: Int
        /// The files of the stores when the change was made; it is not written to another user's file.
        var files: [StoreID: String]

        /// Returns whether it may be a change of the object in a store; `nil` means any store.
        func isIn(_ home: StoreID?) -> Bool { store == nil || home == nil || store == home }
    }

    struct Key: Hashable, Sendable {
        var entity: String
        var id: String
    }

    struct State: Sendable {
        var pending: [Key: Pending] = [:]
        var nextPlace = 0
        /// The rows that this context wrote last, so that changes based on them are no conflicts.
        var saved = SavedRows()
        var assigned: [Key: StoreID] = [:]
        /// New objects that are assigned to a share's zone.
        var assignedZones: [Key: ShareHome] = [:]
        var pin = Pin.none
        var mergePolicy = MergePolicy.error
        var merges = false
        var author: String?
    }

    /// The zone and parent of a new object in a share.
    struct ShareHome: Sendable {
        var zone: ZoneID
        /// The root of a share that is not a whole zone.
        var parent: String?
    }

    let stores: OpenStores
    /// The context's name in the history.
    public let name: String?
    let state = Mutex(State())
    /// The parent context; `nil` for a context on the files.
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

    /// What a save does if a row has changed since this context read it.
    ///
    /// With `error`, a context that merges incoming changes refuses to save objects that changed elsewhere; an event
    /// warns about it.
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
            "The context \(name ?? "without a name") merges imports and has the merge policy error, so saves of objects that others have changed fail."
        )
    }

    /// The author of this context's changes in the history.
    public var transactionAuthor: String? {
        get { state.withLock(\.author) }
        set { state.withLock { $0.author = newValue } }
    }

    /// Whether a pinned context advances when something is imported or another context saves.
    ///
    /// This applies to commits of any context of the container. After each commit, the context shows the newest state,
    /// as after `refreshAll()`, with its unsaved changes applied. A context that is not pinned always does this.
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

    /// Whether there are unsaved changes.
    public var hasChanges: Bool { state.withLock { !$0.pending.isEmpty } }

    // MARK: Changes

    /// Adds a new object.
    ///
    /// It goes to the first writable store that holds its entity, unless it was assigned to another one or is linked
    /// to an object of another store.
    ///
    /// - Throws: `noStoreForEntity`; errors of the object's encoding.
    public func insert<T: SyncedRecord>(_ object: T) throws(MirrorError) {
        let (row, link) = try encoded(object)
        let home = link.flatMap { stores.file($0)?.mapping.tables[T.entityName] == nil ? nil : $0 }
        let key = Key(entity: T.entityName, id: object.id.text)
        let files = stores.paths
        state.withLock { state in
            if let home, state.assigned[key] == nil { state.assigned[key] = home }
            if let pending = state.pending[key], case .delete(let base?) = pending.change {
                // Deleted and inserted again before a save: the same object with other values.
                state.touch(key, .update(base: base), pending.store, row, pending.files)
            } else {
                state.touch(key, .insert, nil, row, files)
            }
        }
    }

    /// Updates an object with those values that differ from the ones read.
    ///
    /// - Throws: `objectUnavailable` if the object does not exist, `wrongStore` if the context has changes of another
    ///   store's object with this name, and errors of the object's encoding.
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
    /// - Throws: `objectUnavailable` if the object does not exist; errors of the object's encoding.
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
    /// - Throws: `wrongStore` if the context has changes of another store's object with this name.
    public func delete<T: SyncedRecord>(_ object: T) throws(MirrorError) {
        try delete(T.self, object.id, base: object.id.origin)
    }

    /// Deletes an object at the next save.
    ///
    /// - Throws: `objectUnavailable` if the object does not exist.
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

    /// Chooses the store of a new object, before its first save.
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
            throw MirrorError(.wrongStore, "Only a new object can be assigned. Use move(_:to:) for a saved object.")
        }
    }

    /// Discards all changes since the last save.
    public func rollback() {
        state.withLock { state in
            state.pending = [:]
            state.assigned = [:]
            state.assignedZones = [:]
        }
    }

    /// Discards the changes for a store's former file, after another user's file has replaced it.
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

    /// Discards all changes and what the context remembers of its reads.
    public func reset() {
        rollback()
        state.withLock { state in
            state.saved = SavedRows()
            state.pin.advance()
        }
    }

    // MARK: Single objects

    /// Returns an object by its name, with this context's changes.
    ///
    /// - Returns: `nil` if it does not exist or this context has deleted it.
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

    /// Returns the object that a link points to.
    public func object<T: SyncedRecord>(_ link: ToOne<T>) throws(MirrorError) -> T? {
        guard let target = link.target else { return nil }
        return try object(T.self, target)
    }

    /// Returns the store that holds an object; `nil` if it is not saved.
    public func store<T: SyncedRecord>(of object: T) throws(MirrorError) -> StoreID? {
        let key = Key(entity: T.entityName, id: object.id.text)
        if let pending = overlay(key), pending.isIn(home(of: object.id)) { return pending.store }
        return try locate(key, object.id.origin, home(of: object.id))?.0
    }

    /// Returns the object's ID for calls about its record.
    public func objectID<T: SyncedRecord>(of object: T) throws(MirrorError) -> ObjectID {
        ObjectID(store: try store(of: object), entity: T.entityName, name: RecordName(object.id.text))
    }

    /// Returns where an object was read; for an object that was not read, where it is.
    private func locate(_ key: Key, _ origin: Origin?, _ home: StoreID?) throws(MirrorError) -> Found? {
        if let origin, let row = origin.row { return (origin.store, row, origin.files) }
        return try find(key, home)
    }

    /// Returns the store of an object whose name was read in this container.
    func home(of id: RecordName) -> StoreID? {
        id.origin.flatMap { stores.paths[$0.store] == nil ? nil : $0.store }
    }

    /// Throws if the context has changes of another store's object with this name: it can hold one of them only until
    /// the save.
    private func checkStore(of key: Key, _ home: StoreID?) throws(MirrorError) {
        guard let pending = overlay(key), !pending.isIn(home) else { return }
        throw MirrorError(
            .wrongStore,
            "The \(key.entity) \(key.id) of another store has unsaved changes in this context. Save them first, or use another context."
        )
    }

    /// Returns whether the file that an object was read from is still open.
    func isHere(_ origin: Origin?) -> Bool {
        guard let origin, let file = origin.files[origin.store] else { return true }
        return stores.paths[origin.store] == file
    }

    /// A row, its store, and the files of the stores at that time.
    typealias Found = (store: StoreID?, row: [DatabaseValue], files: [StoreID: String])

    /// Returns the row of an object as this context sees it, without its own changes; without a store if it is new in
    /// a parent context.
    ///
    /// `home` is the object's store if known; another store may have an object with this name too.
    func find(_ key: Key, _ home: StoreID? = nil) throws(MirrorError) -> Found? {
        if let below = parent?.overlay(key), below.isIn(home) {
            if case .delete = below.change { return nil }
            return (below.store, below.row, below.files)
        }
        // Read before the row, so that a file opened in between is recognized as another one.
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
            "There is no \(key.entity) \(key.id) any more: it was deleted, or the user lost access to it."
        )
    }
}
