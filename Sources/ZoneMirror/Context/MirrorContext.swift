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
        var assignedZones: [Key: ShareAssignment] = [:]
        var pin = Pin.none
        var mergePolicy = MergePolicy.error
        var merges = false
        var author: String?
    }

    /// The zone and parent of a new object in a share.
    struct ShareAssignment: Sendable {
        var zone: ZoneID
        /// The root of a share that is not a whole zone.
        var parent: String?
    }

    let stores: OpenStores
    /// The context's name in the history.
    public let name: String?
    let state = Mutex(State())
    /// The parent context; `nil` for a context on the files.
    package let parent: MirrorContext?

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

/// Many-to-many links, and one-to-many links from the to-many side.
extension MirrorContext {
    /// Links two objects; does nothing if they are linked already.
    ///
    /// - Throws: `unknownProperty` for a relationship without an inverse.
    public func link<T: SyncedRecord, Target: SyncedRecord>(
        _ object: T,
        _ path: KeyPath<T, ToMany<Target>>,
        _ other: Target
    ) throws(MirrorError) {
        let end = try end(path)
        guard let pair = end.pair else { return try point(Target.self, other.id, end.inverseLink, to: object.id.text) }
        let key = Self.key(pair, end.name, T.entityName, object.id.text, other.id.text)
        let row = Self.row(pair, end.name, T.entityName, object.id.text, other.id.text)
        let home = home(of: object.id) ?? home(of: other.id)
        if try find(key, home) != nil {
            return state.withLock { $0.pending[key] = nil }
        }
        // A link row of another program counts, unless a parent context is about to delete it.
        let others = try linked(pair, row, home).map { Key(entity: pair.tableName, id: $0.1) }.filter { other in
            if case .delete? = parent?.overlay(other)?.change { false } else { true }
        }
        let files = stores.paths
        state.withLock { state in
            for other in others { state.pending[other] = nil }
            guard others.isEmpty else { return }
            state.touch(key, .insert, nil, row, files)
            if let home { state.assigned[key] = home }
        }
    }

    /// Removes the link between two objects; does nothing if there is none.
    ///
    /// - Throws: `unknownProperty` for a relationship without an inverse.
    public func unlink<T: SyncedRecord, Target: SyncedRecord>(
        _ object: T,
        _ path: KeyPath<T, ToMany<Target>>,
        _ other: Target
    ) throws(MirrorError) {
        let end = try end(path)
        guard let pair = end.pair else {
            guard let position = stores.table(Target.entityName)?.index[end.inverseLink],
                let current = try self.object(Target.self, other.id),
                try row(of: current)[position] == object.id.text.databaseValue
            else { return }
            return try point(Target.self, other.id, end.inverseLink, to: nil)
        }
        let row = Self.row(pair, end.name, T.entityName, object.id.text, other.id.text)
        let own = Self.key(pair, end.name, T.entityName, object.id.text, other.id.text)
        let below = parent?.overlay(own)?.change
        let files = stores.paths
        state.withLock { state in
            if case .insert? = state.pending[own]?.change { state.pending[own] = nil }
            // If the link is new in a parent context, the save removes it there.
            if case .insert? = below { state.touch(own, .delete(base: row), nil, row, files) }
        }
        // Another program may have linked the same objects under another id.
        for (store, id) in try linked(pair, row, home(of: object.id) ?? home(of: other.id)) {
            let key = Key(entity: pair.tableName, id: id)
            state.withLock { $0.touch(key, .delete(base: row), store, row, files) }
        }
    }

    private func end<T: SyncedRecord, Target>(
        _ path: KeyPath<T, ToMany<Target>>
    ) throws(MirrorError) -> (name: String, inverseLink: String, pair: JoinTableLayout?) {
        let name = try PropertyNames.name(of: path)
        guard let relationship = stores.model.entities[T.entityName]?.relationships.first(where: { $0.name == name }),
            let inverseLink = stores.model.inverse(of: relationship)
        else { throw MirrorError(.unknownProperty, "\(T.entityName).\(name) is not a relationship with an inverse.") }
        return (name, inverseLink.name, stores.model.pair(relationship, of: T.entityName))
    }

    /// Sets the column of the to-one side.
    private func point<Target: SyncedRecord>(
        _ type: Target.Type,
        _ id: RecordName,
        _ column: String,
        to other: String?
    ) throws(MirrorError) {
        let key = Key(entity: Target.entityName, id: id.text)
        guard let object = try self.object(type, id), let position = stores.table(Target.entityName)?.index[column]
        else {
            throw .unavailable(key)
        }
        var values = try row(of: object)
        values[position] = other?.databaseValue ?? .null
        let store = try store(of: object)
        try update(try decode(type, id.text, values, store, object.id.origin?.files ?? stores.paths).with(object.id))
    }

    private static func key(
        _ pair: JoinTableLayout,
        _ name: String,
        _ entity: String,
        _ here: String,
        _ there: String
    ) -> Key {
        let names = ends(pair, name, entity, here, there)
        return Key(entity: pair.tableName, id: pair.name(of: names[0], names[1]))
    }

    private static func row(
        _ pair: JoinTableLayout,
        _ name: String,
        _ entity: String,
        _ here: String,
        _ there: String
    ) -> [DatabaseValue] {
        ends(pair, name, entity, here, there).map(\.databaseValue)
    }

    /// Returns the source and the target.
    private static func ends(
        _ pair: JoinTableLayout,
        _ name: String,
        _ entity: String,
        _ here: String,
        _ there: String
    ) -> [String] {
        pair.column(of: name, in: entity) == "source" ? [here, there] : [there, here]
    }

    private func linked(
        _ pair: JoinTableLayout,
        _ row: [DatabaseValue],
        _ home: StoreID?
    ) throws(MirrorError) -> [(StoreID, String)] {
        var found: [(StoreID, String)] = []
        for file in stores.files(holding: pair.tableName) where home == nil || file.id == home {
            let sql = "SELECT id FROM \(pair.tableName.quoted) WHERE source = ? AND target = ?"
            let ids = try read(file) { try String.fetchAll($0, sql: sql, arguments: StatementArguments(row)) }
            found += ids.map { (file.id, $0) }
        }
        return found
    }
}

extension SyncedRecord {
    /// Returns the object with an id that remembers where it was read.
    fileprivate func with(_ id: RecordName) -> Self {
        var copy = self
        copy.id = id
        return copy
    }
}

/// Derives an id of fixed length from a longer text, the same on every device.
enum ShortName {
    static func of(_ text: String) -> String {
        let (first, second) = Fingerprint.pair(of: text.utf8)
        return "h-" + String(first, radix: 36) + "-" + String(second, radix: 36)
    }
}

/// Child contexts, which save to their parent context.
///
/// See ReadingAndHistory.md, "Pinned reads".
extension MirrorContext {
    /// Creates a context that reads what this one sees, including unsaved changes, and whose `save()` adds its changes
    /// to this one.
    ///
    /// Use it for a form that may be cancelled. It is pinned with this context.
    ///
    /// - Parameter name: The context's name. The history records the changes under this context's name.
    /// - Returns: A context without changes.
    public func newChildContext(named name: String? = nil) -> MirrorContext {
        MirrorContext(childOf: self, name: name)
    }

    /// Returns the pending change of an object in this context or, without one, in its parents.
    func overlay(_ key: Key) -> Pending? { state.withLock { $0.pending[key] } ?? parent?.overlay(key) }

    /// Takes over a child's changes: properties that the child changed replace this context's values.
    func absorb(_ child: State) {
        let (files, tables) = (stores.paths, stores.tables)
        state.withLock { state in
            for (key, item) in child.pending.sorted(by: { $0.value.place < $1.value.place }) {
                state.absorb(key, item, tables)
                // A change that either context made while another user's file was open still belongs to that file.
                if item.files != files { state.pending[key]?.files = item.files }
            }
            state.assigned.merge(child.assigned) { $1 }
            state.assignedZones.merge(child.assignedZones) { $1 }
        }
    }
}

extension MirrorContext.State {
    fileprivate mutating func absorb(
        _ key: MirrorContext.Key,
        _ item: MirrorContext.Pending,
        _ tables: [String: TableLayout]
    ) {
        guard let here = pending[key] else {
            return touch(key, item.change, item.store, item.row, item.files)
        }
        switch (here.change, item.change) {
        case (.delete(let base?), .insert): touch(key, .update(base: base), here.store, item.row, here.files)
        case (_, .insert): touch(key, here.change, here.store, item.row, here.files)
        case (.insert, .delete): forget(key, tables)
        case (.update(let base), .delete): touch(key, .delete(base: base), here.store, here.row, here.files)
        case (.delete, .delete), (.delete, .update): break
        case (_, .update(let base)):
            let row = base.count == item.row.count ? here.row.edited(as: item.row, since: base) : item.row
            touch(key, here.change, here.store, row, here.files)
        }
    }
}

extension [DatabaseValue] {
    /// Returns the values with the changes between `base` and `edited` applied.
    func edited(as edited: [DatabaseValue], since base: [DatabaseValue]) -> [DatabaseValue] {
        indices.map { edited[$0] != base[$0] ? edited[$0] : self[$0] }
    }
}
