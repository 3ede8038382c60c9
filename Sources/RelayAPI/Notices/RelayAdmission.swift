import HTTPTypes
package import Records
package import RelayCore
import Synchronization
package import Wire

/// Admits devices using the relay's authenticator, and reads subscriptions and changes from the container's store.
package final class RelayAdmission: NoticeAdmission, NoticeReceiver {
    private let relay: Relay
    private let hub: NoticeHub
    private let time: TimeSource
    /// The authentication of each session or server key with an open socket, for token renewal and revocation checks.
    private let admitted = Mutex<[Credential: Authentication]>([:])
    private let revocations = Mutex(Revocations())

    private struct Revocations {
        var lastGeneration: UInt64?
        /// How many checks of all open sockets for revoked credentials remain.
        var remainingChecks = 0
        /// More than one, because a device admitted just before the first check may join the hub only after it.
        static let checksPerRevocation = 3
    }

    package init(relay: Relay, hub: NoticeHub, time: TimeSource) {
        self.relay = relay
        self.hub = hub
        self.time = time
        hub.bus.add(self)
        relay.authenticator.directory.onRevocation { [bus = hub.bus] in
            bus.share(.credentialsRevoked([], generation: $0))
        }
    }

    /// Passes the revocations of other nodes on to requests, and divides the rate limits among the live nodes.
    ///
    /// `closeRevoked` closes the sockets of what was revoked.
    package func receive(_ message: NoticeMessage) {
        switch message {
        case .credentialsRevoked(_, let generation): relay.authenticator.generationChanged(to: generation)
        case .nodesChanged(let live): relay.divideLimits(among: live.count)
        case .zonesChanged, .recordsChanged, .recordMatched, .subscriptionsChanged, .schemaChanged, .presence, .present,
            .pushDevicesChanged, .sweeping:
            break
        }
    }

    package func allowsUpgrade(_ request: APIRequest, origin: String, then: @escaping @Sendable (Bool) -> Void) {
        // A container that does not exist is refused after the hello, like one that the caller may not use.
        guard let home = request.head.parsedHead.home else { return then(false) }
        onStores { [self] in then(relay.authenticator.allowsSocket(origin: origin, of: request, in: home)) }
    }

    package func admit(_ request: APIRequest, hello: NoticeHello) async throws(NoticeClose) -> AdmittedDevice {
        try await onStores { () async throws(NoticeClose) in
            let (user, home, authentication) = try self.identify(request, hello: hello)
            do throws(RelayError) {
                try await self.relay.provisioning.provision(user, home, in: self.relay.stores.store(of: home))
            } catch {
                throw .tryLater
            }
            return self.device(of: user, home, authentication, hello)
        }
    }

    package func catchUpWaiting(
        _ device: AdmittedDevice,
        since: [DatabaseScope: String]
    ) async throws(NoticeClose) -> NoticeCatchUp {
        try await onStores { () async throws(NoticeClose) in try self.catchUp(device, since: since) }
    }

    /// Runs `body` where the stores' reads may block.
    private func onStores<Value: Sendable>(
        _ body: @Sendable () async throws(NoticeClose) -> Value
    ) async throws(NoticeClose) -> Value {
        let result: Result<Value, NoticeClose> = await withTaskExecutorPreference(relay.stores.executor) {
            do throws(NoticeClose) { return .success(try await body()) } catch { return .failure(error) }
        }
        return try result.get()
    }

    /// Runs `body` where the stores' reads may block; in place if they do not.
    private func onStores(_ body: @escaping @Sendable () -> Void) {
        guard let blocking = relay.stores.executor else { return body() }
        Task(executorPreference: blocking) { body() }
    }

    package func admitAtOnce(_ request: APIRequest, hello: NoticeHello) throws(NoticeClose) -> AdmittedDevice? {
        guard relay.stores.executor == nil else { return nil }
        let (user, home, authentication) = try identify(request, hello: hello)
        do throws(RelayError) {
            guard try relay.provisioning.remaining(user, home, in: relay.stores.store(of: home)) == nil else {
                return nil
            }
        } catch {
            throw .tryLater
        }
        return device(of: user, home, authentication, hello)
    }

    private func identify(
        _ request: APIRequest,
        hello: NoticeHello
    ) throws(NoticeClose) -> (UserID, ContainerEnvironment, Authentication) {
        guard let home = request.head.parsedHead.home else { throw .containerRefused }
        let authentication = try authenticate(request, hello: hello, in: home)
        // A server-to-server key listens as the user it acts for, for query subscriptions in the public database.
        guard let user = authentication.caller.user else { throw .notAuthenticated }
        return (user, home, authentication)
    }

    private func device(
        of user: UserID,
        _ home: ContainerEnvironment,
        _ authentication: Authentication,
        _ hello: NoticeHello
    ) -> AdmittedDevice {
        var credential: Credential?
        switch authentication.credential {
        case .session, .serverKey:
            credential = authentication.credential
            remember(authentication)
        case .apiToken, .dev: break
        }
        return AdmittedDevice(
            address: NoticeAddress(store: home, user: user),
            deviceID: hello.deviceID,
            credential: credential,
            tokenLife: authentication.expires.map { $0 - time.now() }
        )
    }

    private func authenticate(
        _ request: APIRequest,
        hello: NoticeHello,
        in home: ContainerEnvironment
    ) throws(NoticeClose) -> Authentication {
        do throws(CredentialRefusal) {
            if let known = try relay.authenticator.authenticateUpgrade(request, in: home) { return known }
            return try relay.authenticator.authenticateHello(
                apiToken: hello.apiToken,
                webToken: hello.webAuthToken,
                deviceID: hello.deviceID,
                upgrade: request,
                in: home
            )
        } catch {
            switch error {
            // A client whose session was ended cannot reconnect with this token.
            case .failed, .malformed, .ended: throw .notAuthenticated
            case .expired: throw .tokenExpired
            case .foreignOrigin: throw .originRefused
            case .throttled, .unavailable: throw .tryLater
            }
        }
    }

    package func catchUp(
        _ device: AdmittedDevice,
        since: [DatabaseScope: String]
    ) throws(NoticeClose) -> NoticeCatchUp {
        hub.bus.follow(device.address)
        // Usually another device of the user has the same tokens, for example after the network was down, and nothing has
        // changed since it connected. The store then need not be read.
        let tokens = CatchUpTokens(since)
        let (known, revision) = hub.catchUp(of: device.address, since: tokens)
        if let known { return known }
        do throws(RelayError) {
            let store = try relay.stores.store(of: device.address.store)
            let read = try store.read { reader throws(RelayError) in
                let subscriptions = try reader.noticeSubscriptions(of: device.address.user)
                var known = NoticeCatchUp(subscriptions: subscriptions)
                // For a device without a token, all zones are news. See Notices.md, "Catching up".
                for scope in [DatabaseScope.private, .shared] where !subscriptions.items.isEmpty {
                    let token = since[scope]
                    let news = try self.news(for: device, in: scope, since: token, reader, store.epochs(of:))
                    known.news[scope] = news
                    // Alerts are only for changes since the token, not for every existing record.
                    guard let token else { continue }
                    known.matches += try MissedMatches(
                        hub: hub,
                        address: device.address,
                        subscriptions: subscriptions,
                        scope: scope
                    ).notices(news, since: token, from: reader)
                }
                return known
            }
            hub.keep(read, of: device.address, since: tokens, revision: revision)
            return read
        } catch {
            throw .tryLater
        }
    }

    private func news(
        for device: AdmittedDevice,
        in scope: DatabaseScope,
        since token: String?,
        _ reader: any StoreReader,
        _ epochs: (UserID) throws(RelayError) -> Epochs
    ) throws(RelayError) -> NoticeCatchUp.News {
        let caller = Caller(.user(device.address.user), deviceID: device.deviceID)
        let changes = DatabaseChanges(
            database: DatabaseAddress(scope: scope, caller: caller),
            token: token,
            limit: hub.limits.catchUpZones
        )
        do throws(RelayError) {
            let page = try changes.read(from: reader, epochs: epochs)
            guard !page.moreComing else { return .manyZones }
            return .zones(
                try page.zones.map { zone throws(RelayError) in
                    let token = zone.isDeleted ? nil : zone.token(epoch: try epochs(zone.id.owner).current)
                    return .init(zone.id, syncToken: token?.encoded)
                }
            )
        } catch {
            guard error.fineCode == .changeTokenExpired else { throw error }
            return .manyZones
        }
    }

    package func renewToken(of device: AdmittedDevice, then: @escaping @Sendable (RenewedToken?) -> Void) {
        guard let credential = device.credential, let known = admitted.withLock({ $0[credential] }) else {
            return then(nil)
        }
        onStores { [self] in then(try? relay.authenticator.renew(known)) }
    }

    /// Stores the authentication; removes those without an open socket when there are about twice as many as sockets.
    private func remember(_ authentication: Authentication) {
        let count = admitted.withLock { admitted in
            admitted[authentication.credential] = authentication
            return admitted.count
        }
        guard count > 1000 + 2 * hub.connectionCount else { return }
        let live = hub.liveCredentials.union([authentication.credential])
        admitted.withLock { admitted in admitted = admitted.filter { live.contains($0.key) } }
    }

    /// Closes the sockets whose sessions or keys were revoked since the last call.
    ///
    /// Call about once a second, after `Authenticator.watchGeneration`; costs one comparison if nothing was revoked. See
    /// Reliability.md, "Invariants", j.
    package func closeRevoked() {
        let generation = relay.authenticator.generation
        let mustCheck = revocations.withLock { known in
            // The first call checks too: sockets may have been opened and revoked before it.
            if known.lastGeneration != generation { known.remainingChecks = Revocations.checksPerRevocation }
            known.lastGeneration = generation
            defer { known.remainingChecks = max(0, known.remainingChecks - 1) }
            return known.remainingChecks > 0
        }
        guard mustCheck else { return }
        let live = hub.liveCredentials
        admitted.withLock { admitted in admitted = admitted.filter { live.contains($0.key) } }
        // If the directory cannot be read, the socket stays open until the next check.
        let ended = live.filter { (try? relay.authenticator.isStillValid($0)) == false }
        if !ended.isEmpty, Self.endsSockets { hub.bus.publish(.credentialsRevoked(ended, generation: generation)) }
    }
}

extension StoreReader {
    /// Returns the user's subscriptions in all databases in the form used by the hub.
    func noticeSubscriptions(of user: UserID) throws(RelayError) -> NoticeSubscriptions {
        NoticeSubscriptions(
            try subscriptions(of: user).map { NoticeSubscriptions.Item($0.subscription, in: $0.scope) }.sorted {
                $0.precedes($1)
            }
        )
    }
}
