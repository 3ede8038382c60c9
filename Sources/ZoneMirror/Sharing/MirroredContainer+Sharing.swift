public import Foundation
import GRDB
import Records
import Synchronization
import Wire
import ZoneKit

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
    /// - Returns: All objects that are in it now, and the share as the relay has it.
    /// - Throws: `alreadyShared`, `wrongStore`, `tooManyObjects`, `relay`: then nothing is lost, and the next round goes on.
    public func share(
        _ objects: [ObjectID],
        to share: MirroredShare? = nil,
        title: String? = nil,
        publicPermission: MirroredShare.Permission = .none,
        limit: Int = 10_000
    ) async throws(MirrorError) -> (objects: [ObjectID], share: MirroredShare) {
        let (file, sync) = try privateStore(of: objects)
        let zone = share?.zone ?? ZoneID("com.apple.coredata.cloudkit.share.\(UUID().uuidString)")
        let (closure, name) = try await reading(file.id) { db in
            let closure = try ShareClosure(db: db, file: file).objects(from: objects)
            return (closure, try objects.first.map { try Self.displayName(of: $0, db, file) })
        }
        guard closure.count <= limit else {
            throw MirrorError(
                .tooManyObjects(closure.count),
                "Sharing takes \(closure.count) objects along, more than \(limit). Raise the limit, or cut links by stopsSharing."
            )
        }
        try await refuseShared(closure, in: file, but: zone)
        do {
            try await sync.checkAccount()
            try await sync.rebind(closure, to: zone)
            try await sync.sendNow()
            if let share { return (closure, share) }
            let new = MirroredShare(newIn: zone, title: title ?? name ?? "", publicPermission: publicPermission)
            let made = try await sync.save(new)
            return (closure, made)
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
    public func fetchShares(in store: StoreID) async throws(MirrorError) -> [MirroredShare] {
        try await reading(store) { db in
            let rows = try Row.fetchAll(db, sql: "SELECT name, owner, share FROM mirror_zone WHERE share IS NOT NULL")
            return rows.compactMap { row in
                MirroredShare(cached: [UInt8](row[2] as Data), in: ZoneID(row[0], owner: UserID(row[1])))
            }
        }
    }

    /// The shares that objects are in; objects without a known share are left out.
    public func fetchShares(matching objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: MirroredShare] {
        var found: [ObjectID: MirroredShare] = [:]
        for object in objects {
            guard let store = object.store else { continue }
            found[object] = try await reading(store) { db in
                guard let known = try KnownRecord.find(db, oid: object.name.text),
                    let zone = try KnownZone.find(db, id: known.zone),
                    let cached = try Data.fetchOne(
                        db,
                        sql: "SELECT share FROM mirror_zone WHERE id = ?",
                        arguments: [zone.id]
                    )
                else { return nil }
                return MirroredShare(cached: [UInt8](cached), in: zone.zone)
            }
        }
        return found
    }

    /// Whether an object is in a share.
    public func isShared(_ object: ObjectID) async throws(MirrorError) -> Bool {
        try await fetchShares(matching: [object])[object] != nil
    }

    // MARK: Joining and managing

    /// Says what a link leads to, without joining.
    public func fetchShareMetadata(_ url: URL, from store: StoreID) async throws(MirrorError) -> ShareMetadata {
        let result = try await open(url, by: "resolve", from: store)
        do {
            let share = try result.required("share")
            var title: String?
            for (name, field) in try share["fields"]?.members() ?? [] where name == "cloudkit.title" {
                title = try field["value"]?.string()
            }
            let name = result["ownerIdentity"]?["nameComponents"]
            let parts = [try name?["givenName"]?.string(), try name?["familyName"]?.string()].compactMap { $0 }
            let word = try result["participantPermission"]?.string() ?? ""
            return ShareMetadata(
                url: url,
                title: title,
                ownerName: parts.isEmpty ? nil : parts.joined(separator: " "),
                permission: MirroredShare.Permission(rawValue: word) ?? .none,
                hasAccepted: try result["participantStatus"]?.string() == "ACCEPTED"
            )
        } catch {
            throw MirrorError(from: CKError(error))
        }
    }

    /// Joins shares; returns when their objects are in the store, with all that they are linked to.
    ///
    /// - Parameters:
    ///   - urls: The links.
    ///   - store: A shared store.
    /// - Throws: `wrongStore` for any other store, and `relay`.
    public func acceptShareInvitations(from urls: [URL], into store: StoreID) async throws(MirrorError) {
        guard stores.file(store)?.scope == .shared, let sync = sync(store) else {
            throw MirrorError(.wrongStore, "Invitations are accepted into a shared store.")
        }
        for url in urls { _ = try await open(url, by: "accept", from: store) }
        do {
            try await sync.fetchNow()
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func open(_ url: URL, by way: String, from store: StoreID) async throws(MirrorError) -> JSONValue {
        guard let cloud = stores.file(store)?.description.cloud else {
            throw MirrorError(.wrongStore, "The store mirrors no database.")
        }
        var writer = JSONWriter()
        writer.object { body in
            body.key("shortGUIDs")
            body.array(CollectionOfOne(url.absoluteString)) { list, link in
                list.object { $0.member("value", link) }
            }
        }
        do {
            let document = try await cloud.container.publicCloudDatabase.call(
                "records/\(way)",
                writer.bytes,
                isWrite: way == "accept"
            )
            return try ZoneKit.reading { () throws(JSONError) -> Result<JSONValue, CKError> in
                guard let result = try document.root.required("results").elements().first else {
                    return .failure(CKError(.internalError, "The relay's answer leaves the link out."))
                }
                if let failure = try ClientResponse.failure(result, zone: nil) {
                    return .failure(CKError(failure, at: .item))
                }
                return .success(result)
            }.get()
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Saves changes of a share: title, public permission, participants.
    ///
    /// A change made elsewhere meanwhile is taken over first; this one is put on top of it.
    ///
    /// - Parameters:
    ///   - share: The share, changed.
    ///   - store: The store that holds it.
    /// - Returns: The share as the relay has it now, which the store knows too.
    /// - Throws: `wrongStore`, and `relay`.
    @discardableResult
    public func persistUpdatedShare(_ share: MirroredShare, in store: StoreID) async throws(MirrorError)
        -> MirroredShare
    {
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
    public func stopSharing(_ share: MirroredShare, in store: StoreID) async throws(MirrorError) {
        guard share.isOwner, let file = stores.file(store), file.scope == .private, let sync = sync(store),
            let home = file.homeZone
        else {
            throw MirrorError(.wrongStore, "Only the owner can end a share, in the private store. Others leave it.")
        }
        let zone = share.zone
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
    public func leaveShare(_ share: MirroredShare, in store: StoreID) async throws(MirrorError) {
        guard !share.isOwner, stores.file(store)?.scope == .shared, let sync = sync(store) else {
            throw MirrorError(.wrongStore, "The owner cannot leave a share, but stop it.")
        }
        do {
            try await sync.leave(share.zone)
        } catch {
            throw MirrorError(from: error)
        }
    }

    /// Deletes a zone with all its records and objects, for everybody: not the way to stop sharing.
    ///
    /// - Throws: `relay`.
    public func purgeObjectsAndRecordsInZone(with share: MirroredShare, in store: StoreID) async throws(MirrorError) {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            try await sync.purge(share.zone)
        } catch {
            throw MirrorError(from: error)
        }
    }
}

extension MirrorContext {
    /// Puts a new object into a share of one's own, before its first save.
    ///
    /// - Throws: `wrongStore` for an object that has been saved, and `unknownStore` for a share that no store holds.
    public func assign<T: SyncedRecord>(_ object: T, to share: MirroredShare) throws(MirrorError) {
        for file in stores.files where file.isMirrored && file.scope != .public {
            guard let zone = try read(file, { try KnownZone.find($0, share.zone) }) else { continue }
            try assign(object, to: file.id)
            state.withLock { $0.assignedZones[Key(entity: T.entityName, id: object.id.text)] = zone.id }
            return
        }
        throw MirrorError(.unknownStore, "No store of this container holds the share.")
    }
}
