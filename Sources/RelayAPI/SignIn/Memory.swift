import Crypto
import Records
import RelayCore

/// A credential pair as it came, which one grant answers for.
///
/// A class that is hashed once: the same head shows the same pair request after request.
final class GrantKey: Hashable, Sendable {
    let home: ContainerEnvironment
    /// Still percent-encoded; empty: none.
    let apiToken: String
    /// Still percent-encoded; empty: none.
    let webToken: String
    private let hash: Int

    init(home: ContainerEnvironment, _ shown: PresentedCredentials) {
        self.home = home
        apiToken = shown.apiToken ?? ""
        webToken = shown.webToken ?? ""
        var hasher = Hasher()
        hasher.combine(home)
        hasher.combine(apiToken)
        hasher.combine(webToken)
        hash = hasher.finalize()
    }

    static func == (a: GrantKey, b: GrantKey) -> Bool {
        a === b || (a.hash == b.hash && a.webToken == b.webToken && a.apiToken == b.apiToken && a.home == b.home)
    }

    func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

/// What is kept of an API token found good.
struct KnownAPIToken: Sendable {
    var id: String
    var hash: [UInt8]
    var home: ContainerEnvironment
    var allowedOrigins: [String]

    init(_ token: APIToken, hash: [UInt8]) {
        id = token.id
        self.hash = hash
        home = token.home
        allowedOrigins = token.allowedOrigins
    }
}

/// What is kept of a session found good.
struct KnownSession: Sendable {
    var home: ContainerEnvironment
    var account: Account.ID
    var user: UserID
    var kind: Session.Kind
    var seal: WebTokenSeal
    /// The same for all tokens of the session, and telling nothing about them.
    var deviceID: String
    /// Revoked, or the account disabled.
    var isOver: Bool
    /// The whole of the token that was found to be this relay's last.
    var lastGood: [UInt8]?

    init(_ session: Session, user: UserID, seal: WebTokenSeal, isOver: Bool) {
        home = session.home
        account = session.account
        self.user = user
        kind = session.kind
        self.seal = seal
        self.isOver = isOver
        deviceID = withUnsafeBytes(of: session.id.number) { Hex.encode(SHA256.hash(data: $0).prefix(16)).uppercased() }
    }
}

/// What is kept of a server key found good.
struct KnownServerKey: Sendable {
    var home: ContainerEnvironment
    var user: UserID
    var publicKey: P256.Signing.PublicKey
}

/// A credential pair found good.
///
/// A class, since every request of its sign-in goes by the same one.
final class Grant: Sendable {
    let identity: Caller.Identity
    let deviceID: String
    let token: KnownAPIToken?
    let credential: Credential
    let account: Account.ID?
    /// When the web auth token presented ends; `nil`: never.
    let expires: Timestamp?
    /// What tells the web auth token presented from every other, however it is spelled; `nil` where nothing rotates.
    let mark: [UInt8]?
    /// `nil` where nothing rotates.
    let session: KnownSession?

    init(
        identity: Caller.Identity,
        deviceID: String,
        token: KnownAPIToken? = nil,
        credential: Credential,
        account: Account.ID? = nil,
        expires: Timestamp? = nil,
        mark: [UInt8]? = nil,
        session: KnownSession? = nil
    ) {
        self.identity = identity
        self.deviceID = deviceID
        self.token = token
        self.credential = credential
        self.account = account
        self.expires = expires
        self.mark = mark
        self.session = session
    }
}

/// A grant that is remembered, and what its uses leave behind.
struct KnownGrant: Sendable {
    let grant: Grant
    var successor: Successor?

    /// The web auth token that answers carry for now.
    struct Successor: Sendable {
        var text: String
        var minted: Duration
        var expires: Timestamp
    }
}

/// A grant and the fresh token that goes with this use of it.
struct Granted: Sendable {
    var grant: Grant
    var freshWebToken: String?
    var freshExpires: Timestamp?
}

/// All an `Authenticator` keeps between requests.
///
/// Every part is bounded.
struct Memory: Sendable {
    var generation: UInt64
    /// When the directory was last asked for its generation, by uptime.
    var polled = Duration.seconds(-3600)
    var grants = GenerationalCache<GrantKey, KnownGrant>(capacity: 8192)
    var sessions = GenerationalCache<Session.ID, KnownSession>(capacity: 8192)
    var apiTokens = GenerationalCache<String, KnownAPIToken>(capacity: 1024)
    var serverKeys = GenerationalCache<String, KnownServerKey>(capacity: 1024)
    var signatures = SeenSignatures()
    private var users: TokenBuckets<UserID>?
    private var addresses: TokenBuckets<PeerKey>?
    private var failures: TokenBuckets<PeerKey>?
    private var targets: TokenBuckets<SignInTarget>?
    private var refusals: TokenBuckets<PeerKey>?
    /// Who ran into one of these.
    private(set) var hits = RateHits()
    /// When tokens were first succeeded, by their marks and by uptime: the one thing that must outlive a `forget`.
    private var succeeded = GenerationalCache<[UInt8], Duration>(capacity: 8192)
    /// Sign-ins that fresh tokens were made for since somebody asked.
    ///
    /// Past the bound some uses go unnoted, which only makes a sign-in look older by minutes.
    private var used: Set<Session.ID> = []
    private static let mostUsed = 100_000
    private let keepsSucceeded: Bool

    init(settings: SignInSettings, generation: UInt64) {
        self.generation = generation
        users = settings.requestRate.map { TokenBuckets($0) }
        addresses = settings.requestRate.map { TokenBuckets($0) }
        failures = settings.failedSignInRate.map { TokenBuckets($0) }
        targets = settings.failedSignInRatePerAccount.map { TokenBuckets($0) }
        refusals = settings.failedCredentialRate.map { TokenBuckets($0) }
        keepsSucceeded = settings.grace != nil
    }

    /// Something was revoked: nothing found good before counts any more.
    mutating func forget(_ newGeneration: UInt64) {
        generation = newGeneration
        if Self.forgetsSignIns {
            grants.removeAll()
            sessions.removeAll()
        }
        apiTokens.removeAll()
        serverKeys.removeAll()
    }

    mutating func noteUse(_ session: Session.ID) {
        if used.count < Self.mostUsed { used.insert(session) }
    }

    /// The sign-ins used since the last call.
    mutating func takeUsed() -> [Session.ID] {
        defer { used.removeAll(keepingCapacity: true) }
        return Array(used)
    }

    mutating func store(_ grant: Grant, for key: GrantKey) {
        grants[key] = KnownGrant(grant: grant)
    }

    /// Uses the grant known for `key` once; `nil` if none is known.
    mutating func use(
        _ key: GrantKey,
        from address: String,
        at uptime: Duration,
        _ now: Timestamp,
        _ authenticator: Authenticator
    ) throws(CredentialRefusal) -> Granted? {
        guard var known = grants[key] else { return nil }
        let grant = known.grant
        let settings = authenticator.settings
        if let end = grant.expires, now >= end { throw .ended }
        if isSpent(grant, at: uptime, settings) { throw .ended }
        try charge(grant.identity, from: address, at: uptime)
        guard let session = grant.session else { return Granted(grant: grant) }
        if let successor = known.successor, uptime - successor.minted < Authenticator.mintInterval {
            return Granted(grant: grant, freshWebToken: successor.text, freshExpires: successor.expires)
        }
        let successor = KnownGrant.Successor(
            text: session.seal.token(issued: now, nonce: authenticator.random.bytes(8)),
            minted: uptime,
            expires: now + settings.lifetime(session.kind)
        )
        known.successor = successor
        noteUse(session.seal.session)
        if keepsSucceeded, let mark = grant.mark, succeeded[mark] == nil { succeeded[mark] = uptime }
        grants[key] = known
        return Granted(grant: grant, freshWebToken: successor.text, freshExpires: successor.expires)
    }

    /// Whether the token has had a successor for longer than it may still be used beside it.
    mutating func isSpent(_ grant: Grant, at uptime: Duration, _ settings: SignInSettings) -> Bool {
        guard let grace = settings.grace, let mark = grant.mark, let since = succeeded[mark] else { return false }
        return uptime - since > grace
    }

    /// Counts one request of a user, or of an address that nobody has signed in at.
    mutating func charge(
        _ identity: Caller.Identity,
        from address: String,
        at uptime: Duration
    ) throws(CredentialRefusal) {
        let wait =
            switch identity {
            case .user(let user), .serverKey(let user), .operator(let user): users?.take(user, at: uptime)
            case .anonymous: addresses?.take(PeerKey(address), at: uptime)
            }
        guard let wait else { return }
        switch identity {
        case .user(let user), .serverKey(let user), .operator(let user): hits.note(.requests, .user(user), at: uptime)
        case .anonymous: hits.note(.requests, .address(PeerKey(address).text), at: uptime)
        }
        throw .throttled(retryAfter: wait)
    }

    /// Counts a request from `address` whose credentials were none; says how long to wait if that was one too many.
    mutating func chargeFailure(from address: String, at uptime: Duration) -> Duration? {
        guard let wait = refusals?.take(PeerKey(address), at: uptime) else { return nil }
        hits.note(.failedCredentials, .address(PeerKey(address).text), at: uptime)
        return wait
    }

    /// Counts one password tried from `address`, as if it were wrong.
    mutating func chargeSignIn(
        from address: String,
        for target: SignInTarget,
        at uptime: Duration
    ) throws(CredentialRefusal) {
        if let wait = failures?.take(PeerKey(address), at: uptime) {
            hits.note(.failedSignIns, .address(PeerKey(address).text), at: uptime)
            throw .throttled(retryAfter: wait)
        }
        if let wait = targets?.take(target, at: uptime) {
            hits.note(.failedSignInsOfAccount, .account(target.text), at: uptime)
            throw .throttled(retryAfter: wait)
        }
    }

    /// The password was right after all.
    mutating func refundSignIn(from address: String, for target: SignInTarget, at uptime: Duration) {
        failures?.giveBack(PeerKey(address), at: uptime)
        targets?.giveBack(target, at: uptime)
    }
}
