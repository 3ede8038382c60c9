public import Foundation
import GRDB
import Records
public import ZoneKit

/// Joining shares, changing them, and their end.
///
/// See SharingRules.md, "Public links and participants" and "The end of a share".
extension MirroredContainer {
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

    /// Joins shares; returns when their objects are in the store, with all that they are linked to.
    ///
    /// - Parameters:
    ///   - invitations: What the links lead to.
    ///   - store: A shared store.
    ///   - waits: With `false` it returns as soon as the relay has agreed; the objects follow by themselves.
    /// - Throws: `wrongStore` for any other store, and `relay`: the first failure, when all the others have been joined.
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
    /// Nothing is deleted, whoever made it. A share of some records in a zone, or of the zone where new objects go, ends and
    /// leaves its objects where they are. Returns when the relay has followed; interrupted, the next round goes on.
    ///
    /// - Throws: `wrongStore` for a share of somebody else; see `leaveShare`.
    public func stopSharing(_ share: CKShare, in store: StoreID) async throws(MirrorError) {
        guard share.isOwner, let file = stores.file(store), file.scope == .private, let sync = sync(store),
            let home = file.homeZone
        else {
            throw MirrorError(.wrongStore, "Only the owner can end a share, in the private store. Others leave it.")
        }
        let zone = share.recordID.zoneID.zone
        do {
            // A share of some records in a zone, or of the home zone, has no zone of its own that could go.
            guard share.recordID.recordName == CKRecordNameZoneWideShare, zone != home else {
                return try await sync.end(share.recordID)
            }
            let objects = try await sync.leaveZone(zone, for: home)
            try await sync.sendNow(concerning: objects)
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

    /// Deletes everything of the current user's in the private database, here and on all their devices: what the user means by
    /// erasing the application's data.
    ///
    /// Other devices remove their objects too, and send none of them again; what they hold that was never sent stays.
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

    /// Makes the private database anew out of what this device and the user's others hold: after the key of encrypted values
    /// was lost, when nobody can read any more what is encrypted on the relay.
    ///
    /// What the relay has is fetched first, so that nothing older takes its place; without a network nothing happens. Shares of
    /// this user's end. Returns when the relay knows; the objects follow by themselves.
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
