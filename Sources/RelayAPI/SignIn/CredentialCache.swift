import Crypto
import Records
import RelayCore

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

/// The web auth token that responses contain at present, in place of the one that their requests presented.
struct FreshToken: Sendable {
    var text: String
    var minted: Duration
    var expires: Timestamp
}

/// Credentials that were valid when they were verified, and the result for their latest request; kept with the request
/// head that presents them.
struct VerifiedCredentials: Sendable {
    let home: ContainerEnvironment
    let grant: Grant
    /// `CredentialCache.validity` at the time.
    let validity: CredentialValidity
    let authentication: Authentication
    /// When the new token of `authentication` was issued; `nil` if nothing rotates.
    let minted: Duration?
}

/// The time during which an authenticator's verified credentials are valid, by identity.
final class CredentialValidity: Sendable {}

/// The outcome of using verified credentials once more.
enum CredentialUse {
    /// The same result as for the latest request, which is the usual case.
    case same(Authentication)
    case of(VerifiedCredentials, FreshToken)
}

/// What an `Authenticator` knows of the directory, and its rate limits.
///
/// All parts are bounded. The result of checking the credentials of a request head is kept with that head, in
/// `ParsedRequestHead`.
struct CredentialCache: Sendable {
    var generation: UInt64
    /// Replaced when cached credentials become invalid.
    private(set) var validity = CredentialValidity()
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
    /// The new tokens that were issued for a token, by its tag; the only part that must survive `invalidate`.
    private var replaced = GenerationalCache<[UInt8], Replacement>(capacity: 8192)
    /// The sessions for which new tokens were issued since the last `takeUsed`.
    ///
    /// Above the bound some uses are not recorded, which only makes a session appear unused for some minutes longer.
    private var used: Set<Session.ID> = []
    private static let maxUsedSessions = 100_000

    private struct Replacement {
        /// When the first new token was issued, by uptime.
        var first: Duration
        var latest: FreshToken
    }

    /// - Parameters:
    ///   - settings: The limits.
    ///   - generation: The directory's.
    ///   - countsSignIns: Whether failed sign-ins are counted here; otherwise several relays count them together.
    init(settings: SignInSettings, generation: UInt64, countsSignIns: Bool) {
        self.generation = generation
        users = settings.requestRate.map { TokenBuckets($0) }
        addresses = settings.requestRate.map { TokenBuckets($0) }
        failures = countsSignIns ? settings.failedSignInRate.map { TokenBuckets($0) } : nil
        targets = countsSignIns ? settings.failedSignInRatePerAccount.map { TokenBuckets($0) } : nil
        refusals = settings.failedCredentialRate.map { TokenBuckets($0) }
    }

    /// Sets how many relays share the rate limits.
    mutating func divideLimits(among relays: Int) {
        users?.divide(among: relays)
        addresses?.divide(among: relays)
        failures?.divide(among: relays)
        targets?.divide(among: relays)
        refusals?.divide(among: relays)
    }

    /// Clears the cached credentials, because something was revoked.
    mutating func invalidate(_ newGeneration: UInt64) {
        generation = newGeneration
        if Self.clearsSessions {
            validity = CredentialValidity()
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

    /// Charges a request with credentials that were verified before; returns `nil` if they must be verified now.
    mutating func use(
        _ known: VerifiedCredentials?,
        from address: String,
        at uptime: Duration,
        _ now: Timestamp,
        _ authenticator: Authenticator
    ) throws(CredentialRefusal) -> CredentialUse? {
        guard let known, known.validity === validity else { return nil }
        try admit(known.grant, from: address, at: uptime, now, authenticator.settings)
        if let minted = known.minted, uptime - minted < Authenticator.mintInterval {
            return .same(known.authentication)
        }
        guard let token = freshToken(for: known.grant, at: uptime, now, authenticator) else {
            return .same(known.authentication)
        }
        return .of(known, token)
    }

    /// Charges a request with credentials that have just been verified, and returns its new token if one is issued.
    mutating func use(
        _ grant: Grant,
        from address: String,
        at uptime: Duration,
        _ now: Timestamp,
        _ authenticator: Authenticator
    ) throws(CredentialRefusal) -> FreshToken? {
        try admit(grant, from: address, at: uptime, now, authenticator.settings)
        return freshToken(for: grant, at: uptime, now, authenticator)
    }

    private mutating func admit(
        _ grant: Grant,
        from address: String,
        at uptime: Duration,
        _ now: Timestamp,
        _ settings: SignInSettings
    ) throws(CredentialRefusal) {
        if let end = grant.expires, now >= end { throw .ended }
        if isSpent(grant, at: uptime, settings) { throw .ended }
        try charge(grant.identity, from: address, at: uptime)
    }

    private mutating func freshToken(
        for grant: Grant,
        at uptime: Duration,
        _ now: Timestamp,
        _ authenticator: Authenticator
    ) -> FreshToken? {
        guard let session = grant.session, let tag = grant.tag else { return nil }
        let earlier = replaced[tag]
        if let latest = earlier?.latest, uptime - latest.minted < Authenticator.mintInterval { return latest }
        let token = FreshToken(
            text: session.seal.token(issued: now, nonce: authenticator.random.bytes(8)),
            minted: uptime,
            expires: now + authenticator.settings.lifetime(session.kind)
        )
        noteUse(session.seal.session)
        replaced[tag] = Replacement(first: earlier?.first ?? uptime, latest: token)
        return token
    }

    /// Returns whether a new token was issued for this token longer ago than the grace period.
    mutating func isSpent(_ grant: Grant, at uptime: Duration, _ settings: SignInSettings) -> Bool {
        guard let grace = settings.grace, let tag = grant.tag, let since = replaced[tag]?.first else { return false }
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

    /// Notes that a rate was exceeded that is counted elsewhere.
    mutating func noteHit(_ rate: RateName, _ subject: RateSubject, at uptime: Duration) {
        hits.note(rate, subject, at: uptime)
    }

    /// Reverses the charge of an attempt because the password was correct.
    mutating func refundSignIn(from address: String, for target: SignInTarget, at uptime: Duration) {
        failures?.giveBack(PeerKey(address), at: uptime)
        targets?.giveBack(target, at: uptime)
    }
}

extension Relay {
    /// How many requests had credentials that were verified with an earlier request of the same head.
    package var credentialLookups: CacheLookups { authenticator.lookups }
}

/// A cache of at most twice `capacity` entries that evicts the least recently used ones.
///
/// Consists of two dictionaries. New and used entries are in the young one; when it is full, it becomes the old one and
/// the previous old one is dropped. Each operation costs a constant number of lookups.
package struct GenerationalCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    let capacity: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    package init(capacity: Int) { self.capacity = capacity }

    var count: Int { young.count + old.count }

    package subscript(key: Key) -> Value? {
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
