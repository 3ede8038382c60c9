package import Records
package import RelayCore
import Synchronization

/// Signing in with a password, and out again.
extension Authenticator {
    /// Starts a session for whoever this password belongs to.
    ///
    /// A wrong one counts against the address it came from.
    package func signIn(
        email: String,
        password: String,
        from address: String,
        in home: ContainerEnvironment,
        kind: Session.Kind
    ) throws(CredentialRefusal) -> (webToken: String, user: UserID) {
        let uptime = time.uptime()
        // Counted before it is checked, so that many at once cannot slip past the limit.
        try remember(at: uptime) { (memory) throws(CredentialRefusal) in
            try memory.chargeSignIn(from: address, at: uptime)
        }
        let started = try wrapping { () throws(DirectoryError) -> (webToken: String, user: UserID)? in
            guard let account = try directory.account(email: email, password: password) else { return nil }
            return try SignIn.start(
                for: account.id,
                in: home,
                kind: kind,
                directory: directory,
                time: time,
                random: random
            )
        }
        guard let started else { throw .failed }
        memory.withLock { $0.refundSignIn(from: address, at: uptime) }
        return started
    }

    /// Ends the session a request came by; every token of it is refused from then on.
    package func signOut(_ authentication: Authentication) throws(CredentialRefusal) {
        guard case .session(let id, _) = authentication.credential else { return }
        try wrapping { () throws(DirectoryError) in try directory.revokeSession(id) }
        let generation = try generation()
        memory.withLock { $0.forget(generation) }
    }
}
