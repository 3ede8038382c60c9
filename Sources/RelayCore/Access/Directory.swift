package import Records

/// Why the directory could not do what it was asked.
package enum DirectoryError: Error, Hashable, Sendable {
    /// Something of that name is there already.
    case exists(String)
    /// Nothing of that name is there.
    case missing(String)
    /// Asked for what its own rules forbid; the text says which.
    case invalid(String)
    /// The disk or the file refuses; the text is for the log, not for a client.
    case unavailable(String)
    /// A file is not as it was written; the text names it, for the log as well.
    case damaged(String)
}

/// Who is who: what the running relay asks, and the little it adds.
///
/// Every call blocks its thread, for microseconds when it reads and for a disk flush when it writes; callers that are
/// asked often keep what they learnt until `generation` changes. Safe from any thread.
package protocol Directory: Sendable {
    /// A number that is another one once something that was there has been taken away or altered, by this process or a
    /// different one.
    ///
    /// What is only added leaves it: nobody can have kept a wrong answer about that.
    func generation() throws(DirectoryError) -> UInt64
    /// Drawn once for this data folder; web auth tokens are sealed with it.
    ///
    /// 32 bytes.
    func relayKey() throws(DirectoryError) -> [UInt8]

    func hasContainer(_ container: ContainerID) throws(DirectoryError) -> Bool
    /// Does nothing if it is there already.
    func ensureContainer(_ container: ContainerID) throws(DirectoryError)

    /// By the SHA-256 of the token's text.
    ///
    /// Finds revoked ones too.
    func apiToken(hash: [UInt8]) throws(DirectoryError) -> APIToken?
    /// By its public identifier.
    ///
    /// Finds revoked ones too.
    func apiToken(id: String) throws(DirectoryError) -> APIToken?
    /// All of them, revoked ones too.
    func apiTokens() throws(DirectoryError) -> [APIToken]
    /// Finds revoked ones too.
    func session(_ id: Session.ID) throws(DirectoryError) -> Session?
    /// Finds revoked ones too.
    func serverKey(_ id: String) throws(DirectoryError) -> ServerKey?

    func account(_ id: Account.ID) throws(DirectoryError) -> Account?
    func account(email: String) throws(DirectoryError) -> Account?
    /// The account of a `dev-NAME` token, made on first use.
    func devAccount(named name: String) throws(DirectoryError) -> Account
    /// The account if the password is its own and it is not disabled; takes as long for an address nobody has.
    func account(email: String, password: String) throws(DirectoryError) -> Account?
    /// Another one for each password that the account is given, telling nothing of it; empty without a password.
    func passwordMark(of account: Account.ID) throws(DirectoryError) -> [UInt8]

    /// The name this container knows the account by, drawn on first use.
    func user(of account: Account.ID, in home: ContainerEnvironment) throws(DirectoryError) -> UserID
    /// The accounts behind `users`; those that are nobody's in this container are left out.
    func accounts(of users: [UserID], in home: ContainerEnvironment) throws(DirectoryError) -> [UserID: Account]

    /// What `user` is in this container; `nil` for nobody, and for a server key's user.
    func profile(of user: UserID, in home: ContainerEnvironment) throws(DirectoryError) -> UserProfile?
    /// Users of this container by what they are looked for by, discoverable or not.
    ///
    /// Where several people have one address: a discoverable one before others, an account of the relay's own before
    /// foreign ones, then the oldest. `dev-` users are found by address only if `includesDev`.
    func profiles(
        matching lookups: [UserLookup],
        in home: ContainerEnvironment,
        includesDev: Bool
    ) throws(DirectoryError) -> [UserLookup: UserProfile]
    /// Writes down whether the user may be found by others; does nothing if there is no such user.
    func setDiscoverable(_ isDiscoverable: Bool, user: UserID, in home: ContainerEnvironment) throws(DirectoryError)
    /// The containers that know the account, with the name each knows it by.
    func profiles(of account: Account.ID) throws(DirectoryError) -> [(home: ContainerEnvironment, profile: UserProfile)]
    func setName(_ name: PersonName, of account: Account.ID) throws(DirectoryError)
    /// Also ends every sign-in of the account: whoever knew the old password is out.
    func setPassword(_ password: String, of account: Account.ID) throws(DirectoryError)
    /// The account of a person that an issuer vouches for, made or brought up to date.
    func account(for person: ForeignPerson) throws(DirectoryError) -> Account
    /// The issuers a container trusts.
    func issuers(of container: ContainerID) throws(DirectoryError) -> [ForeignIssuer]

    /// Sign-ins that were not ended by anybody, the newest first; some of their tokens may have run out.
    func sessions(of account: Account.ID) throws(DirectoryError) -> [Session]
    /// Writes down that they were used at `now`, in one transaction.
    func noteUse(of sessions: [Session.ID], at now: Timestamp) throws(DirectoryError)
    /// Forgets the sign-ins of one kind that were last used, or ended, longer ago than `age`: before `now`, and before
    /// the last use of any.
    ///
    /// So a clock that jumps ahead ends nothing by itself.
    func removeSessions(_ kind: Session.Kind, unusedFor age: Duration, at now: Timestamp) throws(DirectoryError)
    /// Ends all sign-ins of the account, or those to one container.
    func revokeSessions(of account: Account.ID, in home: ContainerEnvironment?) throws(DirectoryError)
    func addSession(_ session: Session) throws(DirectoryError)
    /// Ends one sign-in; its tokens are refused from then on.
    ///
    /// Does nothing if it is not there.
    func revokeSession(_ id: Session.ID) throws(DirectoryError)
}
