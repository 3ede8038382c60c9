public import Foundation
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
            try await sync.reassign(closure, to: zone)
            try await sync.sendNow(concerning: closure)
            if let share { return (closure, share, sync.store.container) }
            let new = CKShare(recordZoneID: CKRecordZone.ID(zone))
            new.title = title ?? name ?? ""
            new.publicPermission = publicPermission
            return (closure, try await sync.save(new), sync.store.container)
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
            let found = try read(file) { db -> ShareAssignment? in
                guard let zone = try KnownZone.find(db, home) else { return nil }
                guard name != CKRecordNameZoneWideShare else { return ShareAssignment(zone: home) }
                return ShareAssignment(zone: home, parent: try Hierarchies.root(db, zone: zone.id, share: name))
            }
            guard let found else { continue }
            try assign(object, to: file.id)
            state.withLock { $0.assignedZones[Key(entity: T.entityName, id: object.id.text)] = found }
            return
        }
        throw MirrorError(.unknownStore, "No store of this container holds the share.")
    }
}

/// Accepting, changing and ending shares.
///
/// See SharingRules.md, "Public links and participants" and "The end of a share".
extension MirroredContainer {
    /// Looks up people to invite, by e-mail address, telephone number or user record.
    ///
    /// People unknown to the relay can be invited too: the invitation is bound when they first sign in with this
    /// address.
    ///
    /// - Parameters:
    ///   - infos: The addresses to look up.
    ///   - store: A store of the container to whose users they belong.
    /// - Returns: A participant for each, to add to a share.
    /// - Throws: `wrongStore` and `relay`.
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

    /// Returns the metadata of a share link without accepting the share.
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

    /// Accepts shares by their links; see `acceptShareInvitations(from:into:)` with metadata.
    public func acceptShareInvitations(from urls: [URL], into store: StoreID) async throws(MirrorError) {
        let sync = try sharedStore(store)
        var (invitations, failure): ([CKShare.Metadata], MirrorError?) = ([], nil)
        for url in urls {
            do throws(MirrorError) {
                invitations.append(try await fetchShareMetadata(url, from: store))
            } catch {
                failure = failure ?? error
            }
        }
        try await accept(invitations, by: sync)
        if let failure { throw failure }
    }

    /// Accepts shares and returns when the objects in them, with all objects linked to them, are in the store.
    ///
    /// - Parameters:
    ///   - invitations: The metadata of the shares.
    ///   - store: A shared store.
    ///   - waits: Whether to wait for the objects. With `false`, the call returns once the relay has accepted, and the
    ///     objects arrive later.
    /// - Throws: `wrongStore` for any other store. `relay` with the first failure, after all other shares were
    ///   accepted.
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
            let results = try await sync.store.container.accept(invitations)
            if waits {
                try await sync.fetchNow()
            } else {
                await sync.noticed()
            }
            for invitation in invitations { _ = try results[invitation]?.get() }
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Saves changes of a share: its title, public permission and participants.
    ///
    /// Changes made elsewhere meanwhile are merged with these: a second change right after the first succeeds,
    /// whichever copy of the share it was made on.
    ///
    /// - Parameters:
    ///   - share: The changed share, which is updated.
    ///   - store: The store that holds it.
    /// - Returns: The share as the relay and the store now have it.
    /// - Throws: `wrongStore` and `relay`.
    @discardableResult
    public func persistUpdatedShare(_ share: CKShare, in store: StoreID) async throws(MirrorError) -> CKShare {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            return try await sync.save(share)
        } catch {
            throw MirrorError(from: error)
        }
    }

    // MARK: Ending shares

    /// Ends a share of this user: the participants lose it, and its objects move back to the unshared ones.
    ///
    /// Nothing is deleted, by any creator. If only some records of a zone are shared, or the zone for new objects,
    /// the objects stay in their zone. Returns when the relay has completed this; after an interruption, the next
    /// round continues.
    ///
    /// - Throws: `wrongStore` for another user's share; see `leaveShare`.
    public func stopSharing(_ share: CKShare, in store: StoreID) async throws(MirrorError) {
        guard share.isOwner, let file = stores.file(store), file.scope == .private, let sync = sync(store),
            let home = file.homeZone
        else {
            throw MirrorError(
                .wrongStore,
                "Only the owner can stop a share, in the private store. Participants leave it."
            )
        }
        let zone = share.recordID.zoneID.zone
        do {
            // A share of some records in a zone, or of the home zone, has no zone of its own to remove.
            guard share.recordID.recordName == CKRecordNameZoneWideShare, zone != home else {
                return try await sync.end(share.recordID)
            }
            let objects = try await sync.leaveZone(zone, for: home)
            try await sync.sendNow(concerning: objects)
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Leaves another user's share: its objects are removed from the store at once, with their unsent changes.
    ///
    /// - Throws: `wrongStore` for the user's own share, and `relay`.
    public func leaveShare(_ share: CKShare, in store: StoreID) async throws(MirrorError) {
        guard !share.isOwner, stores.file(store)?.scope == .shared, let sync = sync(store) else {
            throw MirrorError(.wrongStore, "The owner cannot leave a share. Stop it instead.")
        }
        do {
            try await sync.leave(share.recordID)
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Deletes a zone with all its records and objects, for everybody; to end a share, use `stopSharing`.
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

    /// Deletes all data of the current user in the private database, here and on all devices of the user.
    ///
    /// Use it when the user erases the application's data. Other devices remove their objects too and do not send them
    /// again; objects that they have never sent stay.
    ///
    /// - Throws: `wrongStore` for any other store, and `relay`.
    public func eraseAllData(in store: StoreID) async throws(MirrorError) {
        let sync = try privateStore(store)
        do {
            try await sync.erase()
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Creates the private database again from what this device and the user's other devices hold.
    ///
    /// Use it after the key of the encrypted values was lost, when no device can decrypt those on the relay. The
    /// relay's records are fetched first, so that nothing older replaces them; without a network, nothing happens.
    /// Shares of this user end. Returns when the relay has been updated; the objects are sent afterwards.
    ///
    /// - Throws: `wrongStore` for any other store, and `relay`.
    public func resetEncryptedData(in store: StoreID) async throws(MirrorError) {
        let sync = try privateStore(store)
        do {
            try await sync.resetKeys()
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func privateStore(_ store: StoreID) throws(MirrorError) -> MirrorSync {
        guard stores.file(store)?.scope == .private, let sync = sync(store) else {
            throw MirrorError(.wrongStore, "Only a private store holds the current user's own data.")
        }
        return sync
    }
}

/// Convenience properties and methods of shares.
extension CKShare {
    /// The name that participants see.
    public var title: String? {
        get { self[SystemFieldKey.title] }
        set { self[SystemFieldKey.title] = newValue }
    }

    /// Whether the current user owns the share.
    public var isOwner: Bool { currentUserParticipant?.role == .owner }

    /// The current user's permission.
    public var currentUserPermission: ParticipantPermission { currentUserParticipant?.permission ?? .none }

    /// Invites a person by e-mail address; the invitation is bound to the user who signs in with this address.
    ///
    /// The relay refuses this while the share has a public link.
    public func addParticipant(emailAddress: String, permission: ParticipantPermission) {
        addParticipant(Self.participant(inviting: .init(emailAddress: emailAddress), permission))
    }

    /// Invites a user by their record name.
    public func addParticipant(user: String, permission: ParticipantPermission) {
        addParticipant(Self.participant(inviting: .init(userRecordName: user), permission))
    }

    /// Changes a participant's permission; does nothing if they are not in the share.
    public func setPermission(_ permission: ParticipantPermission, for participant: Participant) {
        participants.first { $0.isEqual(participant) }?.permission = permission
    }
}

/// Convenience properties of share metadata.
extension CKShareMetadata {
    /// The share's title.
    public var title: String? { share.title }

    /// The owner's name, if the relay returns it.
    public var ownerName: String? {
        guard let name = ownerIdentity.nameComponents else { return nil }
        let parts = [name.givenName, name.familyName].compactMap { $0 }
        return parts.isEmpty ? nil : parts.joined(separator: " ")
    }

    /// Whether the current user has accepted the share.
    public var hasAccepted: Bool { participantStatus == .accepted }
}
