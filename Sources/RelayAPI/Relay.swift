import HTTPTypes
import Records
package import RelayCore
import Synchronization
import Wire

/// The relay as a function: one request value in, one answer out.
///
/// See Sources/README.md, "The main job".
///
/// A request is routed, authenticated, decoded into types, decided by `RelayCore` on the container's store, and its
/// answer written. Safe from any thread; reads block their thread for as long as SQLite takes, writes suspend until
/// their commit is on disk.
package final class Relay: Sendable {
    package let authenticator: Authenticator
    package let stores: any StoreCatalog
    /// Counts what queries ask of indexes.
    package let queryUse = QueryUse()
    private let limits: Limits
    private let time: TimeSource
    private let hub: NoticeHub?
    /// Held while subscriptions are read and told to the hub, so that it hears of them in order.
    private let tellingHub = Mutex(())
    private let pages: Pages
    let couriers: Couriers
    private let pushes: PushDesk?
    let welcomes: Welcomes
    private let publicRates: PublicRates
    private let transfers: TransferMeter
    let assets: AssetDesk
    private let services: RequestServices
    private let types = AllKnownTypes()
    private let requestIDs: UUIDSequence
    let onFault: @Sendable (String, any Error) -> Void
    /// Bounds of single users and containers; and whether there are any.
    private let ownQuotas = Mutex(OwnQuotas())
    private let hasOwnQuotas = Atomic<Bool>(false)

    /// - Parameters:
    ///   - authenticator: Says who asks.
    ///   - stores: Where the records are; tells `hub` of commits by itself.
    ///   - hub: Hears of changed subscriptions; `nil` where nobody listens.
    ///   - limits: Bounds of requests and users.
    ///   - assets: Bounds and lives of assets.
    ///   - push: The way to devices that sleep; `nil` where there is none.
    ///   - time: The clocks.
    ///   - random: For names, and where request identifiers begin.
    ///   - onFault: Hears of requests that failed by no fault of the client's, by their identifiers; from any thread.
    package init(
        authenticator: Authenticator,
        stores: any StoreCatalog,
        hub: NoticeHub? = nil,
        limits: Limits = Limits(),
        assets: AssetSettings = AssetSettings(),
        push: PushService? = nil,
        time: TimeSource,
        random: RandomSource,
        onFault: @escaping @Sendable (String, any Error) -> Void = { _, _ in }
    ) {
        self.onFault = onFault
        self.authenticator = authenticator
        self.stores = stores
        self.hub = hub
        self.limits = limits
        self.time = time
        let publicRates = PublicRates(authenticator.settings)
        let transfers = TransferMeter(limits.quota.publicTransfer)
        self.publicRates = publicRates
        self.transfers = transfers
        self.assets = AssetDesk(
            settings: assets,
            stores: stores,
            authenticator: authenticator,
            rates: publicRates,
            transfers: transfers,
            time: time,
            random: random
        )
        welcomes = Welcomes(authenticator, time: time)
        pages = Pages(authenticator, stores: stores, limits: limits, time: time, random: random)
        requestIDs = UUIDSequence(random)
        couriers = Couriers(
            hub: hub,
            authenticator: authenticator,
            stores: stores,
            longestWait: limits.longestPoll,
            time: time,
            random: random
        )
        if let push, let hub {
            pushes = PushDesk(
                push,
                hub: hub,
                authenticator: authenticator,
                stores: stores,
                time: time,
                random: random
            )
        } else {
            pushes = nil
        }
        services = RequestServices(
            authenticator: authenticator,
            assets: self.assets,
            couriers: couriers,
            pushes: pushes,
            stores: stores,
            queryUse: queryUse,
            random: random
        )
        hub?.queries.endSubscriptions { [weak self] home, user, scope, subscription in
            await self?.end(subscription, of: user, in: scope, home)
        }
    }

    /// Deletes a subscription that has fired its one time, unless it has been made anew since.
    private func end(
        _ fired: Subscription,
        of user: UserID,
        in scope: DatabaseScope,
        _ home: ContainerEnvironment
    ) async {
        // Where the store cannot be written it stays, and fires once more: notices may come twice.
        guard let store = try? stores.store(of: home) else { return }
        try? await store.write { writer throws(RelayError) in
            guard try writer.subscriptions(of: user, in: scope).contains(fired) else { return }
            try writer.deleteSubscriptions(ids: [fired.id], of: user, in: scope)
        }
        try? tellHub(ofSubscriptionsOf: user, home, store)
    }

    /// Answers a request; every failure is an answer too, in the wire's own form.
    package func respond(to request: APIRequest) async -> APIResponse {
        let direct: APIResponse? = await withUnsafeContinuation { continuation in
            let isDirect = answer(request, on: NoLane()) { continuation.resume(returning: $0) }
            if !isDirect { continuation.resume(returning: nil) }
        }
        if let direct { return direct }
        if let place = Pages.Place(request.path) { return await pages.respond(to: request, at: place) }
        if let place = SharePlaceInPath(request.path) { return await pages.respond(to: request, at: place) }
        if let purpose = AssetDesk.purpose(request.path) { return await carry(request, purpose) }
        let id = requestID()
        if request.path == "*", request.method == .options {
            return Self.methods("GET, HEAD, POST, PUT, OPTIONS", id: id)
        }
        if OpenAPIDocument.isRequested(by: request.path) { return Self.describe(request, id: id) }
        if let home = Couriers.home(ofPath: request.path) { return await poll(request, home, id: id) }
        var authentication: Authentication?
        var response: APIResponse
        do {
            let route = try request.head.reading.route.get()
            if request.method == .options { return preflight(request, route, id: id) }
            guard request.method == .post || (request.method == .get && route.operation.allowsGet) else {
                let method = route.operation.allowsGet ? "GET" : "POST"
                throw RelayError.methodNotAllowed("This path is called by \(method).")
            }
            let known = try admit(request, route)
            authentication = known
            let answer = try await answer(request, route, known, id: id)
            response = APIResponse(answer)
        } catch {
            response = failure(error, id: id)
            if response.status == .methodNotAllowed, let route = try? request.head.reading.route.get() {
                response.headers[.allow] = route.allowed
            }
        }
        decorate(&response, request, authentication, id: id)
        return response
    }

    /// Answers a request of the kinds that devices send all the time, on the caller's thread or, when a write is on disk,
    /// on `lane`; false, and nothing done, for any other, which is for `respond(to:)`.
    package func answer(
        _ request: APIRequest,
        on lane: any AnswerLane,
        then: @escaping @Sendable (APIResponse) -> Void
    ) -> Bool {
        let reading = request.head.reading
        guard reading.isOfOperation, case .success(let route) = reading.route, route.operation.isDirect,
            request.method == .post || (request.method == .get && route.operation.allowsGet)
        else { return false }
        DirectRequest(self, request, route, lane: lane, then: then).begin()
        return true
    }

    /// Takes the body of an upload while it arrives; `nil` for any other request, whose body is to be held.
    ///
    /// Quick enough for a connection's thread.
    package func intake(for request: APIRequest) -> (any BodyIntake)? { assets.intake(request) }

    /// Drops what is left of uploads that broke off once their addresses have ended; to be called every minute or so.
    package func dropEndedUploads() { assets.dropEndedUploads() }

    /// Adds what the public databases have sent to what their stores say; to be called every minute or so, and at the end.
    package func keepTransfers() async { await transfers.flush(to: stores) }

    /// Lets the devices that were registered for pushes listen again; to be called once, before the first request.
    package func beginPushes() throws(DirectoryError) { try pushes?.begin() }

    /// Writes down which sign-ins are in use, forgets the old ones, and ends the registrations for pushes that came by them;
    /// to be called every few minutes, and at the end.
    package func keepSignIns() throws {
        try authenticator.keepHouse()
        try pushes?.endLapsed()
    }

    /// How many devices are registered for pushes.
    package var pushDeviceCount: Int { pushes?.count ?? 0 }

    /// Ends all polls that wait; to be called when the relay begins to stop.
    package func stopPolls() { couriers.stop() }

    /// Sends no more pushes; to be called when nothing is written any more.
    package func stopPushes() { pushes?.stop() }

    /// Finds out who asks, and counts it.
    func admit(_ request: APIRequest, _ route: Route) throws(RelayError) -> Authentication {
        let known = try authenticator.authenticate(request, in: route.home)
        if route.scope == .public, !route.operation.isAboutPeople {
            try publicRates.charge(route.home.container, known.caller.user, at: time.uptime())
        }
        return known
    }

    private func answer(
        _ request: APIRequest,
        _ route: Route,
        _ authentication: Authentication,
        id: RequestIdentifier
    ) async throws -> EndpointAnswer {
        let context = try context(request, route, authentication, id: id)
        if let user = authentication.caller.user { try await welcomes.welcome(user, route.home, in: context.store) }
        let answer = try await route.operation.perform(context)
        if route.operation == .subscriptionsModify, let user = authentication.caller.user {
            try tellHub(ofSubscriptionsOf: user, route.home, context.store)
        }
        count(answer, of: route)
        return answer
    }

    /// Whether the bytes of its answers count.
    private func isMetered(_ route: Route) -> Bool { route.scope == .public && route.operation.readsRecords }

    func count(_ answer: EndpointAnswer, of route: Route) {
        if isMetered(route) { transfers.count(Int64(answer.body.count), of: route.home) }
    }

    /// What an endpoint needs to know, of a caller that may use it.
    func context(
        _ request: APIRequest,
        _ route: Route,
        _ authentication: Authentication,
        id: RequestIdentifier
    ) throws -> RequestContext {
        try Self.checkAccess(route, authentication)
        let body = request.method == .get || request.body.isEmpty ? Self.emptyBody : request.body
        let json = try JSONDocument(parsing: body, limits: limits.json).root
        guard json.isObject else { throw json.mismatch("a JSON object") }
        var store = try stores.store(of: route.home)
        if let signature = authentication.signature { store = SignedStore(store, signature) }
        if let trace = request.trace { store = TracedStore(store, of: route.home, trace) }
        let reading = request.head.reading
        if isMetered(route) { try transfers.check(route.home, store, at: time.now()) }
        return RequestContext(
            requestID: id,
            home: route.home,
            database: DatabaseAddress(scope: route.scope, caller: authentication.caller),
            authentication: authentication,
            services: services,
            remoteAddress: request.remoteAddress,
            isGet: request.method == .get,
            store: store,
            body: json,
            limits: limits(in: route.home),
            now: time.now(),
            types: reading.types(in: types, of: route.home),
            reading: reading
        )
    }

    /// Goes by these bounds of single users and containers from the next request on.
    package func setOwnQuotas(_ quotas: OwnQuotas) {
        ownQuotas.withLock { $0 = quotas }
        hasOwnQuotas.store(!quotas.isEmpty, ordering: .releasing)
        transfers.setOwn(quotas.containers.compactMapValues(\.publicTransfer))
    }

    private func limits(in home: ContainerEnvironment) -> Limits {
        guard hasOwnQuotas.load(ordering: .acquiring) else { return limits }
        var limits = limits
        let (users, container) = ownQuotas.withLock { ($0.users[home], $0.containers[home]) }
        limits.quota = limits.quota.replaced(by: container)
        limits.quota.ownPrivateBytes = users ?? [:]
        return limits
    }

    /// Who ran into which rate in the last day, the ones refused most first.
    package func rateHits() -> [RateHit] {
        let now = time.uptime()
        return (authenticator.rateHits(at: now) + publicRates.hits(at: now))
            .sorted { ($0.count, $0.last) > ($1.count, $1.last) }
    }

    private func tellHub(ofSubscriptionsOf user: UserID, _ home: ContainerEnvironment, _ store: any Store) throws {
        guard let hub else { return }
        try tellingHub.withLock { _ in
            let now = try store.read { reader throws(RelayError) in try reader.noticeSubscriptions(of: user) }
            hub.subscriptionsChanged(now, of: NoticeAddress(store: home, user: user))
        }
    }

    private static let emptyBody = Array("{}".utf8)

    /// Which kinds of caller may use an operation at all.
    ///
    /// See Wire.md, "Callers".
    private static func checkAccess(_ route: Route, _ authentication: Authentication) throws(RelayError) {
        switch authentication.caller.identity {
        case .user: return
        case .anonymous:
            guard route.scope == .public, route.operation.allowsAnonymous else { throw authentication.signInRequired }
        case .serverKey:
            guard route.scope == .public else {
                throw RelayError(.accessDenied, "A server-to-server key may use the public database only.")
            }
        case .operator:
            guard route.scope == .public, route.operation.isForOperators else {
                throw RelayError(.accessDenied, "The console reads and writes records of the public database only.")
            }
        }
    }

    /// Tells one request from all others; nobody need be unable to guess it.
    func requestID() -> RequestIdentifier { requestIDs.next() }
}
