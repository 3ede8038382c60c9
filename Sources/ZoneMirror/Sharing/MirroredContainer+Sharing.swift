import Foundation
import GRDB
import Records
import Synchronization
import Wire
public import ZoneKit

/// Sharing objects: each share has a zone of its own, to which all linked objects move.
///
/// See SharingRules.md, "What is shared".
extension MirroredContainer {
    /// Shares objects of the private store with all objects they are linked to.
    ///
    /// Returns when the relay has the share; objects keep their identities. The default title is the first object's
    /// display attribute, or the name of its entity.
    ///
    /// - Parameters:
    ///   - objects: The objects to share.
    ///   - share: A share of this user to add them to. The default is a new one.
    ///   - title: The name that participants see.
    ///   - publicPermission: The permission of anybody who has the link.
    ///   - limit: The maximum number of objects to move.
    /// - Returns: All objects that are now in the share, the share as the relay has it, and its container.
    /// - Throws: `alreadyShared`, `wrongStore`, `tooManyObjects`, or `relay`. After a `relay` error nothing is lost,
    ///   and the next round continues.
    public func share(
        _ objects: [ObjectID],
        to share: CKShare? = nil,
        title: String? = nil,
        publicPermission: CKShare.ParticipantPermission = .none,
        limit: Int = 10_000
    ) async throws(MirrorError) -> (objects: [ObjectID], share: CKShare, container: CKContainer) {
        let (file, sync) = try privateStore(of: objects)
        let (closure, name, begun) = try await reading(file.id) { db in
            let closure = try ShareClosure(db: db, file: file).objects(from: objects)
            let name = try objects.first.map { try Self.displayName(of: $0, db, file) }
            return (closure, name, try Self.interruptedZone(of: closure, db, file))
        }
        let zone =
            share?.recordID.zoneID.zone ?? begun ?? ZoneID("com.apple.coredata.cloudkit.share.\(UUID().uuidString)")
        guard closure.count <= limit else {
            throw MirrorError(
                .tooManyObjects(closure.count),
                "Sharing would include \(closure.count) related objects, more than \(limit). Raise the limit, or exclude relationships with stopsSharing."
            )
        }
        try await refuseShared(closure, in: file, but: zone)
        do {
            // Checked before anything is changed, because a user who is not signed in cannot share.
            try await sync.checkAccount()
            try await sync.rebind(closure, to: zone)
            try await sync.sendNow(concerning: closure)
            if let share { return (closure, share, sync.container) }
            let new = CKShare(recordZoneID: CKRecordZone.ID(zone))
            new.title = title ?? name ?? ""
            new.publicPermission = publicPermission
            return (closure, try await sync.save(new), sync.container)
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func privateStore(of objects: [ObjectID]) throws(MirrorError) -> (StoreFile, MirrorSync) {
        let homes = Set(objects.compactMap(\.store))
        guard homes.count == 1, let home = homes.first, let file = stores.file(home), file.scope == .private,
            let sync = sync(home)
        else {
            throw MirrorError(.wrongStore, "Only saved objects of one private, mirrored store can be shared.")
        }
        return (file, sync)
    }

    /// Returns the zone of a sharing that was interrupted, so that it continues there.
    private static func interruptedZone(
        of objects: [ObjectID],
        _ db: Database,
        _ file: StoreFile
    ) throws -> ZoneID? {
        for object in objects {
            guard let known = try KnownRecord.find(db, oid: object.name.text),
                let zone = try KnownZone.find(db, id: known.zone)?.zone, zone != file.homeZone
            else { continue }
            if try ShareCache(db: db, file: file).entry(of: known) == nil { return zone }
        }
        return nil
    }

    private func refuseShared(
        _ closure: [ObjectID],
        in file: StoreFile,
        but zone: ZoneID
    ) async throws(MirrorError) {
        let shared = try await reading(file.id) { db in
            try closure.filter { object in
                guard let known = try KnownRecord.find(db, oid: object.name.text),
                    let home = try KnownZone.find(db, id: known.zone)?.zone
                else { return false }
                return home != file.homeZone && home != zone
            }
        }
        if !shared.isEmpty {
            throw MirrorError(
                .alreadyShared(shared),
                "\(shared.map(\.description).joined(separator: ", ")): already shared. Stop that share first."
            )
        }
    }

    private static func displayName(of object: ObjectID, _ db: Database, _ file: StoreFile) throws -> String {
        guard let table = file.mapping.tables[object.entity], let name = table.entity?.displayAttribute,
            let position = table.index[name], let row = try table.row(db, object.name.text),
            let text = String.fromDatabaseValue(row[position]), !text.isEmpty
        else { return object.entity }
        return text
    }

    // MARK: Reading shares

    /// Returns the shares that a store knows, without a request.
    public func fetchShares(in store: StoreID) async throws(MirrorError) -> [CKShare] {
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is not open here.") }
        let (found, user) = try await reading(store) { db in
            (try ShareCache(db: db, file: file).all(), try State.text(db, .account))
        }
        return found.compactMap { self.share($0, file, user) }
    }

    /// Returns the known shares of objects; objects without one are left out.
    public func fetchShares(matching objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: CKShare] {
        var found: [ObjectID: CKShare] = [:]
        for (store, objects) in Dictionary(grouping: objects, by: \.store) {
            guard let store, let file = stores.file(store) else { continue }
            let (entries, user) = try await reading(store) { db in
                let cache = ShareCache(db: db, file: file)
                let entries = try objects.compactMap { object in
                    try KnownRecord.find(db, oid: object.name.text).flatMap { try cache.entry(of: $0) }
                        .map { (object, $0) }
                }
                return (entries, try State.text(db, .account))
            }
            for (object, entry) in entries { found[object] = share(entry, file, user) }
        }
        return found
    }

    private func share(_ entry: ShareCache.Entry, _ file: StoreFile, _ user: String?) -> CKShare? {
        guard let database = file.description.cloud.map({ $0.container.database(with: $0.scope) }),
            let memory = try? database.session.connection().caller
        else { return nil }
        return entry.share(database.scope, memory.named(user))
    }

    /// Returns whether an object is in a share.
    public func isShared(_ object: ObjectID) async throws(MirrorError) -> Bool {
        try await fetchShares(matching: [object])[object] != nil
    }
}

extension MirrorContext {
    /// Puts a new object into a share of the user before its first save.
    ///
    /// - Throws: `wrongStore` for a saved object, and `unknownStore` for a share that no store holds.
    public func assign<T: SyncedRecord>(_ object: T, to share: CKShare) throws(MirrorError) {
        let home = share.recordID.zoneID.zone
        for file in stores.files where file.isMirrored && file.scope != .public {
            let name = share.recordID.recordName
            let found = try read(file) { db -> ShareHome? in
                guard let zone = try KnownZone.find(db, home) else { return nil }
                guard name != CKRecordNameZoneWideShare else { return ShareHome(zone: home) }
                return ShareHome(zone: home, parent: try Hierarchies.root(db, zone: zone.id, share: name))
            }
            guard let found else { continue }
            try assign(object, to: file.id)
            state.withLock { $0.assignedZones[Key(entity: T.entityName, id: object.id.text)] = found }
            return
        }
        throw MirrorError(.unknownStore, "No store of this container holds the share.")
    }
}
