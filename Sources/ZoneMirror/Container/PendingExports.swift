import GRDB
import ZoneKit

/// Unsent changes.
extension MirroredContainer {
    /// Returns the objects with unsent changes, oldest first.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - states: Only objects in these states. The default is all.
    /// - Returns: The objects.
    /// - Throws: `unknownStore`; SQLite's errors.
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

    /// Drops an object's unsent change: the object returns to the relay's last version.
    ///
    /// An object that the relay does not have is removed; without an unsent change, nothing happens. A deleted object
    /// is restored with the links that the relay has and that were removed with it, including those of other objects.
    ///
    /// - Throws: `objectUnavailable` if the change belongs to another user who shares the file; SQLite's errors.
    public func dropPendingExport(of object: ObjectID) async throws(MirrorError) {
        guard let store = object.store, let file = stores.file(store) else { return }
        let now = conditions.wallClock()
        try await writing(store) { db in
            guard let table = file.mapping.tables[object.entity] else { return }
            if try OutboxRow.isOfAnother(db, object.name.text) {
                throw MirrorError(
                    .objectUnavailable,
                    "This change belongs to another user, who can discard it when signed in."
                )
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
