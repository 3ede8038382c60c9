import Crypto
package import Records
package import RelayCore
import Synchronization

/// Sign-in with a password, and sign-out.
extension Authenticator {
    /// Starts a session for the account with this e-mail address and password.
    ///
    /// A wrong password counts against the client's address and against the e-mail address. Computes for about 250 ms.
    package func signIn(
        email: String,
        password: String,
        from address: String,
        in home: ContainerEnvironment,
        kind: Session.Kind
    ) throws(CredentialRefusal) -> (webToken: String, user: UserID) {
        try chargeSignIn(email: email, from: address)
        let account = try verifiedAccount(email: email, password: password, from: address)
        return try start(account, in: home, kind: kind, discoverable: false)
    }

    /// Counts an attempt before the password is checked, so that concurrent attempts cannot exceed the limit.
    func chargeSignIn(email: String, from address: String) throws(CredentialRefusal) {
        let uptime = time.uptime()
        try withCache(at: uptime) { (cache) throws(CredentialRefusal) in
            try cache.chargeSignIn(from: address, for: SignInTarget(email), at: uptime)
        }
        guard let attempts else { return }
        for count in sharedCounts(of: email, from: address) {
            let wait = try wrapping { () throws(DirectoryError) in try attempts.take(count.key, of: count.limit) }
            guard let wait else { continue }
            cache.withLock { $0.noteHit(count.rate, count.subject, at: uptime) }
            throw .throttled(retryAfter: wait)
        }
    }

    /// A limit of failed sign-ins, as several relays count it together.
    private struct SharedCount {
        var rate: RateName
        var subject: RateSubject
        var key: String
        var limit: RateLimit
    }

    private func sharedCounts(of email: String, from address: String) -> [SharedCount] {
        let (peer, target) = (PeerKey(address).text, SignInTarget(email).text)
        return [
            settings.failedSignInRate.map {
                SharedCount(rate: .failedSignIns, subject: .address(peer), key: "sign-in address \(peer)", limit: $0)
            },
            settings.failedSignInRatePerAccount.map {
                SharedCount(
                    rate: .failedSignInsOfAccount,
                    subject: .account(target),
                    key: "sign-in account \(target)",
                    limit: $0
                )
            },
        ].compactMap { $0 }
    }

    /// Returns the account if the password is correct; the attempt is then no longer counted.
    func verifiedAccount(email: String, password: String, from address: String) throws(CredentialRefusal) -> Account {
        let found = try wrapping { () throws(DirectoryError) in
            try directory.account(email: email, password: password)
        }
        guard let found else { throw .failed }
        let uptime = time.uptime()
        cache.withLock { $0.refundSignIn(from: address, for: SignInTarget(email), at: uptime) }
        // An attempt that stays counted leaves fewer to the next ones, for a while.
        if let attempts {
            for count in sharedCounts(of: email, from: address) { try? attempts.giveBack(count.key, of: count.limit) }
        }
        return found
    }

    /// Starts a session; if `discoverable`, also makes the user discoverable.
    ///
    /// Otherwise that setting does not change.
    func start(
        _ account: Account,
        in home: ContainerEnvironment,
        kind: Session.Kind,
        discoverable: Bool
    ) throws(CredentialRefusal) -> (webToken: String, user: UserID) {
        try wrapping { () throws(DirectoryError) in
            let started = try SignIn.start(
                for: account.id,
                in: home,
                kind: kind,
                directory: directory,
                time: time,
                random: random
            )
            if discoverable { try directory.setDiscoverable(true, user: started.user, in: home) }
            return (started.webToken, started.user)
        }
    }

    /// Creates the user of a `dev-NAME` token in the container.
    func ensureDevUser(
        _ name: String,
        in home: ContainerEnvironment,
        discoverable: Bool
    ) throws(CredentialRefusal) {
        try wrapping { () throws(DirectoryError) in
            try directory.ensureContainer(home.container)
            let user = try directory.user(of: try directory.devAccount(named: name).id, in: home)
            if discoverable { try directory.setDiscoverable(true, user: user, in: home) }
        }
    }

    /// Returns the name of a container that pages show.
    func title(of container: ContainerID) -> String { (try? directory.title(of: container)) ?? container.name }

    /// Returns an account; `nil` if it is disabled or does not exist.
    func account(_ id: Account.ID) throws(CredentialRefusal) -> Account? {
        let found = try wrapping { () throws(DirectoryError) in try directory.account(id) }
        return found.flatMap { $0.isDisabled ? nil : $0 }
    }

    /// Returns a value that changes with each change of the password.
    func passwordFingerprint(of account: Account.ID) throws(CredentialRefusal) -> [UInt8] {
        try wrapping { () throws(DirectoryError) in try directory.passwordFingerprint(of: account) }
    }

    /// Sets the password and ends all sessions of the account.
    func setPassword(_ password: String, of account: Account.ID) throws(CredentialRefusal) {
        try wrapping { () throws(DirectoryError) in try directory.setPassword(password, of: account) }
    }

    /// Ends all sessions of the account, or those of one container; their tokens are refused from then on.
    package func endSessions(of account: Account.ID, in home: ContainerEnvironment?) throws(CredentialRefusal) {
        try wrapping { () throws(DirectoryError) in try directory.revokeSessions(of: account, in: home) }
    }

    /// Ends the session of a request; all its tokens are refused from then on.
    package func signOut(_ authentication: Authentication) throws(CredentialRefusal) {
        guard case .session(let id, _) = authentication.credential else { return }
        try wrapping { () throws(DirectoryError) in try directory.revokeSession(id) }
    }

    /// Records which sessions were used since the last call, and deletes those whose tokens have all expired.
    ///
    /// Call every few minutes; blocks for a disk flush. After a jump of the wall clock, nothing is deleted for a day.
    package func maintainSessions() throws(CredentialRefusal) {
        let used = cache.withLock { $0.takeUsed() }
        let now = time.now()
        let isReliable = clockJumps.isReliable()
        try wrapping { () throws(DirectoryError) in
            if !used.isEmpty { try directory.noteUse(of: used, at: now) }
            try attempts?.removeExpired()
            guard isReliable else { return }
            for kind in Session.Kind.allCases {
                // One more day, because the latest use may have been lost in a crash.
                try directory.removeSessions(kind, unusedFor: settings.lifetime(kind) + .seconds(86_400), at: now)
            }
        }
    }
}

/// The account of a sign-in attempt, whether or not it exists, as a hash of constant size.
struct SignInTarget: Hashable, Sendable {
    private let number: UInt128

    /// Identifies the account without revealing its address.
    var text: String { String(number, radix: 16) }

    init(_ email: String) {
        let canonical = AccountRules.canonicalEmail(email) ?? ""
        number = SHA256.hash(data: Array(canonical.utf8)).prefix(16).reduce(0) { $0 << 8 | UInt128($1) }
    }
}

/// Sign-in with an identity token of a foreign issuer.
extension Authenticator {
    /// Starts a session for the subject of an identity token from an issuer that the container trusts.
    func signIn(
        identityToken: String,
        from address: String,
        in home: ContainerEnvironment,
        kind: Session.Kind
    ) async throws(CredentialRefusal) -> (webToken: String, user: UserID, expires: Timestamp) {
        let person: ExternalIdentity
        do throws(TokenFault) {
            guard let identityTokens else { throw .unknownIssuer }
            person = try await identityTokens.person(of: identityToken, in: home.container)
        } catch {
            try chargeFailure(from: address)
            throw .failed
        }
        return try await accountQueue.enqueue { [self] () throws(CredentialRefusal) in
            let account = try wrapping { () throws(DirectoryError) in try directory.account(for: person) }
            guard !account.isDisabled else { throw .failed }
            let started = try start(account, in: home, kind: kind, discoverable: false)
            return (started.webToken, started.user, time.now() + settings.lifetime(kind))
        }
    }
}
