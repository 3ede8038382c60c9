package import Records

/// An error of the directory.
package enum DirectoryError: Error, Hashable, Sendable {
    /// An entry with this name exists already.
    case exists(String)
    /// No entry has this name.
    case missing(String)
    /// The request violates a rule of the directory; the text names it.
    case invalid(String)
    /// The disk or the file cannot be accessed; the text is for the log, not for clients.
    case unavailable(String)
    /// A file is corrupt; the text names it and is for the log, not for clients.
    case damaged(String)
}

/// The accounts, credentials and containers of the relay.
///
/// Every call blocks its thread, for microseconds when it reads and for a disk flush when it writes. Frequent callers
/// cache results until `generation` grows. Safe to call from any thread.
package protocol Directory: Sendable {
    /// Returns a number that grows when an existing entry is removed or modified, by this or another process.
    ///
    /// Adding an entry does not change it; callers must therefore not cache that an entry is absent.
    func generation() throws(DirectoryError) -> UInt64
    /// Calls `body` with the new generation after each such change by this directory object, before the call that made
    /// it returns. Must not block.
    func onRevocation(_ body: @escaping @Sendable (UInt64) -> Void)
    /// Counts attempts together with the other relays on this directory; `nil` if this is the only one.
    var attempts: (any Attempts)? { get }
    /// Returns the 32-byte key of this data folder that seals web auth tokens; random, drawn once.
    func relayKey() throws(DirectoryError) -> [UInt8]

    func hasContainer(_ container: ContainerID) throws(DirectoryError) -> Bool
    /// Returns the name that people see; `nil` if none is set.
    func title(of container: ContainerID) throws(DirectoryError) -> String?
    /// Adds the container if it does not exist.
    func ensureContainer(_ container: ContainerID) throws(DirectoryError)

    /// Finds an API token, revoked or not, by the SHA-256 of its text.
    func apiToken(hash: [UInt8]) throws(DirectoryError) -> APIToken?
    /// Finds an API token, revoked or not, by its public identifier.
    func apiToken(id: String) throws(DirectoryError) -> APIToken?
    /// Returns all API tokens, including revoked ones.
    func apiTokens() throws(DirectoryError) -> [APIToken]
    /// Finds a session, revoked or not.
    func session(_ id: Session.ID) throws(DirectoryError) -> Session?
    /// Finds a server-to-server key, revoked or not.
    func serverKey(_ id: String) throws(DirectoryError) -> ServerKey?

    func account(_ id: Account.ID) throws(DirectoryError) -> Account?
    func account(email: String) throws(DirectoryError) -> Account?
    /// Returns the account of a `dev-NAME` token, creating it on first use.
    func devAccount(named name: String) throws(DirectoryError) -> Account
    /// Returns the account if the password is correct and the account is not disabled.
    ///
    /// Takes equally long if no account has the address.
    func account(email: String, password: String) throws(DirectoryError) -> Account?
    /// Returns a value that changes with each new password and reveals nothing about it; empty without a password.
    func passwordFingerprint(of account: Account.ID) throws(DirectoryError) -> [UInt8]

    /// Returns the account's user ID in this container, drawn on first use.
    func user(of account: Account.ID, in home: ContainerEnvironment) throws(DirectoryError) -> UserID
    /// Returns the accounts of these users; users unknown in this container are left out.
    func accounts(of users: [UserID], in home: ContainerEnvironment) throws(DirectoryError) -> [UserID: Account]

    /// Returns the profile of a user in this container; `nil` for an unknown user and for a server key's user.
    func profile(of user: UserID, in home: ContainerEnvironment) throws(DirectoryError) -> UserProfile?
    /// Finds users of this container, discoverable or not.
    ///
    /// If several people have one address, a discoverable one comes first, then accounts of the relay before foreign
    /// ones, then the oldest. `dev-` users are found by address only if `includesDev` is set.
    func profiles(
        matching lookups: [UserLookup],
        in home: ContainerEnvironment,
        includesDev: Bool
    ) throws(DirectoryError) -> [UserLookup: UserProfile]
    /// Sets whether other users can find the user; does nothing if the user does not exist.
    func setDiscoverable(_ isDiscoverable: Bool, user: UserID, in home: ContainerEnvironment) throws(DirectoryError)
    /// Returns the containers that know the account, with the account's profile in each.
    func profiles(of account: Account.ID) throws(DirectoryError) -> [(home: ContainerEnvironment, profile: UserProfile)]
    func setName(_ name: PersonName, of account: Account.ID) throws(DirectoryError)
    /// Sets the password and revokes every session of the account, so that knowing the old password is of no more use.
    func setPassword(_ password: String, of account: Account.ID) throws(DirectoryError)
    /// Returns the account of a person whom a foreign issuer vouches for, created or updated.
    func account(for person: ExternalIdentity) throws(DirectoryError) -> Account
    /// Returns the issuers that a container trusts.
    func issuers(of container: ContainerID) throws(DirectoryError) -> [TokenIssuer]
    /// The one of them that has this name.
    func issuer(named name: String, of container: ContainerID) throws(DirectoryError) -> TrustedIssuer?

    /// Returns the sessions that are not revoked, newest first; their tokens may have expired.
    func sessions(of account: Account.ID) throws(DirectoryError) -> [Session]
    /// Records that these sessions were used at `now`, in one transaction.
    func noteUse(of sessions: [Session.ID], at now: Timestamp) throws(DirectoryError)
    /// Deletes the sessions of one kind that were last used or revoked more than `age` ago.
    ///
    /// The age is measured from `now` or from the latest use of any session, whichever is earlier, so that a clock that
    /// jumps ahead ends no session.
    func removeSessions(_ kind: Session.Kind, unusedFor age: Duration, at now: Timestamp) throws(DirectoryError)
    /// Revokes all sessions of the account, or only those in one container.
    func revokeSessions(of account: Account.ID, in home: ContainerEnvironment?) throws(DirectoryError)
    func addSession(_ session: Session) throws(DirectoryError)
    /// Revokes a session, whose tokens are rejected from then on; does nothing if it does not exist.
    func revokeSession(_ id: Session.ID) throws(DirectoryError)
}

extension Directory {
    package var attempts: (any Attempts)? { nil }
}
