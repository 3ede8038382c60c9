import Crypto
package import Records
package import RelayCore
import Synchronization

/// Signing in with a password, and out again.
extension Authenticator {
    /// Starts a session for whoever this password belongs to.
    ///
    /// A wrong one counts against the address it came from and against the e-mail address it was tried for. Computes for
    /// a quarter of a second.
    package func signIn(
        email: String,
        password: String,
        from address: String,
        in home: ContainerEnvironment,
        kind: Session.Kind
    ) throws(CredentialRefusal) -> (webToken: String, user: UserID) {
        try chargeSignIn(email: email, from: address)
        let account = try checked(email: email, password: password, from: address)
        return try start(account, in: home, kind: kind, discoverable: false)
    }

    /// Counts an attempt before it is made, so that many at once cannot slip past the limit.
    func chargeSignIn(email: String, from address: String) throws(CredentialRefusal) {
        let uptime = time.uptime()
        try remember(at: uptime) { (memory) throws(CredentialRefusal) in
            try memory.chargeSignIn(from: address, for: SignInTarget(email), at: uptime)
        }
    }

    /// The account if the password is its own; the attempt then no longer counts.
    func checked(email: String, password: String, from address: String) throws(CredentialRefusal) -> Account {
        let found = try wrapping { () throws(DirectoryError) in
            try directory.account(email: email, password: password)
        }
        guard let found else { throw .failed }
        let uptime = time.uptime()
        memory.withLock { $0.refundSignIn(from: address, for: SignInTarget(email), at: uptime) }
        return found
    }

    /// Begins a session; where `discoverable`, the person also chose to be found.
    ///
    /// Otherwise their choice stays as it is.
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

    /// Makes the user of a `dev-NAME` token known to the container.
    func meetDevUser(
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

    /// `nil` for one that is disabled or not there.
    func account(_ id: Account.ID) throws(CredentialRefusal) -> Account? {
        let found = try wrapping { () throws(DirectoryError) in try directory.account(id) }
        return found.flatMap { $0.isDisabled ? nil : $0 }
    }

    /// Another one after each change of the password.
    func passwordMark(of account: Account.ID) throws(CredentialRefusal) -> [UInt8] {
        try wrapping { () throws(DirectoryError) in try directory.passwordMark(of: account) }
    }

    /// Also ends every sign-in of the account.
    func setPassword(_ password: String, of account: Account.ID) throws(CredentialRefusal) {
        try wrapping { () throws(DirectoryError) in try directory.setPassword(password, of: account) }
        try forget()
    }

    /// Ends all sign-ins of the account, or those to one container; their tokens are refused from then on.
    package func endSessions(of account: Account.ID, in home: ContainerEnvironment?) throws(CredentialRefusal) {
        try wrapping { () throws(DirectoryError) in try directory.revokeSessions(of: account, in: home) }
        try forget()
    }

    /// Ends the session a request came by; every token of it is refused from then on.
    package func signOut(_ authentication: Authentication) throws(CredentialRefusal) {
        guard case .session(let id, _) = authentication.credential else { return }
        try wrapping { () throws(DirectoryError) in try directory.revokeSession(id) }
        try forget()
    }

    /// Writes down which sign-ins were used since the last call, and forgets those whose tokens have all ended.
    ///
    /// To be called every few minutes; blocks for a disk flush. After a leap of the clock nothing is forgotten for a day.
    package func keepHouse() throws(CredentialRefusal) {
        let used = memory.withLock { $0.takeUsed() }
        let now = time.now()
        let isSteady = calendar.isSteady()
        try wrapping { () throws(DirectoryError) in
            if !used.isEmpty { try directory.noteUse(of: used, at: now) }
            guard isSteady else { return }
            for kind in Session.Kind.allCases {
                // A day more: what was used last may not have been written down before a crash.
                try directory.removeSessions(kind, unusedFor: settings.lifetime(kind) + .seconds(86_400), at: now)
            }
        }
    }

    /// Does at once what would happen within `pollInterval`.
    private func forget() throws(CredentialRefusal) {
        let generation = try generation()
        memory.withLock { $0.forget(generation) }
    }
}

/// The account that somebody tries to sign in to, whether or not there is one: a hash, so that each takes the same room.
struct SignInTarget: Hashable, Sendable {
    private let number: UInt128

    /// Tells one from another, and is no address.
    var text: String { String(number, radix: 16) }

    init(_ email: String) {
        let canonical = AccountRules.canonicalEmail(email) ?? ""
        number = SHA256.hash(data: Array(canonical.utf8)).prefix(16).reduce(0) { $0 << 8 | UInt128($1) }
    }
}

/// Signing in with another's word.
extension Authenticator {
    /// Starts a session for whoever an issuer that the container trusts says this is.
    func signIn(
        identityToken: String,
        from address: String,
        in home: ContainerEnvironment,
        kind: Session.Kind
    ) async throws(CredentialRefusal) -> (webToken: String, user: UserID, expires: Timestamp) {
        let person: ForeignPerson
        do throws(TokenFault) {
            person = try await foreign.person(of: identityToken, in: home.container)
        } catch {
            try chargeFailure(from: address)
            throw .failed
        }
        return try await writingDesk.inTurn { [self] () throws(CredentialRefusal) in
            let account = try wrapping { () throws(DirectoryError) in try directory.account(for: person) }
            guard !account.isDisabled else { throw .failed }
            let started = try start(account, in: home, kind: kind, discoverable: false)
            return (started.webToken, started.user, time.now() + settings.lifetime(kind))
        }
    }
}
