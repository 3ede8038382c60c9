import Records
import RelayCore
import Synchronization

/// Creates what each user needs from the first request on, once per user and process.
final class FirstUseProvisioning: Sendable {
    private let authenticator: Authenticator
    private let time: TimeSource
    private let known = Mutex<Set<UserKey>>([])

    fileprivate struct UserKey: Hashable {
        var home: ContainerEnvironment
        var user: UserID
    }

    /// The writes that a user still needs, at least one, each within one owner's data.
    struct Provision: Sendable {
        fileprivate let key: UserKey
        let writes: [WritePart<Void>]
        /// Whether no other write will be left after these.
        fileprivate let isComplete: Bool
    }

    init(_ authenticator: Authenticator, time: TimeSource) {
        self.authenticator = authenticator
        self.time = time
    }

    /// Provisions the user if necessary.
    func provision(_ user: UserID, _ home: ContainerEnvironment, in store: any Store) async throws(RelayError) {
        guard let provision = try remaining(user, home, in: store) else { return }
        try await store.write(provision.writes)
        markDone(provision)
    }

    /// Returns the writes that the user still needs; `nil` if the user is provisioned.
    ///
    /// Run them in order, and call `markDone` when all are on disk. If one fails, or the process ends before it, the
    /// user's next request gets the rest.
    func remaining(
        _ user: UserID,
        _ home: ContainerEnvironment,
        in store: any Store
    ) throws(RelayError) -> Provision? {
        let key = UserKey(home: home, user: user)
        if known.withLock({ $0.contains(key) }) { return nil }
        // If accounts cannot be read now, invitations are assigned when the invited user opens the link.
        let contacts = try? authenticator.contacts(of: user, in: home)
        let user = ProvisionUser(user, contacts: contacts ?? [], now: time.now())
        let (writes, isComplete) = try user.remainingWrites(in: store)
        if !writes.isEmpty { return Provision(key: key, writes: writes, isComplete: isComplete) }
        if isComplete { markDone(key) }
        return nil
    }

    /// Drops what is known of a store that may be replaced.
    func drop(_ home: ContainerEnvironment) { known.withLock { $0 = $0.filter { $0.home != home } } }

    /// Must be called after all of the writes are on disk.
    func markDone(_ provision: Provision) {
        if provision.isComplete { markDone(provision.key) }
    }

    private func markDone(_ key: UserKey) {
        known.withLock {
            if $0.count > 100_000 { $0 = [] }
            $0.insert(key)
        }
    }
}

extension ProvisionUser {
    /// Returns the writes that are left to do, and whether these are all: invitations from owners whose data cannot be
    /// reached now are missing.
    func remainingWrites(in store: any Store) throws(RelayError) -> (writes: [WritePart<Void>], isComplete: Bool) {
        let (steps, isComplete) = try store.read { reader throws(RelayError) in
            (try remainingSteps(in: reader), !reader.lacksOwners)
        }
        let writes = steps.map { step in
            WritePart(owner: owner(of: step), prefetch: prefetch(of: step)) { writer throws(RelayError) in
                try run(step, in: writer)
            }
        }
        return (writes, isComplete)
    }
}

extension Store {
    /// Runs the writes one after another.
    func write(_ parts: [WritePart<Void>]) async throws(RelayError) {
        for part in parts { try await write(touching: part.owner, prefetch: part.prefetch, part.run) }
    }
}
