public import Foundation
import GRDB
import Records
public import ZoneKit

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
            let results = try await sync.container.accept(invitations)
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
