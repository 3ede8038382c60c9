import Crypto
import Foundation
import Records
import Synchronization

/// The keys of zones that this process has opened for the current user.
package final class ZoneKeyring: Sendable {
    fileprivate struct State {
        /// The number of changes of the user.
        var epoch = 0
        var userKey: Task<Curve25519.KeyAgreement.PrivateKey, any Error>?
        var keys: [CKRecordZone.ID: ZoneKey] = [:]
        /// Zones with a key that is not for this user, or not for the user's current key.
        var inaccessible: Set<CKRecordZone.ID> = []
        /// Zones without a key.
        var missing: Set<CKRecordZone.ID> = []
        var hasPublished = false
        /// The users who got each zone's key, with the name of the share through which they see it.
        var keyRecipients: [CKRecordZone.ID: [String: String]] = [:]
        /// Shares, by zone and name, with participants who could not get the key when the share was last seen.
        var waiting: [CKRecordZone.ID: [String: CKShare]] = [:]
        /// Zones whose shares this process has fetched.
        var searchedZones: Set<CKRecordZone.ID> = []
        /// The public keys with which users got zone keys.
        var pinned: [String: [UInt8]] = [:]
        /// Public keys that the app trusts, regardless of earlier ones.
        var trusted: Set<UserEncryptionKey> = []
    }

    private let state = Mutex(State())
    /// The container of the zones, by which a decoded record finds this keyring.
    let container: String

    package init(of container: String) { self.container = container }

    /// Discards all keys, because the user has changed.
    package func forget() { state.withLock { $0 = State(epoch: $0.epoch + 1) } }

    /// The value to pass to `keep(_:of:epoch:)` with a key that was looked up in the meantime.
    var epoch: Int { state.withLock { $0.epoch } }

    func key(_ zone: CKRecordZone.ID) -> ZoneKey? { state.withLock { $0.keys[zone] } }
    func isInaccessible(_ zone: CKRecordZone.ID) -> Bool { state.withLock { $0.inaccessible.contains(zone) } }

    /// Stores a key, unless the user has changed since the lookup; another user's zones may have the same names.
    func keep(_ key: ZoneKey?, of zone: CKRecordZone.ID, epoch: Int) {
        state.withLock { state in
            guard state.epoch == epoch else { return }
            // Another device has created the zone again, and no participant has got this key yet.
            if let old = state.keys[zone], old.number != key?.number { state.keyRecipients[zone] = nil }
            state.keys[zone] = key
            state.missing.remove(zone)
            if key == nil { state.inaccessible.insert(zone) } else { state.inaccessible.remove(zone) }
        }
    }

    func isMissing(_ zone: CKRecordZone.ID) -> Bool { state.withLock { $0.missing.contains(zone) } }

    func markKeyMissing(_ zone: CKRecordZone.ID) { _ = state.withLock { $0.missing.insert(zone) } }

    /// Discards the key of a zone that was deleted, or whose key must be looked up again.
    func forget(_ zone: CKRecordZone.ID) {
        state.withLock { state in
            state.keys[zone] = nil
            state.inaccessible.remove(zone)
            state.keyRecipients[zone] = nil
            state.waiting[zone] = nil
            state.searchedZones.remove(zone)
            state.missing.remove(zone)
        }
    }

    /// Discards the key of a zone if an error shows that the zone was deleted or created again.
    func requestFailed(_ error: CKError, of zone: CKRecordZone.ID) {
        guard [.zoneNotFound, .userDeletedZone, .changeTokenExpired].contains(error.code), !error.reportsKeyReset
        else { return }
        forget(zone)
    }

    /// Returns the user's private key, which is requested from the provider once.
    func userKey(
        _ provider: any EncryptionKeyProvider,
        by time: Scheduler
    ) async throws -> Curve25519.KeyAgreement.PrivateKey {
        let task = state.withLock { state in
            if let running = state.userKey { return running }
            // Callers may block threads of the cooperative pool while they wait.
            let tasks = time.testEnvironment?.tasks ?? BlockingThreads.executor
            let task = Task(executorPreference: tasks) { () async throws in
                // Requests of the app's own code are not bound to this task's sign-in.
                let key = try await AccountBinding.$current.withValue(nil) { try await provider.userKey() }
                return try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: key)
            }
            state.userKey = task
            return task
        }
        do {
            return try await task.value
        } catch {
            state.withLock { $0.userKey = nil }
            throw error
        }
    }

    /// Returns whether the public key has to be published.
    ///
    /// Returns `true` once.
    func beginPublishing() -> Bool {
        state.withLock { state in
            defer { state.hasPublished = true }
            return !state.hasPublished
        }
    }

    func publishingFailed() { state.withLock { $0.hasPublished = false } }

    /// Returns the users of a share who have not got the zone's key yet.
    func usersWithoutKey(_ users: [String], by share: CKRecord.ID) -> [String] {
        state.withLock { state in
            state.forgetRecipients(share) { users.contains($0) }
            return users.filter { state.keyRecipients[share.zoneID]?[$0] == nil }
        }
    }

    /// Forgets who got the key through a deleted share.
    ///
    /// Users who are in another share of the zone get it through that one.
    func ended(_ share: CKRecord.ID) { state.withLock { $0.forgetRecipients(share) { _ in false } } }

    /// The zone's shares with participants who wait for the key.
    func waiting(in zone: CKRecordZone.ID) -> [CKShare] {
        state.withLock { Array($0.waiting[zone, default: [:]].values) }
    }

    func note(_ share: CKShare, isAwaitingKey: Bool) {
        // The app may change its own object at any time.
        let copy = isAwaitingKey ? share.copy() as? CKShare : nil
        state.withLock { $0.waiting[share.recordID.zoneID, default: [:]][share.recordID.recordName] = copy }
    }

    /// Returns whether the zone's shares have to be fetched.
    ///
    /// Returns `true` once.
    func beginShareLookup(in zone: CKRecordZone.ID) -> Bool {
        state.withLock { $0.searchedZones.insert(zone).inserted }
    }

    func shareLookupFailed(in zone: CKRecordZone.ID) { _ = state.withLock { $0.searchedZones.remove(zone) } }

    /// Returns the public key with which a user got zone keys, as far as this process knows.
    func pinned(_ user: String) -> [UInt8]? { state.withLock { $0.pinned[user] } }

    func pin(_ publicKey: [UInt8], of user: String) { state.withLock { $0.pinned[user] = publicKey } }

    func isTrusted(_ key: UserEncryptionKey) -> Bool { state.withLock { $0.trusted.contains(key) } }

    /// Trusts a key.
    ///
    /// Users who got no zone key for lack of trust get it when a device next fetches from the zone.
    func trust(_ key: UserEncryptionKey) {
        state.withLock { state in
            state.trusted.insert(key)
            state.searchedZones = []
        }
    }

    func keyProvided(to user: String, by share: CKRecord.ID) {
        state.withLock { $0.keyRecipients[share.zoneID, default: [:]][user] = share.recordName }
    }
}

extension ZoneKeyring.State {
    /// Forgets which users got a key through a share, except those who stay in it.
    fileprivate mutating func forgetRecipients(_ share: CKRecord.ID, remaining: (String) -> Bool) {
        let before = keyRecipients[share.zoneID, default: [:]]
        let after = before.filter { $1 != share.recordName || remaining($0) }
        guard after.count < before.count else { return }
        keyRecipients[share.zoneID] = after
        searchedZones.remove(share.zoneID)
    }
}
