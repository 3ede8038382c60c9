import GRDB
import Synchronization

/// Moving objects from one store to another.
///
/// See StoresAndModels.md, "Stores".
extension MirroredContainer {
    /// Copies an object to another store and deletes it in its own, in one save.
    ///
    /// The copy has a new name, so that nothing of its record is carried over. It has the object's current values,
    /// including unsaved changes in `object`. Links of and to the object are not copied, because they cannot lead to
    /// another store. Linked objects stay where they are, whatever the delete rules are.
    ///
    /// - Parameters:
    ///   - object: A saved object.
    ///   - store: The target store.
    /// - Returns: The object in the other store.
    /// - Throws: `unknownStore`, `permissionFailure` if the user may not delete it, `mergeConflict` if it was changed
    ///   at the same time, and SQLite's errors. The object then stays where it was.
    @discardableResult
    public func move<T: SyncedRecord>(_ object: T, to store: StoreID) throws(MirrorError) -> T {
        guard let file = stores.file(store), let table = file.mapping.tables[T.entityName] else {
            throw MirrorError(.unknownStore, "\(store) holds no \(T.entityName).")
        }
        let context = newBackgroundContext(named: "move")
        guard context.isHere(object.id.origin) else {
            throw .unavailable(MirrorContext.Key(entity: T.entityName, id: object.id.text))
        }
        let id = object.id
        let requested = try context.row(of: object)
        guard var current = try context.object(T.self, id) else {
            throw .unavailable(MirrorContext.Key(entity: T.entityName, id: id.text))
        }
        var row = try context.row(of: current)
        if let read = object.id.origin?.row { row = row.edited(as: requested, since: read) }
        for position in table.links { row[position] = .null }
        if try context.saveWithoutCascadingLinks(current) { current = try context.object(T.self, id) ?? current }
        let copy = try context.decode(T.self, RecordName().text, row, nil, [:])
        try context.insert(copy)
        try context.assign(copy, to: store)
        try context.clearInverseLinks(of: current)
        try context.delete(current)
        try context.save()
        return try context.object(T.self, RecordName(copy.id.text)) ?? copy
    }
}

extension MirrorContext {
    /// Saves an object without the links whose targets its deletion would delete; returns `false` if it has none.
    fileprivate func saveWithoutCascadingLinks<T: SyncedRecord>(_ object: T) throws(MirrorError) -> Bool {
        guard let (file, entity) = try home(of: object), let table = file.mapping.tables[T.entityName],
            Permissions.canDelete(object.id.text, in: file, stores.account)
        else { return false }
        let key = Key(entity: T.entityName, id: object.id.text)
        let columns = entity.relationships.filter { !$0.isToMany && $0.deleteRule == .cascade }
            .compactMap { table.index[$0.name] }
        let base = try row(of: object)
        guard columns.contains(where: { !base[$0].isNull }) else { return false }
        var row = base
        for column in columns { row[column] = .null }
        let files = stores.paths
        state.withLock { $0.touch(key, .update(base: base), file.id, row, files) }
        try save()
        return true
    }

    /// Clears the links to an object from objects that its deletion would delete.
    fileprivate func clearInverseLinks<T: SyncedRecord>(of object: T) throws(MirrorError) {
        guard let (file, entity) = try home(of: object) else { return }
        let (id, files) = (object.id.text, stores.paths)
        for relationship in entity.relationships where relationship.isToMany && relationship.deleteRule == .cascade {
            guard let other = file.mapping.tables[relationship.destination],
                let column = relationship.inverse.flatMap({ other.index[$0] })
            else { continue }
            let sql = "SELECT id FROM \(other.name.quoted) WHERE \(other.columns[column].name.quoted) = ?"
            let rows = try read(file) { db in
                try String.fetchAll(db, sql: sql, arguments: [id]).map { ($0, try other.row(db, $0)) }
            }
            for case (let name, let base?) in rows {
                var row = base
                row[column] = .null
                let key = Key(entity: other.name, id: name)
                state.withLock { $0.touch(key, .update(base: base), file.id, row, files) }
            }
        }
    }

    private func home<T: SyncedRecord>(of object: T) throws(MirrorError) -> (StoreFile, Entity)? {
        guard let store = try store(of: object), let file = stores.file(store),
            let entity = stores.model.entities[T.entityName]
        else { return nil }
        return (file, entity)
    }
}

extension Permissions {
    /// Returns whether a store lets the user delete an object.
    fileprivate static func canDelete(_ oid: String, in file: StoreFile, _ account: Account) -> Bool {
        guard file.isMirrored, file.description.unpermittedWrites == .reject else { return true }
        let permissions = Permissions(file: file, account: account)
        return (try? file.pool.read { try permissions.canDelete($0, oid: oid) }) ?? false
    }
}
