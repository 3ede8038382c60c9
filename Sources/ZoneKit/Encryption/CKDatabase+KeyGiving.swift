import Foundation
import Records
import SyncCore
import Wire

extension CKDatabase {
    /// Provides the key of a zone to the users with whom it is shared and who do not have it yet.
    ///
    /// Every device that has the key and may write to the zone does this when it sees the share: the owner's devices
    /// and those of other participants, so that a new participant need not wait for the owner. Never throws: a user who
    /// cannot get the key now, because of a failure or because they have not published a public key, gets it when a
    /// device next fetches from the zone.
    ///
    /// - Parameters:
    ///   - shares: The shares that were fetched.
    ///   - ended: The names of the shares that were deleted.
    ///   - zoneID: The zone.
    ///   - isListed: Whether the fetch lists the whole zone, so that all of its shares are fetched.
    func giveKeys(by shares: [CKShare], ended: [String], in zoneID: CKRecordZone.ID, isListed: Bool) async {
        guard let keys = try? session.connection().zoneKeys, hasEncryptionKey else { return }
        for name in ended { keys.ended(CKRecord.ID(recordName: name, zoneID: zoneID)) }
        for share in shares { await giveKey(by: share) }
        let waiting = keys.waiting(in: zoneID).filter { !shares.map(\.recordID).contains($0.recordID) }
        // The zone gets a key with the owner's first encrypted value.
        if !keys.isMissing(zoneID) { for share in waiting { await giveKey(by: share) } }
        guard databaseScope == .private, keys.beginLooking(in: zoneID), !isListed else { return }
        // Users may have been waiting for the key when an earlier process ended.
        do {
            for share in try await allShares(of: zoneID) { await giveKey(by: share) }
        } catch {
            keys.lookingFailed(in: zoneID)
        }
    }

    private func allShares(of zoneID: CKRecordZone.ID) async throws -> [CKShare] {
        let query = CKQuery(recordType: CKRecord.SystemType.share, predicate: NSPredicate(value: true))
        var page = try await records(matching: query, inZoneWith: zoneID)
        var shares: [CKShare] = []
        while true {
            shares += try page.matchResults.compactMap { try $0.1.get() as? CKShare }
            guard let cursor = page.queryCursor else { return shares }
            page = try await records(continuingMatchFrom: cursor)
        }
    }

    /// Provides the key of a share's zone to the participants who have published a public key.
    ///
    /// Only the owner replaces a key record that a participant already has, for example after a reset of the
    /// participant's key, and only if the new public key is trusted.
    func giveKey(by share: CKShare) async {
        guard let connection = try? session.connection(), connection.encryptionKey != nil,
            databaseScope == .private || share.currentUserParticipant?.permission == .readWrite
        else { return }
        let names = share.participants.filter { $0.role != .owner && $0.acceptanceStatus == .accepted }
            .compactMap(\.wire.identity.userRecordName).filter { $0 != connection.caller.recordName }
        let missing = connection.zoneKeys.notGiven(names, by: share.recordID)
        var isAnyWaiting = false
        do throws(CKError) {
            if !missing.isEmpty { isAnyWaiting = try await !giveKey(by: share, to: missing, connection) }
        } catch {
            // Without access to the zone or its key there is nothing to retry.
            isAnyWaiting = error.trouble.isRetriedAutomatically || error.isOfWay
        }
        connection.zoneKeys.note(share, isWaitedFor: isAnyWaiting)
    }

    /// Returns whether all users have the key.
    private func giveKey(
        by share: CKShare,
        to names: [String],
        _ connection: RelayConnection
    ) async throws(CKError) -> Bool {
        let zoneID = share.recordID.zoneID
        guard let key = try await zoneKey(of: zoneID, creating: false) else {
            connection.zoneKeys.noteMissing(zoneID)
            return databaseScope != .private
        }
        let root = try await root(of: share)
        var isAnyWaiting = false
        for name in names {
            do throws(CKError) {
                if try await give(key, to: name, by: share, below: root, connection) { continue }
                isAnyWaiting = true
            } catch {
                isAnyWaiting = isAnyWaiting || error.trouble.isRetriedAutomatically || error.isOfWay
            }
        }
        return !isAnyWaiting
    }

    /// Provides a zone's key to a user who does not have it.
    ///
    /// Returns `false` if the user has published no public key.
    private func give(
        _ key: ZoneKey,
        to name: String,
        by share: CKShare,
        below root: CKRecord.ID?,
        _ connection: RelayConnection
    ) async throws(CKError) -> Bool {
        let zoneID = share.recordID.zoneID
        let people = CKContainer(sharing: session).publicCloudDatabase
        let user = try await people.keyRecord(CKRecord.ID(recordName: name))
        guard let publicKey = (user?[KeyRecord.publicKeyField] as? Data).map({ [UInt8]($0) }) else { return false }
        let given = try await keyRecord(CKRecord.ID(recordName: KeyRecord.name(of: name), zoneID: zoneID))
        let pinned = (given?[KeyRecord.field] as? Data).flatMap { key.pinned(in: [UInt8]($0), for: name) }
        if pinned != publicKey || given?.parent?.recordID != root {
            guard await isTrusted(publicKey, of: name, insteadOf: pinned, connection) else { return true }
            let policy: CKModifyRecordsOperation.RecordSavePolicy =
                databaseScope == .private ? .allKeys : .ifServerRecordUnchanged
            do throws(CKError) {
                try await give(key, to: publicKey, named: name, in: zoneID, below: root, policy)
            } catch  where error.code == .serverRecordChanged {
                // Another device was first, and only the owner replaces its record.
                connection.zoneKeys.gave(to: name, by: share.recordID)
                return true
            }
        }
        connection.zoneKeys.pin(publicKey, of: name)
        connection.zoneKeys.gave(to: name, by: share.recordID)
        return true
    }

    /// Returns whether a zone's key may be provided to the owner of a public key.
    ///
    /// This is the case if the user had this public key before, according to this process or the zone (`given`), or if
    /// the app trusts the key.
    private func isTrusted(
        _ publicKey: [UInt8],
        of user: String,
        insteadOf given: [UInt8]?,
        _ connection: RelayConnection
    ) async -> Bool {
        let told = UserEncryptionKey(publicKey, of: user)
        let known = connection.zoneKeys.pinned(user) ?? given
        if known == publicKey || connection.zoneKeys.isTrusted(told) { return true }
        let before = known.map { UserEncryptionKey($0, of: user) }
        guard let provider = connection.encryptionKey else { return false }
        if await provider.trusts(told, insteadOf: before) { return true }
        NotificationCenter.default.post(
            name: .CKUserEncryptionKeyChanged,
            object: nil,
            userInfo: [CKUserEncryptionKeyKey: told]
        )
        return false
    }

    /// Returns the parent that a key record needs to be visible to the share's participants.
    private func root(of share: CKShare) async throws(CKError) -> CKRecord.ID? {
        guard share.recordID.recordName != CKRecordNameZoneWideShare else { return nil }
        if let known = share.rootID { return known }
        guard let link = share.url else { return nil }
        do {
            return try await CKContainer(sharing: session).shareMetadata(for: link).hierarchicalRootRecordID
        } catch {
            throw CKError(from: error)
        }
    }
}
