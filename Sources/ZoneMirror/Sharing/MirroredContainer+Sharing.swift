public import Foundation
import GRDB
import Records
import Synchronization
import Wire
public import ZoneKit

/// Sharing: each share has a zone of its own, and everything that hangs together goes along.
///
/// SDK reference 13 to 17.
extension MirroredContainer {
    /// Shares objects of the private store, with all that they are linked to.
    ///
    /// Returns when the relay has the share; objects keep their identities. Without a title the share takes the first
    /// object's display attribute, or its entity's name.
    ///
    /// - Parameters:
    ///   - objects: Where to begin.
    ///   - share: A share of this user's to put them into; left out, a new one.
    ///   - title: What people see as its name.
    ///   - publicPermission: What anybody with the link may do.
    ///   - limit: More objects than this are not moved without being asked for.
    /// - Returns: All objects that are in it now, the share as the relay has it, and its container.
    /// - Throws: `alreadyShared`, `wrongStore`, `tooManyObjects`, `relay`: then nothing is lost, and the next round goes on.
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
                "Sharing takes \(closure.count) objects along, more than \(limit). Raise the limit, or cut links by stopsSharing."
            )
        }
        try await refuseShared(closure, in: file, but: zone)
        do {
            // Before anything is touched: whoever is not signed in cannot share.
            try await sync.checkAccount()
            try await sync.rebind(closure, to: zone)
            try await sync.sendNow()
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

    /// A zone of this user's that a sharing had begun to fill when it was interrupted: it goes on there.
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
                "\(shared.map(\.description).joined(separator: ", ")): shared already. Stop that share first."
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

    // MARK: Looking

    /// The shares that a store knows of; asks nobody.
    public func fetchShares(in store: StoreID) async throws(MirrorError) -> [CKShare] {
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is not open here.") }
        let (found, user) = try await reading(store) { db in
            (try ShareCache(db: db, file: file).all(), try State.text(db, .account))
        }
        return found.compactMap { self.share($0, file, user) }
    }

    /// The shares that objects are in; objects without a known share are left out.
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

    /// Whether an object is in a share.
    public func isShared(_ object: ObjectID) async throws(MirrorError) -> Bool {
        try await fetchShares(matching: [object])[object] != nil
    }

    // MARK: Joining and managing

    /// People to invite, by e-mail address, telephone number or user record.
    ///
    /// Whom the relay does not know can be invited all the same: they are bound when they first sign in by that address.
    ///
    /// - Parameters:
    ///   - infos: By what to look for them.
    ///   - store: A store of the container whose users they are.
    /// - Returns: For each a participant to add to a share.
    /// - Throws: `wrongStore`, and `relay`.
    public func fetchParticipants(
        matching infos: [CKUserIdentity.LookupInfo],
        into store: StoreID
    ) async throws(MirrorError) -> [CKShare.Participant] {
        let cloud = try cloud(of: store)
        do {
            let found = try await cloud.container.shareParticipants(for: infos)
            return try infos.compactMap { try found[$0]?.get() }
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Says what a link leads to, without joining.
    public func fetchShareMetadata(_ url: URL, from store: StoreID) async throws(MirrorError) -> CKShare.Metadata {
        let cloud = try cloud(of: store)
        do {
            return try await cloud.container.shareMetadata(for: url)
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func cloud(of store: StoreID) throws(MirrorError) -> CloudOptions {
        guard let cloud = stores.file(store)?.description.cloud else {
            throw MirrorError(.wrongStore, "The store mirrors no database.")
        }
        return cloud
    }

    /// Joins shares by their links; see `acceptShareInvitations(from:into:)` with metadata.
    public func acceptShareInvitations(from urls: [URL], into store: StoreID) async throws(MirrorError) {
        let sync = try sharedStore(store)
        var invitations: [CKShare.Metadata] = []
        for url in urls { invitations.append(try await fetchShareMetadata(url, from: store)) }
        try await accept(invitations, by: sync)
    }

    /// Joins shares; returns when their objects are in the store, with all that they are linked to.
    ///
    /// - Parameters:
    ///   - invitations: What the links lead to.
    ///   - store: A shared store.
    ///   - waits: With `false` it returns as soon as the relay has agreed; the objects follow by themselves.
    /// - Throws: `wrongStore` for any other store, and `relay`.
    public func acceptShareInvitations(
        from invitations: [CKShare.Metadata],
        into store: StoreID,
        waitingForObjects waits: Bool = true
    ) async throws(MirrorError) {
        try await accept(invitations, by: try sharedStore(store), waits: waits)
    }

    private func sharedStore(_ store: StoreID) throws(MirrorError) -> MirrorSync {
        guard stores.file(store)?.scope == .shared, let sync = sync(store) else {
            throw MirrorError(.wrongStore, "Invitations are accepted into a shared store.")
        }
        return sync
    }

    private func accept(
        _ invitations: [CKShare.Metadata],
        by sync: MirrorSync,
        waits: Bool = true
    ) async throws(MirrorError) {
        do {
            try await sync.checkAccount()
            for (_, result) in try await sync.container.accept(invitations) { _ = try result.get() }
            if waits {
                try await sync.fetchNow()
            } else {
                await sync.noticed()
            }
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Saves changes of a share: title, public permission, participants.
    ///
    /// What was changed elsewhere meanwhile is taken over, and these changes put on top of it: a second change right after
    /// the first succeeds, by whatever copy of the share it is made.
    ///
    /// - Parameters:
    ///   - share: The share, changed; it is brought up to date.
    ///   - store: The store that holds it.
    /// - Returns: The share as the relay has it now, which the store knows too.
    /// - Throws: `wrongStore`, and `relay`.
    @discardableResult
    public func persistUpdatedShare(_ share: CKShare, in store: StoreID) async throws(MirrorError) -> CKShare {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            return try await sync.save(share)
        } catch {
            throw MirrorError(from: error)
        }
    }

    // MARK: The end

    /// Ends a share of this user's: the participants lose it, and its objects go back among the unshared ones.
    ///
    /// Nothing of the owner is deleted. Returns when the relay has followed; interrupted, the next round goes on.
    ///
    /// - Throws: `wrongStore` for a share of somebody else; see `leaveShare`.
    public func stopSharing(_ share: CKShare, in store: StoreID) async throws(MirrorError) {
        guard share.isOwner, let file = stores.file(store), file.scope == .private, let sync = sync(store),
            let home = file.homeZone
        else {
            throw MirrorError(.wrongStore, "Only the owner can end a share, in the private store. Others leave it.")
        }
        let zone = share.recordID.zoneID.zone
        let objects = try await reading(store) { db in
            guard let known = try KnownZone.find(db, zone) else { return [ObjectID]() }
            let sql = "SELECT oid, entity FROM mirror_record WHERE zone = ? AND oid IS NOT NULL"
            return try Row.fetchAll(db, sql: sql, arguments: [known.id]).map {
                ObjectID(store: store, entity: $0[1], name: RecordName($0[0]))
            }
        }
        do {
            try await sync.rebind(objects, to: home, dropping: zone)
            try await sync.sendNow()
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Leaves somebody else's share: its objects go from the store at once, with changes that were not sent.
    ///
    /// - Throws: `wrongStore` for a share of one's own, and `relay`.
    public func leaveShare(_ share: CKShare, in store: StoreID) async throws(MirrorError) {
        guard !share.isOwner, stores.file(store)?.scope == .shared, let sync = sync(store) else {
            throw MirrorError(.wrongStore, "The owner cannot leave a share, but stop it.")
        }
        do {
            try await sync.leave(share.recordID)
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Deletes a zone with all its records and objects, for everybody: not the way to stop sharing.
    ///
    /// - Throws: `relay`.
    public func purgeObjectsAndRecordsInZone(with share: CKShare, in store: StoreID) async throws(MirrorError) {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            try await sync.purge(share.recordID.zoneID.zone)
        } catch {
            throw MirrorError(from: error)
        }
    }
}

extension MirrorContext {
    /// Puts a new object into a share of one's own, before its first save.
    ///
    /// - Throws: `wrongStore` for an object that has been saved, and `unknownStore` for a share that no store holds.
    public func assign<T: SyncedRecord>(_ object: T, to share: CKShare) throws(MirrorError) {
        let home = share.recordID.zoneID.zone
        for file in stores.files where file.isMirrored && file.scope != .public {
            guard let zone = try read(file, { try KnownZone.find($0, home) }) else { continue }
            try assign(object, to: file.id)
            state.withLock { $0.assignedZones[Key(entity: T.entityName, id: object.id.text)] = zone.id }
            return
        }
        throw MirrorError(.unknownStore, "No store of this container holds the share.")
    }
}
