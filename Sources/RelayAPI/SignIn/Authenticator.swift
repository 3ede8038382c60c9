import Crypto
import Dispatch
import Foundation
package import Records
package import RelayCore
import Synchronization

/// Authenticates the caller of a request.
///
/// Synchronous and safe from any thread. Credentials that came with the same request head before cost one lock; others
/// cost a read of the directory, or of the cache of it. The cache is bounded. A revocation by this process invalidates it at
/// once; one by another process or node, when `watchGeneration` has seen it or `generationChanged` was called.
package final class Authenticator: Sendable {
    /// How often `watchGeneration` must be called.
    package static let watchInterval = Duration.milliseconds(200)
    /// How long requests rely on the latest call; after that they read the directory, and are refused if that fails.
    static let watchLease = Duration.seconds(30)
    /// At most one new token is issued per token in this time; all responses in between contain the same one.
    static let mintInterval = Duration.seconds(1)

    let directory: any Directory
    let settings: SignInSettings
    let time: TimeSource
    let random: RandomSource
    let relayKey: [UInt8]
    let invitations: InvitationSeal
    let markers: MarkerSeal
    let cache: Mutex<CredentialCache>
    /// Counts failed sign-ins together with other relays; `nil` for the only one, whose counts are in `cache`.
    let attempts: (any Attempts)?
    /// The greatest generation of the directory that this process knows of.
    private let latestGeneration: Atomic<UInt64>
    /// The uptime in milliseconds at which the directory's generation was last read.
    private let watched: Atomic<Int64>
    let identityTokens: (any IdentityTokenVerifier)?
    /// The queue for password checks.
    let passwordQueue = SignInQueue()
    /// The queue for other changes of accounts: fast, but each waits for the disk.
    let accountQueue = SignInQueue()
    let clockJumps: ClockJumpDetector
    /// How many requests had credentials that were verified with an earlier request of the same head.
    let lookups = CacheLookups()

    package init(
        directory: any Directory,
        settings: SignInSettings = SignInSettings(),
        identityTokens: (any IdentityTokenVerifier)? = nil,
        time: TimeSource,
        random: RandomSource
    ) throws(DirectoryError) {
        self.directory = directory
        self.settings = settings
        self.time = time
        self.random = random
        self.identityTokens = identityTokens
        relayKey = try directory.relayKey()
        invitations = InvitationSeal(relayKey: relayKey)
        markers = MarkerSeal(relayKey: relayKey)
        let generation = try directory.generation()
        attempts = directory.attempts
        cache = Mutex(
            CredentialCache(settings: settings, generation: generation, countsSignIns: directory.attempts == nil)
        )
        latestGeneration = Atomic(generation)
        watched = Atomic(time.uptime().wholeMilliseconds)
        clockJumps = ClockJumpDetector(time)
        directory.onRevocation { [weak self] in self?.generationChanged(to: $0) }
    }

    /// Authenticates the caller of `request` for the container `home`.
    ///
    /// Throws the error with which the whole request must be answered.
    ///
    /// Does not check whether the caller may use the operation. Without a web auth token the caller is anonymous; if
    /// the operation requires a user, throw `Authentication.signInRequired`.
    package func authenticate(
        _ request: APIRequest,
        in home: ContainerEnvironment
    ) throws(RelayError) -> Authentication {
        let parsedHead = request.head.parsedHead
        do throws(CredentialRefusal) {
            return try countingFailures(from: request.remoteAddress) { () throws(CredentialRefusal) in
                if parsedHead.isSigned { return try authenticateSigned(request, parsedHead.presented, in: home) }
                guard !parsedHead.presented.isAmbiguous else { throw .failed }
                return try authenticate(parsedHead, in: home, from: request.remoteAddress)
            }
        } catch {
            guard error == .ended else { throw error.relayError(redirectURL: nil) }
            var address = signIn(parsedHead.presented, in: home)
            address.apiTokenID = (try? apiToken(parsedHead.presented, in: home, at: time.uptime()))?.id
            throw error.relayError(redirectURL: address.url)
        }
    }

    /// Returns whether a browser page of `origin` may open a socket with `request`.
    ///
    /// If the API token will come with the hello, any token of the container must allow the origin; the token of the
    /// hello is checked later. See Notices.md, "Connecting".
    package func allowsSocket(origin: String, of request: APIRequest, in home: ContainerEnvironment) -> Bool {
        if request.head.parsedHead.presented.apiToken != nil { return allowsOrigin(origin, of: request, in: home) }
        let tokens = (try? directory.apiTokens()) ?? []
        let origins = tokens.filter { $0.home == home && $0.revoked == nil }.flatMap(\.allowedOrigins)
        let host = request.head.parsedHead.presented.host
        return OriginRule(origins: origins, settings: settings, host: host).allows(origin)
    }

    /// Returns whether a browser page of `origin` may send `request`.
    ///
    /// Used for preflight requests, whose only credential is the API token in the query.
    package func allowsOrigin(_ origin: String, of request: APIRequest, in home: ContainerEnvironment) -> Bool {
        let presented = request.head.parsedHead.presented
        let token = try? apiToken(presented, in: home, at: time.uptime())
        return OriginRule(origins: token?.allowedOrigins ?? [], settings: settings, host: presented.host).allows(origin)
    }

    // MARK: Tokens

    private func authenticate(
        _ parsedHead: ParsedRequestHead,
        in home: ContainerEnvironment,
        from address: String
    ) throws(CredentialRefusal) -> Authentication {
        let uptime = time.uptime()
        let now = time.now()
        let known = parsedHead.credentials.flatMap { $0.home == home ? $0 : nil }
        let (use, before) = try withCache(at: uptime) { (cache) throws(CredentialRefusal) in
            (try cache.use(known, from: address, at: uptime, now, self), cache.generation)
        }
        switch use {
        case .same(let authentication):
            lookups.countHit()
            return authentication
        case .of(let known, let token):
            lookups.countHit()
            return try authentication(known.grant, token, parsedHead, in: home, validity: known.validity)
        case nil: lookups.countMiss()
        }
        let grant = try verify(parsedHead.presented, in: home, at: uptime)
        let (token, validity) = try withCache(at: uptime) { (cache) throws(CredentialRefusal) in
            // If something was revoked in the meantime, the result is for this request only.
            guard cache.generation == before else { return (FreshToken?.none, CredentialValidity?.none) }
            return (try cache.use(grant, from: address, at: uptime, now, self), cache.validity)
        }
        return try authentication(grant, token, parsedHead, in: home, validity: validity)
    }

    /// Creates the result of an authentication, and keeps it with the head unless `validity` is `nil`.
    private func authentication(
        _ grant: Grant,
        _ token: FreshToken?,
        _ parsedHead: ParsedRequestHead,
        in home: ContainerEnvironment,
        validity: CredentialValidity?
    ) throws(CredentialRefusal) -> Authentication {
        let authentication = try authentication(grant, token, parsedHead.presented, in: home)
        if let validity {
            parsedHead.credentials = VerifiedCredentials(
                home: home,
                grant: grant,
                validity: validity,
                authentication: authentication,
                minted: token?.minted
            )
        }
        return authentication
    }

    /// Reads the directory.
    ///
    /// Invalid, unknown and foreign tokens take the same path.
    func verify(
        _ presented: PresentedCredentials,
        in home: ContainerEnvironment,
        at uptime: Duration
    ) throws(CredentialRefusal) -> Grant {
        let token = try apiToken(presented, in: home, at: uptime)
        if settings.acceptsDevTokens {
            try wrapping { () throws(DirectoryError) in try directory.ensureContainer(home.container) }
        }
        guard let text = presented.webToken else {
            let credential = token.map { Credential.apiToken(hash: $0.hash) } ?? .dev(nil)
            return Grant(identity: .anonymous, deviceID: "none", token: token, credential: credential)
        }
        guard let text = PercentCoding.decode(text) else { throw .failed }
        if settings.acceptsDevTokens, text.hasPrefix("dev-") {
            return try devGrant(named: String(text.dropFirst(4)), token, in: home)
        }
        guard let webToken = WebToken(text) else { throw .failed }
        let session = try session(of: webToken, in: home)
        return Grant(
            identity: .user(session.user),
            deviceID: session.deviceID,
            token: token,
            credential: .session(webToken.session, apiTokenHash: token?.hash ?? []),
            account: session.account,
            expires: webToken.issued + settings.lifetime(session.kind),
            tag: webToken.tag,
            session: session
        )
    }

    /// Returns the user whose web auth token an operator presents with the user's consent; needs no API token.
    package func user(ofWebToken text: String, in home: ContainerEnvironment) throws(CredentialRefusal) -> (
        account: Account.ID, user: UserID
    ) {
        guard let token = WebToken(text) else { throw .failed }
        // Clears the cache if something was revoked.
        try withCache(at: time.uptime()) { (_) throws(CredentialRefusal) in }
        let session = try session(of: token, in: home)
        guard time.now() < token.issued + settings.lifetime(session.kind) else { throw .ended }
        return (session.account, session.user)
    }

    /// Returns the API token of the request if it is valid for the container.
    ///
    /// `nil` only on a `--dev` relay, which requires none.
    private func apiToken(
        _ presented: PresentedCredentials,
        in home: ContainerEnvironment,
        at uptime: Duration
    ) throws(CredentialRefusal) -> CachedAPIToken? {
        guard let raw = presented.apiToken, let text = PercentCoding.decode(raw) else {
            guard settings.acceptsDevTokens else { throw .failed }
            return nil
        }
        if let token = try withCache(at: uptime, { (cache) throws(CredentialRefusal) in cache.apiTokens[text] }),
            token.home == home
        {
            return token
        }
        let hash = Array(SHA256.hash(data: Array(text.utf8)))
        let before = cache.withLock { $0.generation }
        let found = try wrapping { () throws(DirectoryError) in try directory.apiToken(hash: hash) }
        guard let found, found.home == home, found.revoked == nil else {
            guard settings.acceptsDevTokens else { throw .failed }
            return nil
        }
        let token = CachedAPIToken(found, hash: hash)
        cacheResult(since: before) { $0.apiTokens[text] = token }
        return token
    }

    private func devGrant(
        named name: String,
        _ token: CachedAPIToken?,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> Grant {
        let (account, user) = try wrapping { () throws(DirectoryError) in
            let account = try directory.devAccount(named: name)
            return (account, try directory.user(of: account.id, in: home))
        }
        guard !account.isDisabled else { throw .ended }
        return Grant(
            identity: .user(user),
            deviceID: "dev-\(name)",
            token: token,
            credential: .dev(account.id),
            account: account.id
        )
    }

    /// Returns the session of `token` if this relay issued the token and the session is still valid.
    private func session(
        of token: WebToken,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> CachedSession {
        if let known = cache.withLock({ $0.sessions[token.session] }), known.home == home {
            // A device usually sends the same token again; the latest valid one is not verified again.
            if let good = known.lastVerified, ConstantTime.areEqual(good, token.sealed + token.tag) { return known }
            guard known.seal.made(token) else { throw .failed }
            cache.withLock { $0.sessions[token.session]?.lastVerified = token.sealed + token.tag }
            return known
        }
        let seal = WebTokenSeal(relayKey: relayKey, session: token.session, secret: token.secret)
        // A forged token is refused before the directory is read.
        guard seal.made(token) else { throw .failed }
        let before = cache.withLock { $0.generation }
        let found = try wrapping { () throws(DirectoryError) in try directory.session(token.session) }
        // Only this relay can have sealed the token, so the session existed and has been deleted since.
        guard let session = found else { throw .ended }
        guard session.home == home,
            ConstantTime.areEqual(session.secretHash, Array(SHA256.hash(data: token.secret)))
        else { throw .failed }
        let known = try wrapping { () throws(DirectoryError) in
            let account = try directory.account(session.account)
            let isOver = session.revoked != nil || !session.isValid(for: account)
            let user = try directory.user(of: session.account, in: home)
            return CachedSession(session, user: user, seal: seal, isOver: isOver)
        }
        guard !known.isOver else { throw .ended }
        cacheResult(since: before) { $0.sessions[token.session] = known }
        return known
    }

    // MARK: Pieces

    /// Runs `body` on the cache, which is cleared as soon as something was revoked.
    func withCache<Value: Sendable>(
        at uptime: Duration,
        _ body: (inout CredentialCache) throws(CredentialRefusal) -> Value
    ) throws(CredentialRefusal) -> Value {
        let since = uptime.wholeMilliseconds - watched.load(ordering: .relaxed)
        if since < 0 || since > Self.watchLease.wholeMilliseconds { try watchGeneration() }
        return try cache.withLock { (cache) throws(CredentialRefusal) in try body(&cache) }
    }

    /// Reads the directory's generation, so that requests learn of revocations by other processes without reading it.
    ///
    /// Call every `watchInterval`, outside of requests.
    package func watchGeneration() throws(CredentialRefusal) {
        let uptime = time.uptime()
        generationChanged(to: try wrapping { () throws(DirectoryError) in try directory.generation() })
        watched.store(uptime.wholeMilliseconds, ordering: .relaxed)
    }

    /// Invalidates what was cached before this generation of the directory; ignores an older one.
    package func generationChanged(to generation: UInt64) {
        guard latestGeneration.max(generation, ordering: .acquiringAndReleasing).oldValue < generation else { return }
        cache.withLock { if $0.generation < generation { $0.invalidate(generation) } }
    }

    /// A number that grows with every revocation; while it is the same, open sockets need no check.
    package var generation: UInt64 { latestGeneration.load(ordering: .acquiring) }

    /// Sets how many relays share the rate limits, each of which then grants its part.
    func divideLimits(among relays: Int) { cache.withLock { $0.divideLimits(among: relays) } }

    /// Caches the result of a lookup unless something was revoked since; it may be that, and is used for this request
    /// only.
    func cacheResult(since generation: UInt64, _ body: (inout CredentialCache) -> Void) {
        cache.withLock { if $0.generation == generation { body(&$0) } }
    }

    /// Charges a request to an asset address, which has no other credentials, to the user of the address.
    func charge(_ user: UserID, from address: String, at uptime: Duration) throws(RelayError) {
        do throws(CredentialRefusal) {
            try cache.withLock { (cache) throws(CredentialRefusal) in
                try cache.charge(.user(user), from: address, at: uptime)
            }
        } catch {
            throw error.relayError(redirectURL: nil)
        }
    }

    /// Counts failures of `body` against the client's address; above the limit, throws `throttled` instead.
    ///
    /// Successful requests are never refused here: many people may share the address.
    func countingFailures<Value>(
        from address: String,
        _ body: () throws(CredentialRefusal) -> Value
    ) throws(CredentialRefusal) -> Value {
        do throws(CredentialRefusal) { return try body() } catch {
            if error == .failed { try chargeFailure(from: address) }
            throw error
        }
    }

    func chargeFailure(from address: String) throws(CredentialRefusal) {
        let uptime = time.uptime()
        let wait = cache.withLock { $0.chargeFailure(from: address, at: uptime) }
        if let wait { throw .throttled(retryAfter: wait) }
    }

    /// Returns the rate limits that were hit in the last 24 hours.
    func rateHits(at uptime: Duration) -> [RateHit] { cache.withLock { $0.hits }.hits(at: uptime) }

    func wrapping<Value>(_ body: () throws(DirectoryError) -> Value) throws(CredentialRefusal) -> Value {
        do throws(DirectoryError) { return try body() } catch { throw CredentialRefusal(error) }
    }

    func signIn(_ presented: PresentedCredentials, in home: ContainerEnvironment) -> SignInAddress {
        let isPage = settings.acceptsDevTokens && presented.origin.map { OriginRule.isLoopback($0) } ?? false
        return SignInAddress(
            publicURL: settings.publicURL,
            isSecure: settings.endsTLS,
            host: presented.host,
            home: home,
            apiTokenID: nil,
            origin: isPage ? presented.origin : nil
        )
    }

    func authentication(
        _ grant: Grant,
        _ token: FreshToken?,
        _ presented: PresentedCredentials,
        in home: ContainerEnvironment,
        signature: UsedSignature? = nil
    ) throws(CredentialRefusal) -> Authentication {
        if let device = presented.deviceID, !NameRules.isRecordName(device) {
            throw .malformed("X-Zonecast-Device-ID must be 1 to 255 printable ASCII characters.")
        }
        if let origin = presented.origin {
            let rule = OriginRule(origins: grant.token?.allowedOrigins ?? [], settings: settings, host: presented.host)
            guard rule.allows(origin) else { throw .foreignOrigin }
        }
        var signIn = signIn(presented, in: home)
        signIn.apiTokenID = grant.token?.id
        return Authentication(
            grant: grant,
            caller: Caller(grant.identity, deviceID: presented.deviceID ?? grant.deviceID),
            freshWebToken: token?.text,
            expires: token?.expires ?? grant.expires,
            origin: presented.origin,
            credential: grant.credential,
            account: grant.account,
            seal: grant.session?.seal,
            signIn: signIn,
            signature: signature
        )
    }
}

extension Authenticator {
    /// Authenticates a request that is signed with a server-to-server key.
    ///
    /// All failures have the same error. See Wire.md, "Server-to-server keys".
    func authenticateSigned(
        _ request: APIRequest,
        _ presented: PresentedCredentials,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> Authentication {
        guard !presented.isAmbiguous, presented.apiToken == nil, presented.webToken == nil,
            let keyID = presented.signature.keyID,
            let signed = SignedRequest(presented.signature, of: request, publicURL: settings.publicURL)
        else { throw .failed }
        let now = time.now()
        let uptime = time.uptime()
        let age = now - signed.date
        guard age <= settings.signatureWindow, .zero - age <= settings.signatureWindow else { throw .failed }
        let key = try serverKey(keyID, in: home, at: uptime)
        guard signed.isMade(with: key.publicKey) else { throw .failed }
        let window = settings.signatureWindow
        try withCache(at: uptime) { (cache) throws(CredentialRefusal) in
            try cache.charge(.serverKey(key.user), from: request.remoteAddress, at: uptime)
            guard signed.isWrite else { return }
            guard cache.signatures.isNew(signed.fingerprint, signed: signed.date, by: keyID, at: now, window: window)
            else { throw .failed }
        }
        let grant = Grant(
            identity: .serverKey(key.user),
            deviceID: "key-\(keyID.prefix(16))",
            credential: .serverKey(keyID)
        )
        let tag = UsedSignature(fingerprint: signed.fingerprint, signed: signed.date, oldest: now + (.zero - window))
        return try authentication(grant, nil, presented, in: home, signature: signed.isWrite ? tag : nil)
    }

    private func serverKey(
        _ id: String,
        in home: ContainerEnvironment,
        at uptime: Duration
    ) throws(CredentialRefusal) -> CachedServerKey {
        let cached = try withCache(at: uptime) { (cache) throws(CredentialRefusal) in cache.serverKeys[id] }
        if let cached {
            guard cached.home == home else { throw .failed }
            return cached
        }
        let before = cache.withLock { $0.generation }
        let found = try wrapping { () throws(DirectoryError) in try directory.serverKey(id) }
        guard let found, found.home == home, found.revoked == nil,
            let publicKey = try? P256.Signing.PublicKey(pemRepresentation: found.publicKeyPEM)
        else { throw .failed }
        let key = CachedServerKey(home: home, user: found.user, publicKey: publicKey)
        cacheResult(since: before) { $0.serverKeys[id] = key }
        return key
    }
}

/// The profiles that users can see of each other.
///
/// See Wire.md, "User operations".
extension Authenticator {
    func profile(of user: UserID, in home: ContainerEnvironment) throws(RelayError) -> UserProfile? {
        try asking { () throws(DirectoryError) in try directory.profile(of: user, in: home) }
    }

    /// Includes users who are not discoverable; the caller must not reveal these to clients.
    func profiles(
        matching lookups: [UserLookup],
        in home: ContainerEnvironment
    ) throws(RelayError) -> [UserLookup: UserProfile] {
        try asking { () throws(DirectoryError) in
            try directory.profiles(matching: lookups, in: home, includesDev: settings.acceptsDevTokens)
        }
    }

    /// Returns the user's verified addresses.
    func contacts(of user: UserID, in home: ContainerEnvironment) throws(RelayError) -> [Share.Contact] {
        guard let account = try profile(of: user, in: home)?.account, !account.isDisabled else { return [] }
        return [account.email.map { .email($0) }, account.phone.map { .phone($0) }].compactMap { $0 }
    }

    func setDiscoverable(
        _ isDiscoverable: Bool,
        user: UserID,
        in home: ContainerEnvironment
    ) async throws(CredentialRefusal) {
        try await accountQueue.enqueue { [self] () throws(CredentialRefusal) in
            try wrapping { () throws(DirectoryError) in
                try directory.setDiscoverable(isDiscoverable, user: user, in: home)
            }
        }
    }

    private func asking<Value>(_ body: () throws(DirectoryError) -> Value) throws(RelayError) -> Value {
        do throws(CredentialRefusal) { return try wrapping(body) } catch { throw error.relayError(redirectURL: nil) }
    }
}

/// Runs the slow parts of sign-in one at a time, outside the threads of the connections.
///
/// Checking a password deliberately takes one core and 32 MiB for about 250 ms. To protect the machine from overload,
/// one check runs at a time and a bounded number waits; further ones are refused.
final class SignInQueue: Sendable {
    /// The maximum number of waiting checks, so that the last one completes within some seconds.
    static let maxWaiting = 24

    private let queue = DispatchQueue(label: "zonecast sign-in")
    private let waitingCount = Mutex(0)

    /// Runs `work` after the previous ones; it may also read and write the directory.
    func enqueue<Value: Sendable>(
        _ work: @escaping @Sendable () throws(CredentialRefusal) -> Value
    ) async throws(CredentialRefusal) -> Value {
        let mayWait = waitingCount.withLock { count in
            guard count < Self.maxWaiting else { return false }
            count += 1
            return true
        }
        guard mayWait else { throw .throttled(retryAfter: .seconds(5)) }
        let result = await withCheckedContinuation { continuation in
            queue.async { [self] in
                let result = Result { () throws(CredentialRefusal) in try work() }
                waitingCount.withLock { $0 -= 1 }
                continuation.resume(returning: result)
            }
        }
        return try result.get()
    }
}
