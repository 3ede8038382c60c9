import GRDB

/// Moving objects from one store to another.
///
/// SDK reference 1, "Selective sync, object level".
extension MirroredContainer {
    /// Copies an object into another store and deletes it in its own, in two commits.
    ///
    /// The copy has a name of its own, so that nothing of the record it had goes along. Links of the object and to it are
    /// not taken over: they cannot lead out of a store.
    ///
    /// - Parameters:
    ///   - object: A saved object.
    ///   - store: Where it is to be.
    /// - Returns: The object as it is in the other store.
    /// - Throws: `unknownStore`, `permissionFailure` where the user may not delete it, and what SQLite throws; then it is where
    ///   it was.
    @discardableResult
    public func move<T: SyncedRecord>(_ object: T, to store: StoreID) throws(MirrorError) -> T {
        guard let file = stores.file(store), let table = file.mapping.tables[T.entityName] else {
            throw MirrorError(.unknownStore, "\(store) holds no \(T.entityName).")
        }
        let context = newBackgroundContext(named: "move")
        guard context.isHere(object.id.origin) else {
            throw .unavailable(MirrorContext.Key(entity: T.entityName, id: object.id.text))
        }
        var row = try context.row(of: object)
        for position in table.links { row[position] = .null }
        let name = RecordName()
        let copy = try context.decode(T.self, name.text, row, nil, [:])
        try context.insert(copy)
        try context.assign(copy, to: store)
        try context.save()
        do {
            try context.delete(T.self, id: RecordName(object.id.text))
            try context.save()
        } catch {
            // It stays where it is, and there alone.
            context.rollback()
            try context.delete(T.self, id: name)
            try context.save()
            throw error
        }
        return try context.object(T.self, name) ?? copy
    }
}
