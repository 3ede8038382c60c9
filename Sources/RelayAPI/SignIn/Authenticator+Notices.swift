package import Records
import RelayCore
import Synchronization

/// Authentication of notice sockets, and the later checks of open ones.
///
/// See Notices.md, "Connecting" and "Order and merging".
extension Authenticator {
    /// Authenticates a socket by its upgrade request: a signature, a `Bearer` header beside the API token, or both
    /// tokens in the query.
    ///
    /// Returns `nil` if nothing in it names a user; the hello must then do so.
    package func authenticateUpgrade(
        _ request: APIRequest,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> Authentication? {
        let presented = request.head.parsedHead.presented
        return try countingFailures(from: request.remoteAddress) { () throws(CredentialRefusal) in
            if presented.signature.isPresent { return try authenticateSigned(request, presented, in: home) }
            guard presented.bearer != nil || presented.webToken != nil else { return nil }
            guard !presented.isAmbiguous else { throw .failed }
            return try authenticateSocket(presented, in: home)
        }
    }

    /// Authenticates a socket by its hello, whose tokens are not percent-encoded.
    ///
    /// If the hello has no API token, the one in the upgrade request's query is used.
    package func authenticateHello(
        apiToken: String?,
        webToken: String?,
        deviceID: String?,
        upgrade request: APIRequest,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> Authentication {
        var presented = request.head.parsedHead.presented
        guard !presented.isAmbiguous else { throw .failed }
        if let apiToken { presented.apiToken = PercentCoding.encode(apiToken) }
        presented.bearer = webToken
        if let deviceID { presented.deviceID = deviceID }
        return try countingFailures(from: request.remoteAddress) { () throws(CredentialRefusal) in
            try authenticateSocket(presented, in: home)
        }
    }

    /// Returns whether `credential` is still valid.
    ///
    /// Reads the directory; does not consider the expiry of tokens.
    package func isStillValid(_ credential: Credential) throws(CredentialRefusal) -> Bool {
        try wrapping { () throws(DirectoryError) in
            switch credential {
            case .apiToken(let hash): return try isValid(apiToken: hash)
            case .serverKey(let id):
                guard let key = try directory.serverKey(id) else { return false }
                return key.revoked == nil
            case .dev(let account): return try isValid(account)
            case .session(let id, let hash):
                guard try isValid(id) else { return false }
                return try isValid(apiToken: hash)
            }
        }
    }

    /// Returns whether a session is still valid, independent of its API token.
    func isStillValid(_ id: Session.ID) throws(CredentialRefusal) -> Bool {
        try wrapping { () throws(DirectoryError) in try isValid(id) }
    }

    private func isValid(_ id: Session.ID) throws(DirectoryError) -> Bool {
        guard let session = try directory.session(id), session.revoked == nil else { return false }
        return session.isValid(for: try directory.account(session.account))
    }

    /// An empty hash is valid only on a `--dev` relay, which admits requests without an API token.
    private func isValid(apiToken hash: [UInt8]) throws(DirectoryError) -> Bool {
        guard !hash.isEmpty else { return settings.acceptsDevTokens }
        guard let token = try directory.apiToken(hash: hash) else { return false }
        return token.revoked == nil
    }

    private func isValid(_ account: Account.ID?) throws(DirectoryError) -> Bool {
        guard let account else { return true }
        guard let found = try directory.account(account) else { return false }
        return !found.isDisabled
    }

    /// Returns a new token for an open socket's session; `nil` if nothing rotates or the session is over.
    ///
    /// Reads a few rows of the directory.
    package func renew(_ authentication: Authentication) throws(CredentialRefusal) -> RenewedToken? {
        guard let seal = authentication.seal, try isStillValid(authentication.credential) else { return nil }
        guard let session = try wrapping({ () throws(DirectoryError) in try directory.session(seal.session) }) else {
            return nil
        }
        cache.withLock { $0.noteUse(session.id) }
        return RenewedToken(
            webAuthToken: seal.token(issued: time.now(), nonce: random.bytes(8)),
            life: settings.lifetime(session.kind)
        )
    }

    /// Not cached and not charged to the user's rate, since sockets are opened seldom and stay open for long.
    private func authenticateSocket(
        _ presented: PresentedCredentials,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> Authentication {
        var presented = presented
        if let bearer = presented.bearer { presented.webToken = PercentCoding.encode(bearer) }
        let uptime = time.uptime()
        let grant = try verify(presented, in: home, at: uptime)
        if let end = grant.expires, time.now() >= end { throw .expired }
        if cache.withLock({ $0.isSpent(grant, at: uptime, settings) }) { throw .ended }
        return try authentication(grant, nil, presented, in: home)
    }
}
