package import Records

/// The directory with everything that changes it: what the console and the commands use.
///
/// The relay and commands may use it at the same time. Every change is durable when the call returns.
package protocol AccountDirectory: Directory, OperatorDirectory, PushDeviceStore {
    // MARK: Containers
    /// Throws `exists` if the name is taken.
    func addContainer(_ container: ContainerID) throws(DirectoryError)
    /// Deletes a container with its tokens, keys, issuers, sessions and devices; the caller removes its files.
    ///
    /// A running relay with `--dev` must then call `forgetSeen`.
    func removeContainer(_ container: ContainerID) throws(DirectoryError)
    /// Drops the knowledge that a container exists, after another process may have deleted it.
    func forgetSeen(_ container: ContainerID)
    /// Returns all containers by name, each with the time it was created.
    func containers() throws(DirectoryError) -> [(container: ContainerID, created: Timestamp)]
    /// Sets the name that people see on the sign-in and share pages; `nil` or an empty text shows the container's ID.
    func setTitle(_ title: String?, of container: ContainerID) throws(DirectoryError)

    // MARK: Tokens and keys
    /// Creates a token and returns its text, which is not stored.
    func addAPIToken(
        in home: ContainerEnvironment,
        name: String,
        notes: String,
        callbackURL: String?,
        allowedOrigins: [String]
    ) throws(DirectoryError) -> (text: String, token: APIToken)
    /// Revokes a token by its ID or its text.
    ///
    /// Does nothing if it is already revoked.
    func revokeAPIToken(_ name: String) throws(DirectoryError)
    /// Deletes a token by its ID; for one that was needed for a moment only.
    func removeAPIToken(_ id: String) throws(DirectoryError)
    /// Adds a P-256 public key in PEM form (SPKI), with a new ID.
    ///
    /// The key gets a user of its own, unless it replaces another key and continues as that key's `user`.
    func addServerKey(
        in home: ContainerEnvironment,
        name: String,
        publicKeyPEM: String,
        user: UserID?
    ) throws(DirectoryError) -> ServerKey
    /// Returns all server keys, including revoked ones, oldest first.
    func serverKeys() throws(DirectoryError) -> [ServerKey]
    /// Revokes a server key; does nothing if it is already revoked.
    func revokeServerKey(_ id: String) throws(DirectoryError)
    /// Creates a token and returns its text, which is not stored.
    func addManagementToken(
        for container: ContainerID,
        name: String,
        expires: Timestamp?
    ) throws(DirectoryError) -> (text: String, token: ManagementToken)
    /// Returns all management tokens, including expired and revoked ones, oldest first.
    func managementTokens() throws(DirectoryError) -> [ManagementToken]
    /// Returns the token with this text if it is valid; records its use once a minute.
    func managementToken(_ text: String) throws(DirectoryError) -> ManagementToken?
    /// Revokes a token by its ID; does nothing if it is already revoked.
    func revokeManagementToken(_ id: String) throws(DirectoryError)

    // MARK: Accounts
    /// Returns all accounts, in the order of their creation.
    func accounts() throws(DirectoryError) -> [Account]
    /// Throws if the address is taken or is not an address, or if the password has a wrong length.
    @discardableResult
    func addAccount(email: String, password: String) throws(DirectoryError) -> Account
    /// Disables or enables an account; disabling ends all of its sessions, and enabling restores none.
    func setDisabled(_ isDisabled: Bool, of account: Account.ID) throws(DirectoryError)
    /// Deletes an account, its sessions and its devices; its user names in containers are not used again.
    func removeAccount(_ account: Account.ID) throws(DirectoryError)
    /// Sets or, with `nil`, removes the telephone number of an account.
    ///
    /// Throws `invalid` if the text cannot be a telephone number.
    func setPhone(_ phone: String?, of account: Account.ID) throws(DirectoryError)

    // MARK: Issuers
    /// Returns the issuers of all containers.
    func issuers() throws(DirectoryError) -> [TokenIssuer]
    /// Adds an issuer, replacing one of the same name, and gives it a greater revision.
    func putIssuer(_ issuer: TokenIssuer) throws(DirectoryError)
    /// Removes an issuer, and ends the sessions of its users in the container.
    func removeIssuer(_ issuer: String, of container: ContainerID) throws(DirectoryError)

    // MARK: Quotas
    /// Sets how many bytes the user's private database may hold in each container.
    ///
    /// `Int64.max` means no limit, `nil` the configured limit. Takes effect in a running relay within a second.
    func setPrivateQuota(_ bytes: Int64?, of account: Account.ID) throws(DirectoryError)
    func privateQuota(of account: Account.ID) throws(DirectoryError) -> Int64?
    /// Sets the limits of a container and environment; an empty quota removes them.
    ///
    /// Takes effect in a running relay within a second.
    ///
    /// - Throws: `missing` if there is no such container.
    func setQuota(_ quota: ContainerQuota, of home: ContainerEnvironment) throws(DirectoryError)
    func quota(of home: ContainerEnvironment) throws(DirectoryError) -> ContainerQuota
    /// Returns all of these limits; the cost grows with the number of such users and containers.
    func ownQuotas() throws(DirectoryError) -> QuotaOverrides
}

extension AccountDirectory {
    /// Adds a P-256 public key in PEM form, with a new ID and a user of its own.
    package func addServerKey(
        in home: ContainerEnvironment,
        name: String,
        publicKeyPEM: String
    ) throws(DirectoryError) -> ServerKey {
        try addServerKey(in: home, name: name, publicKeyPEM: publicKeyPEM, user: nil)
    }

    /// Throws `missing` if the container does not exist.
    package func requireContainer(_ container: ContainerID) throws(DirectoryError) {
        guard try hasContainer(container) else { throw .missing("container \(container)") }
    }
}
