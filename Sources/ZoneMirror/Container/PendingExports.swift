import GRDB
import ZoneKit

/// The changes that were not sent yet.
extension MirroredContainer {
    /// The changes of a store that wait to be sent, oldest first.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - states: Only those of objects in these states; left out, all.
    /// - Returns: The objects.
    /// - Throws: `unknownStore`, and what SQLite throws.
    public func pendingExports(
        _ store: StoreID,
        in states: Set<SyncState>? = nil
    ) async throws(MirrorError) -> [ObjectID] {
        let all = try await reading(store) { db in
            try OutboxRow.all(db).map { ObjectID(store: store, entity: $0.entity, name: RecordName($0.oid)) }
        }
        guard let states else { return all }
        var found: [ObjectID] = []
        for object in all where states.contains(try await syncState(of: object)) { found.append(object) }
        return found
    }

    /// Drops an object's change that was not sent: the object goes back to what the relay had last.
    ///
    /// One that the relay does not have goes; where there is no such change, nothing is done. One that was deleted comes back
    /// with the links that the relay has and that went with it, of other objects too.
    ///
    /// - Throws: `objectUnavailable` where the change is another user's who shares the file, and what SQLite throws.
    public func dropPendingExport(of object: ObjectID) async throws(MirrorError) {
        guard let store = object.store, let file = stores.file(store) else { return }
        let now = conditions.wallClock()
        try await writing(store) { db in
            guard let table = file.mapping.tables[object.entity] else { return }
            if try OutboxRow.isOfAnother(db, object.name.text) {
                throw MirrorError(.objectUnavailable, "This change is another user's, who can drop it when signed in.")
            }
            guard let pending = try OutboxRow.find(db, object.name.text) else { return }
            try OutboxRow.drop(db, object.name.text)
            try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                let importer = try Importer(db, file, transaction: transaction, now: now)
                let current = try table.row(db, object.name.text)
                try importer.revert(object.name.text, table, current)
                if current == nil { try importer.linkAgain(object.name.text, table, deletion: pending.version) }
            }
        }
    }
}
