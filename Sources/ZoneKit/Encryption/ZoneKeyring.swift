import Crypto
import Foundation
import Records
import Synchronization

/// The keys of zones that this process has opened for the current user.
package final class ZoneKeyring: Sendable {
    fileprivate struct State {
        /// Counts the users.
        var epoch = 0
        var userKey: Task<Curve25519.KeyAgreement.PrivateKey, any Error>?
        var keys: [CKRecordZone.ID: ZoneKey] = [:]
        /// Zones that have a key which is not for this user, or not for the key that they have now.
        var closed: Set<CKRecordZone.ID> = []
        /// Zones that have no key yet.
        var missing: Set<CKRecordZone.ID> = []
        var hasPublished = false
        /// Whom each zone's key was given to, and by which share they see it.
        var given: [CKRecordZone.ID: [String: String]] = [:]
        /// Shares, by zone and name, with people who could not be given the key when the share was last seen.
        var waiting: [CKRecordZone.ID: [String: CKShare]] = [:]
        /// Zones whose shares this process has seen.
        var looked: Set<CKRecordZone.ID> = []
        /// The public keys that users were given something by.
        var pinned: [String: [UInt8]] = [:]
        /// Keys that the program trusts, whatever was before.
        var trusted: Set<UserEncryptionKey> = []
    }

    private let state = Mutex(State())
    /// Whose zones they are of, by which an archived record finds them again.
    let container: String

    package init(of container: String) { self.container = container }

    /// Another user speaks.
    package func forget() { state.withLock { $0 = State(epoch: $0.epoch + 1) } }

    /// What to hand back with a key that was looked for meanwhile.
    var epoch: Int { state.withLock { $0.epoch } }

    func key(_ zone: CKRecordZone.ID) -> ZoneKey? { state.withLock { $0.keys[zone] } }
    func isClosed(_ zone: CKRecordZone.ID) -> Bool { state.withLock { $0.closed.contains(zone) } }

    /// Not where somebody else has signed in since it was looked for: their zones have the same names.
    func keep(_ key: ZoneKey?, of zone: CKRecordZone.ID, epoch: Int) {
        state.withLock { state in
            guard state.epoch == epoch else { return }
            // The zone was made anew by another device: this key nobody was given yet.
            if let old = state.keys[zone], old.number != key?.number { state.given[zone] = nil }
            state.keys[zone] = key
            state.missing.remove(zone)
            if key == nil { state.closed.insert(zone) } else { state.closed.remove(zone) }
        }
    }

    func isMissing(_ zone: CKRecordZone.ID) -> Bool { state.withLock { $0.missing.contains(zone) } }

    func noteMissing(_ zone: CKRecordZone.ID) { _ = state.withLock { $0.missing.insert(zone) } }

    /// The zone is gone, or its key is to be looked up again.
    func forget(_ zone: CKRecordZone.ID) {
        state.withLock { state in
            state.keys[zone] = nil
            state.closed.remove(zone)
            state.given[zone] = nil
            state.waiting[zone] = nil
            state.looked.remove(zone)
            state.missing.remove(zone)
        }
    }

    /// A zone that is not there, or not the one that it was, has its key no more.
    func heard(_ error: CKError, of zone: CKRecordZone.ID) {
        guard [.zoneNotFound, .userDeletedZone, .changeTokenExpired].contains(error.code), !error.saysKeyWasReset
        else { return }
        forget(zone)
    }

    /// The user's own key, asked for once.
    func userKey(
        _ provider: any EncryptionKeyProvider,
        by time: Timekeeper
    ) async throws -> Curve25519.KeyAgreement.PrivateKey {
        let task = state.withLock { state in
            if let running = state.userKey { return running }
            // Whoever waits for this may do so with a thread of the common pool.
            let tasks = time.surroundings?.tasks ?? OwnThreads.lane
            let task = Task(executorPreference: tasks) { () async throws in
                // What the program asks for in there is its own matter, whoever has signed in.
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

    /// Whether the public key is still to be published; says so once.
    func beginPublishing() -> Bool {
        state.withLock { state in
            defer { state.hasPublished = true }
            return !state.hasPublished
        }
    }

    func publishingFailed() { state.withLock { $0.hasPublished = false } }

    /// Those of a share's `users` to whom the zone's key was not given yet.
    func notGiven(_ users: [String], by share: CKRecord.ID) -> [String] {
        state.withLock { state in
            state.drop(share) { users.contains($0) }
            return users.filter { state.given[share.zoneID]?[$0] == nil }
        }
    }

    /// Nobody sees any more what was given by the share; who is in another of the zone's is given it by that one.
    func ended(_ share: CKRecord.ID) { state.withLock { $0.drop(share) { _ in false } } }

    /// The zone's shares in which somebody waits for the key.
    func waiting(in zone: CKRecordZone.ID) -> [CKShare] {
        state.withLock { Array($0.waiting[zone, default: [:]].values) }
    }

    func note(_ share: CKShare, isWaitedFor: Bool) {
        // The program's own it may change at any time.
        let copy = isWaitedFor ? share.copy() as? CKShare : nil
        state.withLock { $0.waiting[share.recordID.zoneID, default: [:]][share.recordID.recordName] = copy }
    }

    /// Whether the zone's shares are still to be looked for; says so once.
    func beginLooking(in zone: CKRecordZone.ID) -> Bool { state.withLock { $0.looked.insert(zone).inserted } }

    func lookingFailed(in zone: CKRecordZone.ID) { _ = state.withLock { $0.looked.remove(zone) } }

    /// By which key a user was given something, as far as this process knows.
    func pinned(_ user: String) -> [UInt8]? { state.withLock { $0.pinned[user] } }

    func pin(_ publicKey: [UInt8], of user: String) { state.withLock { $0.pinned[user] = publicKey } }

    func isTrusted(_ key: UserEncryptionKey) -> Bool { state.withLock { $0.trusted.contains(key) } }

    /// Whoever was not given a zone's key for want of trust is when something of the zone is next seen.
    func trust(_ key: UserEncryptionKey) {
        state.withLock { state in
            state.trusted.insert(key)
            state.looked = []
        }
    }

    func gave(to user: String, by share: CKRecord.ID) {
        state.withLock { $0.given[share.zoneID, default: [:]][user] = share.recordName }
    }
}

extension ZoneKeyring.State {
    /// Forgets who was given a key by a share, but for those who stay in it.
    fileprivate mutating func drop(_ share: CKRecord.ID, staying: (String) -> Bool) {
        let before = given[share.zoneID, default: [:]]
        let after = before.filter { $1 != share.recordName || staying($0) }
        guard after.count < before.count else { return }
        given[share.zoneID] = after
        looked.remove(share.zoneID)
    }
}
