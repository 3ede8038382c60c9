import Crypto
import Records
import RelayCore

/// The cache key of a grant: a pair of credentials as received.
///
/// A class that is hashed only once, since the requests of one head have the same pair.
final class GrantKey: Hashable, Sendable {
    let home: ContainerEnvironment
    /// Percent-encoded; empty if there is none.
    let apiToken: String
    /// Percent-encoded; empty if there is none.
    let webToken: String
    private let hash: Int

    init(home: ContainerEnvironment, _ presented: PresentedCredentials) {
        self.home = home
        apiToken = presented.apiToken ?? ""
        webToken = presented.webToken ?? ""
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

/// The cached part of a valid API token.
struct CachedAPIToken: Sendable {
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

/// The cached part of a valid session.
struct CachedSession: Sendable {
    var home: ContainerEnvironment
    var account: Account.ID
    var user: UserID
    var kind: Session.Kind
    var seal: WebTokenSeal
    /// The same for all tokens of the session; reveals nothing about them.
    var deviceID: String
    /// Whether the session is revoked or the account disabled.
    var isOver: Bool
    /// The complete token that was last verified.
    var lastVerified: [UInt8]?

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

/// The cached part of a valid server-to-server key.
struct CachedServerKey: Sendable {
    var home: ContainerEnvironment
    var user: UserID
    var publicKey: P256.Signing.PublicKey
}

/// A valid pair of credentials.
///
/// A class because all requests with these credentials share it.
final class Grant: Sendable {
    let identity: Caller.Identity
    let deviceID: String
    let token: CachedAPIToken?
    let credential: Credential
    let account: Account.ID?
    /// When the web auth token expires; `nil`: never.
    let expires: Timestamp?
    /// Identifies the web auth token independent of its encoding; `nil` if nothing rotates.
    let tag: [UInt8]?
    /// `nil` if nothing rotates.
    let session: CachedSession?

    init(
        identity: Caller.Identity,
        deviceID: String,
        token: CachedAPIToken? = nil,
        credential: Credential,
        account: Account.ID? = nil,
        expires: Timestamp? = nil,
        tag: [UInt8]? = nil,
        session: CachedSession? = nil
    ) {
        self.identity = identity
        self.deviceID = deviceID
        self.token = token
        self.credential = credential
        self.account = account
        self.expires = expires
        self.tag = tag
        self.session = session
    }
}

/// A cached grant and its current new token.
struct CachedGrant: Sendable {
    let grant: Grant
    var successor: Successor?

    /// The web auth token that responses contain at present.
    struct Successor: Sendable {
        var text: String
        var minted: Duration
        var expires: Timestamp
    }
}

/// A grant and the new token for this use of it.
struct GrantUse: Sendable {
    var grant: Grant
    var freshWebToken: String?
    var freshExpires: Timestamp?
}

/// The cache of an `Authenticator`.
///
/// All parts are bounded.
struct CredentialCache: Sendable {
    var generation: UInt64
    /// When the directory's generation was last read, by uptime.
    var polled = Duration.seconds(-3600)
    var grants = GenerationalCache<GrantKey, CachedGrant>(capacity: 8192)
    var sessions = GenerationalCache<Session.ID, CachedSession>(capacity: 8192)
    var apiTokens = GenerationalCache<String, CachedAPIToken>(capacity: 1024)
    var serverKeys = GenerationalCache<String, CachedServerKey>(capacity: 1024)
    var signatures = SeenSignatures()
    private var users: TokenBuckets<UserID>?
    private var addresses: TokenBuckets<PeerKey>?
    private var failures: TokenBuckets<PeerKey>?
    private var targets: TokenBuckets<SignInTarget>?
    private var refusals: TokenBuckets<PeerKey>?
    /// The callers who exceeded one of these rates.
    private(set) var hits = RateHits()
    /// When the first new token was issued for a token, by its mark and uptime; the only part that must survive
    /// `invalidate`.
    private var succeeded = GenerationalCache<[UInt8], Duration>(capacity: 8192)
    /// The sessions for which new tokens were issued since the last `takeUsed`.
    ///
    /// Above the bound some uses are not recorded, which only makes a session appear unused for some minutes longer.
    private var used: Set<Session.ID> = []
    private static let maxUsedSessions = 100_000
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

    /// Clears the cached credentials, because something was revoked.
    mutating func invalidate(_ newGeneration: UInt64) {
        generation = newGeneration
        if Self.clearsSessions {
            grants.removeAll()
            sessions.removeAll()
        }
        apiTokens.removeAll()
        serverKeys.removeAll()
    }

    mutating func noteUse(_ session: Session.ID) {
        if used.count < Self.maxUsedSessions { used.insert(session) }
    }

    /// Returns the sessions used since the last call.
    mutating func takeUsed() -> [Session.ID] {
        defer { used.removeAll(keepingCapacity: true) }
        return Array(used)
    }

    mutating func store(_ grant: Grant, for key: GrantKey) {
        grants[key] = CachedGrant(grant: grant)
    }

    /// Uses the cached grant for `key`; returns `nil` if there is none.
    mutating func use(
        _ key: GrantKey,
        from address: String,
        at uptime: Duration,
        _ now: Timestamp,
        _ authenticator: Authenticator
    ) throws(CredentialRefusal) -> GrantUse? {
        guard var known = grants[key] else { return nil }
        let grant = known.grant
        let settings = authenticator.settings
        if let end = grant.expires, now >= end { throw .ended }
        if isSpent(grant, at: uptime, settings) { throw .ended }
        try charge(grant.identity, from: address, at: uptime)
        guard let session = grant.session else { return GrantUse(grant: grant) }
        if let successor = known.successor, uptime - successor.minted < Authenticator.mintInterval {
            return GrantUse(grant: grant, freshWebToken: successor.text, freshExpires: successor.expires)
        }
        let successor = CachedGrant.Successor(
            text: session.seal.token(issued: now, nonce: authenticator.random.bytes(8)),
            minted: uptime,
            expires: now + settings.lifetime(session.kind)
        )
        known.successor = successor
        noteUse(session.seal.session)
        if keepsSucceeded, let tag = grant.tag, succeeded[tag] == nil { succeeded[tag] = uptime }
        grants[key] = known
        return GrantUse(grant: grant, freshWebToken: successor.text, freshExpires: successor.expires)
    }

    /// Returns whether a new token was issued for this token longer ago than the grace period.
    mutating func isSpent(_ grant: Grant, at uptime: Duration, _ settings: SignInSettings) -> Bool {
        guard let grace = settings.grace, let tag = grant.tag, let since = succeeded[tag] else { return false }
        return uptime - since > grace
    }

    /// Charges one request to the user, or to the address of an anonymous caller.
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

    /// Charges a request with invalid credentials to `address`; returns the retry delay if the rate is exceeded.
    mutating func chargeFailure(from address: String, at uptime: Duration) -> Duration? {
        guard let wait = refusals?.take(PeerKey(address), at: uptime) else { return nil }
        hits.note(.failedCredentials, .address(PeerKey(address).text), at: uptime)
        return wait
    }

    /// Charges one sign-in attempt from `address` as if the password were wrong.
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

    /// Reverses the charge of an attempt because the password was correct.
    mutating func refundSignIn(from address: String, for target: SignInTarget, at uptime: Duration) {
        failures?.giveBack(PeerKey(address), at: uptime)
        targets?.giveBack(target, at: uptime)
    }
}

/// A cache of at most twice `capacity` entries that evicts the least recently used ones.
///
/// Consists of two dictionaries. New and used entries are in the young one; when it is full, it becomes the old one and
/// the previous old one is dropped. Each operation costs a constant number of lookups.
struct GenerationalCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    let capacity: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    init(capacity: Int) { self.capacity = capacity }

    var count: Int { young.count + old.count }

    subscript(key: Key) -> Value? {
        mutating get {
            if let value = young[key] { return value }
            guard let value = old.removeValue(forKey: key) else { return nil }
            self[key] = value
            return value
        }
        set {
            guard let newValue else {
                young[key] = nil
                old[key] = nil
                return
            }
            if young.count >= capacity, young[key] == nil {
                old = young
                young = [:]
            }
            young[key] = newValue
        }
    }

    mutating func removeAll() {
        young = [:]
        old = [:]
    }
}
