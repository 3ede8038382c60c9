import Records
import RelayCore
import Synchronization

/// Creates what each user needs from the first request on, once per user and process.
final class FirstUseProvisioning: Sendable {
    private let authenticator: Authenticator
    private let time: TimeSource
    private let known = Mutex<Set<UserKey>>([])

    private struct UserKey: Hashable {
        var home: ContainerEnvironment
        var user: UserID
    }

    init(_ authenticator: Authenticator, time: TimeSource) {
        self.authenticator = authenticator
        self.time = time
    }

    /// Provisions the user if necessary.
    func provision(_ user: UserID, _ home: ContainerEnvironment, in store: any Store) async throws(RelayError) {
        guard try !isDone(user, home, in: store) else { return }
        try await store.write(write(user, home).run)
        markDone(user, home)
    }

    /// Returns whether the user is already provisioned.
    func isDone(_ user: UserID, _ home: ContainerEnvironment, in store: any Store) throws(RelayError) -> Bool {
        if known.withLock({ $0.contains(UserKey(home: home, user: user)) }) { return true }
        let provision = write(user, home)
        guard try store.read({ reader throws(RelayError) in try provision.isDone(in: reader) }) else { return false }
        markDone(user, home)
        return true
    }

    /// Returns the write that provisions the user.
    func write(_ user: UserID, _ home: ContainerEnvironment) -> ProvisionUser {
        // If accounts cannot be read now, invitations are assigned when the invited user opens the link.
        let contacts = try? authenticator.contacts(of: user, in: home)
        return ProvisionUser(user, contacts: contacts ?? [], now: time.now())
    }

    /// Drops what is known of a store that may be replaced.
    func drop(_ home: ContainerEnvironment) { known.withLock { $0 = $0.filter { $0.home != home } } }

    /// Must be called after that write is on disk.
    func markDone(_ user: UserID, _ home: ContainerEnvironment) {
        known.withLock {
            if $0.count > 100_000 { $0 = [] }
            $0.insert(UserKey(home: home, user: user))
        }
    }
}
