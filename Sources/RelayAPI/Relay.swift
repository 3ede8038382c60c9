import HTTPTypes
package import Records
package import RelayCore
import Synchronization
import Wire

/// The relay as a function from a request value to a response value.
///
/// See Sources/README.md, "The main job".
///
/// The relay routes and authenticates a request, decodes it into types, lets `RelayCore` decide it on the container's
/// store, and writes the response. Safe to call from any thread; reads block their thread while SQLite runs, writes
/// suspend until their commit is on disk.
package final class Relay: Sendable {
    package let authenticator: Authenticator
    package let stores: any StoreCatalog
    /// Counts how queries use indexes.
    package let queryUse = QueryUse()
    private let hub: NoticeHub?
    private let limits: Limits
    private let time: TimeSource
    let longPolls: LongPollService
    private let pushes: PushService?
    let provisioning: FirstUseProvisioning
    private let publicRates: PublicRates
    private let transfers: TransferMeter
    let assets: AssetService
    private let services: RequestServices
    private let types = RecordTypeCaches()
    private let requestIDs: UUIDSequence
    /// The table of endpoints, to which the other parts of the relay add theirs.
    package let router: Router
    let onFault: @Sendable (String, any Error) -> Void
    /// The quota overrides of users and containers, and whether there are any.
    private let ownQuotas = Mutex(QuotaOverrides())
    private let hasOwnQuotas = Atomic<Bool>(false)

    /// - Parameters:
    ///   - authenticator: Authenticates callers.
    ///   - stores: Opens the store of each container; reports commits to `CommitNotices` on its own.
    ///   - hub: Delivers notices; `nil` without notices.
    ///   - limits: The limits of requests and users.
    ///   - assets: The size limits and expiry times of assets.
    ///   - push: The push services; `nil` without push notifications.
    ///   - time: The clocks.
    ///   - random: The source of names and of the first request identifier.
    ///   - onFault: Called from any thread with the identifier and the error of each request that failed through no
    ///     fault of the client.
    package init(
        authenticator: Authenticator,
        stores: any StoreCatalog,
        hub: NoticeHub? = nil,
        limits: Limits = Limits(),
        assets: AssetSettings = AssetSettings(),
        push: PushDependencies? = nil,
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
        self.assets = AssetService(
            settings: assets,
            stores: stores,
            authenticator: authenticator,
            rates: publicRates,
            transfers: transfers,
            time: time,
            random: random
        )
        provisioning = FirstUseProvisioning(authenticator, time: time)
        let pages = Pages(authenticator, stores: stores, limits: limits, time: time, random: random)
        requestIDs = UUIDSequence(random)
        longPolls = LongPollService(
            hub: hub,
            authenticator: authenticator,
            stores: stores,
            longestWait: limits.longestPoll,
            time: time,
            random: random
        )
        if let push, let hub {
            pushes = PushService(
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
            longPolls: longPolls,
            pushes: pushes,
            stores: stores,
            queryUse: queryUse,
            random: random
        )
        router = Router(
            RouteEntry.operations + pages.entries + self.assets.entries + longPolls.entries
                + [OpenAPIDocument.entry, Self.server]
        )
        hub?.queries.deleteFiredSubscriptions { [weak self] home, user, scope, subscription in
            await self?.end(subscription, of: user, in: scope, home)
        }
    }

    /// Deletes a one-time subscription that has fired, unless the client has created it again since.
    private func end(
        _ fired: Subscription,
        of user: UserID,
        in scope: DatabaseScope,
        _ home: ContainerEnvironment
    ) async {
        // If the store cannot be written, the subscription stays and fires again; notices may be delivered more than
        // once.
        guard let store = try? stores.store(of: home) else { return }
        try? await store.write(touching: user, prefetch: Prefetch(subscriptions: scope)) { writer throws(RelayError) in
            guard try writer.subscriptions(of: user, in: scope).contains(fired) else { return }
            try writer.deleteSubscriptions(ids: [fired.id], of: user, in: scope)
        }
    }

    /// Responds to a request: in place, on `executor` when its write is on disk, or in a task.
    ///
    /// Uses the stores' executor instead, until it responds, if there is one.
    ///
    /// Calls `then` exactly once, on the caller's thread or on `executor`; possibly before this returns. Failures become
    /// error responses in wire format.
    ///
    /// - Returns: The task that answers, for a caller that cancels it when the client is gone; `nil` if there is none.
    @discardableResult
    package func respond(
        to request: APIRequest,
        on executor: any ResponseExecutor,
        then: @escaping @Sendable (APIResponse) -> Void
    ) -> Task<Void, Never>? {
        switch handling(of: request) {
        case .response(let response): then(response)
        case .step(let route, let step):
            OperationRequest(self, request, route, step, executor: executor, then: then).begin()
        case .waiting(let work):
            return Task(executorPreference: stores.executor ?? executor.tasks) {
                let response = await work()
                executor.run { then(response) }
            }
        }
        return nil
    }

    /// Responds to a request in the caller's task.
    package func respond(to request: APIRequest) async -> APIResponse {
        switch handling(of: request) {
        case .response(let response): response
        case .step(let route, let step): await perform(step, request, route)
        case .waiting(let work): await withTaskExecutorPreference(stores.executor) { await work() }
        }
    }

    private enum Handling {
        case response(APIResponse)
        case step(Route, OperationRequest.Step)
        case waiting(@Sendable () async -> APIResponse)
    }

    /// Looks the request up, and answers the methods that the table answers for all endpoints.
    private func handling(of request: APIRequest) -> Handling {
        let match: RouteMatch
        switch router.match(request.head) {
        case .success(let found): match = found
        case .failure(let error): return .response(failure(error, to: request, id: requestID()))
        }
        guard match.isAllowed else {
            return .response(request.method == .options ? options(request, match) : methodNotAllowed(request, match))
        }
        switch (match.entry.endpoint, match.route) {
        case (.step(let step), let route?): return .step(route, step)
        case (.waiting(let endpoint), let route?):
            return .waiting { [self] in await perform(endpoint, request, route) }
        case (.page(let answer), _): return .waiting { [self] in await page(answer, request, match) }
        case (.step, nil), (.waiting, nil): preconditionFailure("an operation without a database")
        }
    }

    private func perform(
        _ step: @escaping OperationRequest.Step,
        _ request: APIRequest,
        _ route: Route,
        by known: Authentication? = nil
    ) async -> APIResponse {
        await withUnsafeContinuation { continuation in
            OperationRequest(self, request, route, step, by: known, executor: InlineResponseExecutor()) {
                continuation.resume(returning: $0)
            }
            .begin()
        }
    }

    /// Runs an operation that has to wait.
    private func perform(
        _ endpoint: @escaping @Sendable (RequestContext) async throws -> EndpointAnswer,
        _ request: APIRequest,
        _ route: Route,
        by known: Authentication? = nil
    ) async -> APIResponse {
        let id = requestID()
        var authentication: Authentication?
        var response: APIResponse
        do {
            let caller = try known ?? admit(request, route)
            authentication = known == nil ? caller : nil
            let store = try store(for: request, route, caller)
            let context = try context(request, route, caller, in: store, id: id)
            if known == nil, let user = caller.caller.user {
                try await provisioning.provision(user, route.home, in: store)
            }
            let answer = try await endpoint(context)
            if known == nil { count(answer, of: route) }
            response = APIResponse(answer)
        } catch {
            response = failure(error, id: id)
        }
        addCommonFields(&response, request, authentication, id: id)
        return response
    }

    /// Runs an endpoint that is no operation.
    private func page(
        _ answer: @Sendable (APIRequest, RouteMatch) async throws -> APIResponse?,
        _ request: APIRequest,
        _ match: RouteMatch
    ) async -> APIResponse {
        let id = requestID()
        var response: APIResponse
        do {
            guard let found = try await answer(request, match) else { throw RelayError.unknownPath }
            response = found
        } catch {
            response = failure(error, id: id)
            response.commonFields = CommonHeaderFields(id: id, webToken: nil)
        }
        complete(&response, of: match, id: id)
        return response
    }

    /// Returns the intake that receives the body of an upload as it arrives; `nil` if the body is to be buffered.
    ///
    /// Fast enough for an event loop: reads neither the directory nor a store.
    package func intake(for request: APIRequest) -> (any BodyIntake)? {
        (try? router.match(request.head).get()).flatMap { assets.intake(request, at: $0) }
    }

    /// Deletes the parts of interrupted uploads whose addresses have expired.
    ///
    /// Call about once a minute.
    package func removeExpiredUploads() { assets.removeExpiredUploads() }

    /// Writes the public databases' transfer counts to their stores.
    ///
    /// Call about once a minute and before exit.
    package func flushTransferCounts() async { await transfers.flush(to: stores) }

    /// Restores the push registrations.
    ///
    /// Call once, before the first request.
    package func beginPushes() throws(DirectoryError) { try pushes?.begin() }

    /// Records when sessions were last used, deletes expired ones, and ends their push registrations.
    ///
    /// Call every few minutes and before exit.
    package func maintainSignIns() throws {
        try authenticator.maintainSessions()
        try pushes?.removeExpiredRegistrations()
    }

    /// The number of devices registered for push notifications.
    package var pushDeviceCount: Int { pushes?.count ?? 0 }

    /// Ends all waiting long polls.
    ///
    /// Call when the relay begins to stop.
    package func stopPolls() { longPolls.stop() }

    /// Stops sending push notifications.
    ///
    /// Call after the last write.
    package func stopPushes() { pushes?.stop() }

    // MARK: A store that is replaced

    /// Tells the devices of a store that refuses requests for a while to come back.
    package func storeIsHeld(_ home: ContainerEnvironment) {
        _ = hub?.endAll(in: home, except: pushes?.workerNumber)
    }

    /// Drops everything that is known of a store; call it while the store is closed.
    package func storeIsClosed(_ home: ContainerEnvironment) async {
        await hub?.queries.drop(home)
        provisioning.drop(home)
        types.drop(home)
        assets.drop(home)
        transfers.drop(home)
    }

    /// Tells the push devices of a store that is open again, and may have other content, what they are subscribed to.
    package func storeIsOpen(_ home: ContainerEnvironment) {
        try? pushes?.removeDeletedRegistrations(in: home)
        // A device that was admitted before the store was held may have joined later.
        let kept = hub?.endAll(in: home, except: pushes?.workerNumber) ?? []
        guard !kept.isEmpty, let store = try? stores.store(of: home) else { return }
        for address in kept {
            let read = try? store.read { reader throws(RelayError) in
                try reader.noticeSubscriptions(of: address.user)
            }
            if let read { hub?.replaceSubscriptions(of: address, with: read) }
        }
    }

    /// Authenticates the caller and charges the request to the public database's rate.
    func admit(_ request: APIRequest, _ route: Route) throws(RelayError) -> Authentication {
        let known = try authenticator.authenticate(request, in: route.home)
        if route.scope == .public, route.operation.counted.contains(.rate) {
            try publicRates.charge(route.home.container, known.caller.user, at: time.uptime())
        }
        return known
    }

    /// Whether the bytes of the responses count towards the public transfer quota.
    private func isMetered(_ route: Route) -> Bool {
        route.scope == .public && route.operation.counted.contains(.transfer)
    }

    func count(_ answer: EndpointAnswer, of route: Route) {
        if isMetered(route) { transfers.count(Int64(answer.body.count), of: route.home) }
    }

    /// Checks access, and returns the store of the request.
    func store(
        for request: APIRequest,
        _ route: Route,
        _ authentication: Authentication
    ) throws(RelayError) -> any Store {
        try Self.checkAccess(route, authentication)
        var store = try stores.store(of: route.home)
        if let trace = request.trace { store = TracedStore(store, of: route.home, trace) }
        return store
    }

    /// Parses the body and creates the context for the endpoint.
    func context(
        _ request: APIRequest,
        _ route: Route,
        _ authentication: Authentication,
        in store: any Store,
        id: RequestIdentifier
    ) throws -> RequestContext {
        let body = request.method == .get || request.body.isEmpty ? Self.emptyBody : request.body
        let json = try JSONDocument(parsing: ByteOrderMark.dropped(from: body), limits: limits.json).root
        guard json.isObject else { throw json.mismatch("a JSON object") }
        let parsedHead = request.head.parsedHead
        if isMetered(route) { try transfers.check(route.home, store, at: time.now()) }
        return RequestContext(
            requestID: id,
            home: route.home,
            database: DatabaseAddress(scope: route.scope, caller: authentication.caller),
            authentication: authentication,
            services: services,
            remoteAddress: request.remoteAddress,
            isGet: request.method == .get,
            // First-use provisioning is outside: it can be repeated, and belongs to other owners than the request's write.
            store: authentication.signature.map { SignedStore(store, $0) } ?? store,
            body: json,
            limits: limits(in: route.home),
            now: time.now(),
            types: parsedHead.types(in: types, of: route.home),
            parsedHead: parsedHead
        )
    }

    /// Sets the quota overrides of users and containers, effective from the next request.
    package func setOwnQuotas(_ quotas: QuotaOverrides) {
        ownQuotas.withLock { $0 = quotas }
        hasOwnQuotas.store(!quotas.isEmpty, ordering: .releasing)
        transfers.setOwn(quotas.containers.compactMapValues(\.publicTransfer))
    }

    private func limits(in home: ContainerEnvironment) -> Limits {
        guard hasOwnQuotas.load(ordering: .acquiring) else { return limits }
        var limits = limits
        let (users, container) = ownQuotas.withLock { ($0.users[home], $0.containers[home]) }
        limits.quota = limits.quota.replaced(by: container)
        limits.quota.userPrivateBytes = users ?? [:]
        return limits
    }

    /// Sets how many relays share the rate limits.
    func divideLimits(among relays: Int) {
        authenticator.divideLimits(among: relays)
        publicRates.divide(among: relays)
    }

    /// Returns the rate limits that were hit in the last 24 hours, highest count first.
    package func rateHits() -> [RateHit] {
        let now = time.uptime()
        return (authenticator.rateHits(at: now) + publicRates.hits(at: now))
            .sorted { ($0.count, $0.last) > ($1.count, $1.last) }
    }

    private static let emptyBody = Array("{}".utf8)

    /// Checks whether this kind of caller may use the operation.
    ///
    /// See Wire.md, "Callers".
    private static func checkAccess(_ route: Route, _ authentication: Authentication) throws(RelayError) {
        switch authentication.caller.identity {
        case .user: return
        case .anonymous:
            guard route.scope == .public, route.operation.callers.contains(.anonymous) else {
                throw authentication.signInRequired
            }
        case .serverKey:
            guard route.scope == .public else {
                throw RelayError(.accessDenied, "A server-to-server key may use the public database only.")
            }
        case .operator:
            guard route.scope == .public, route.operation.callers.contains(.operators) else {
                throw RelayError(.accessDenied, "The console reads and writes records of the public database only.")
            }
        }
    }

    /// `OPTIONS *`, which asks for the methods of the whole relay.
    private static let server = RouteEntry.page("*", .whole("*"), [.get, .head, .post, .put]) { _, _ in nil }

    /// Returns an identifier that is unique but not necessarily unpredictable.
    func requestID() -> RequestIdentifier { requestIDs.next() }
}

/// Completes responses: errors in wire format and common header fields.
extension Relay {
    static func relayError(for error: any Error) -> RelayError {
        switch error {
        case let error as RelayError: return error
        case let error as JSONError: return .badRequest(error.description)
        case let error as CredentialRefusal: return error.relayError(redirectURL: nil)
        default: return RelayError(.internalError, "The request failed in the relay; report its uuid to the operator.")
        }
    }

    /// Returns the response to a failed request; reports status 500 and above to the operator through `onFault`.
    func failure(_ cause: any Error, id: RequestIdentifier) -> APIResponse {
        let error = Self.relayError(for: cause)
        let status = error.status ?? error.code.status
        if status >= 500 { onFault(id.text, cause) }
        let answer = EndpointAnswer {
            $0.member("uuid", id.text)
            $0.members(of: error)
        }
        var response = APIResponse(status: .init(code: status), text: answer.body)
        response.errorCode = error.code
        if let wait = error.retryAfter {
            // The header takes whole seconds; at least one.
            response.headers[.retryAfter] = String(max(1, Int(wait.inSeconds.rounded(.up))))
        }
        return response
    }

    func addCommonFields(
        _ response: inout APIResponse,
        _ request: APIRequest,
        _ authentication: Authentication?,
        id: RequestIdentifier
    ) {
        response.commonFields = CommonHeaderFields(id: id, webToken: authentication?.freshWebToken)
        response.caller = authentication?.caller
        if request.method == .get { response.otherHeaders[.cacheControl] = "no-store" }
        if let origin = authentication?.origin {
            response.otherHeaders[.vary] = "Origin"
            CrossOrigin.allow(origin, &response)
        } else if authentication == nil, let origin = request.headers[.origin] {
            // Unauthenticated pages must be able to read the redirect URL of the sign-in page.
            response.otherHeaders[.vary] = "Origin"
            guard let home = request.head.parsedHead.home,
                authenticator.allowsOrigin(origin, of: request, in: home)
            else { return }
            CrossOrigin.allow(origin, &response)
        }
    }

    /// Returns the response to a request that failed before it was authenticated.
    private func failure(_ cause: any Error, to request: APIRequest, id: RequestIdentifier) -> APIResponse {
        var response = failure(cause, id: id)
        addCommonFields(&response, request, nil, id: id)
        return response
    }

    /// Answers OPTIONS: as a CORS preflight if the request has an origin, otherwise with the allowed methods.
    ///
    /// See Wire.md, "Headers and bodies", and RFC 9110, 9.3.7.
    private func options(_ request: APIRequest, _ match: RouteMatch) -> APIResponse {
        let id = requestID()
        var response = APIResponse(status: .noContent)
        switch (match.entry.origins, request.headers[.origin]) {
        case (.any(let sending, _), _):
            response.headers[.allow] = match.allowed
            response.headers[.accessControlAllowMethods] = match.allowed
            if !sending.isEmpty { response.headers[.accessControlAllowHeaders] = sending }
            response.headers[.accessControlMaxAge] = CrossOrigin.maxAge
        case (_, nil): response.headers[.allow] = match.allowed
        case (.own, _?): response = CrossOrigin.preflight(nil)
        case (.configured, let origin?):
            let isAllowed = match.route.map { authenticator.allowsOrigin(origin, of: request, in: $0.home) } ?? false
            response = CrossOrigin.preflight(isAllowed ? origin : nil)
        }
        complete(&response, of: match, id: id)
        return response
    }

    private func methodNotAllowed(_ request: APIRequest, _ match: RouteMatch) -> APIResponse {
        let id = requestID()
        let error = RelayError(.badRequest, "This path supports \(match.allowed).", status: 405)
        var response = failure(error, id: id)
        if case .configured = match.entry.origins {
            addCommonFields(&response, request, nil, id: id)
        } else {
            response.commonFields = CommonHeaderFields(id: id, webToken: nil)
        }
        // RFC 9110, 15.5.6.
        response.otherHeaders[.allow] = match.allowed
        complete(&response, of: match, id: id)
        return response
    }

    /// Adds the request identifier, and the fields that let pages of other origins read the response.
    private func complete(_ response: inout APIResponse, of match: RouteMatch, id: RequestIdentifier) {
        if match.entry.isMonitored, response.commonFields == nil { response.otherHeaders[.requestUUID] = id.text }
        guard case .any(_, let reading) = match.entry.origins else { return }
        response.otherHeaders[.accessControlAllowOrigin] = "*"
        if !reading.isEmpty { response.otherHeaders[.accessControlExposeHeaders] = reading }
    }
}

extension APIResponse {
    /// Creates a response from an endpoint's answer.
    init(_ answer: EndpointAnswer) {
        self.init(status: answer.errorCode.map { .init(code: $0.status) } ?? .ok, text: answer.body)
        errorCode = answer.errorCode
    }
}

/// The CORS header fields.
///
/// See Wire.md, "Headers and bodies". The header names the origin, never `*`, so that pages may also send credentials.
enum CrossOrigin {
    /// Ten minutes, in seconds.
    ///
    /// If an origin is removed, browsers notice after that time, and the request itself is refused at once.
    static let maxAge = "600"

    /// Lets a page of `origin`, which the caller has checked, read the response.
    static func allow(_ origin: String, _ response: inout APIResponse) {
        response.otherHeaders[.accessControlAllowOrigin] = origin
        response.otherHeaders[.accessControlAllowCredentials] = "true"
        response.otherHeaders[.accessControlExposeHeaders] =
            "X-Apple-Request-UUID, X-Apple-CloudKit-Web-Auth-Token, X-Responding-Instance, Via, Retry-After"
    }

    /// Returns the response to a preflight request; pass `nil` as `origin` if the origin is not allowed.
    static func preflight(_ origin: String?) -> APIResponse {
        var response = APIResponse(status: origin == nil ? .forbidden : .noContent)
        response.headers[.vary] = "Origin"
        guard let origin else { return response }
        allow(origin, &response)
        response.headers[.accessControlAllowMethods] = "GET, POST, OPTIONS"
        response.headers[.accessControlAllowHeaders] =
            "Content-Type, X-Apple-CloudKit-Request-KeyID, X-Apple-CloudKit-Request-ISO8601Date, "
            + "X-Apple-CloudKit-Request-SignatureV1, X-Zonecast-Device-ID"
        response.headers[.accessControlMaxAge] = maxAge
        return response
    }
}

/// Requests of the console on behalf of an operator.
extension Relay {
    /// Responds to a request of an authenticated operator; counts towards no rate and no transfer quota.
    ///
    /// Operators read and write all records of the public database, whatever the schema grants, and nothing else.
    package func respond(to request: APIRequest, as person: Operator) async -> APIResponse {
        await respond(to: request, by: Caller(.operator(person.user), deviceID: "console-\(person.id)"))
    }

    /// Responds to a request on behalf of a user, for an operator who stops a share or deletes an account.
    ///
    /// The response is for internal use only: operators must not see private records.
    package func respond(to request: APIRequest, for user: UserID) async -> APIResponse {
        await respond(to: request, by: Caller(.user(user), deviceID: "console"))
    }

    private func respond(to request: APIRequest, by caller: Caller) async -> APIResponse {
        let match: RouteMatch
        switch router.match(request.head) {
        case .success(let found): match = found
        case .failure(let error): return failure(error, to: request, id: requestID())
        }
        guard let route = match.route else { return failure(RelayError.unknownPath, to: request, id: requestID()) }
        let known = Authentication(console: caller, in: route.home)
        switch match.entry.endpoint {
        case .step(let step): return await perform(step, request, route, by: known)
        case .waiting(let endpoint): return await perform(endpoint, request, route, by: known)
        case .page: return failure(RelayError.unknownPath, to: request, id: requestID())
        }
    }
}

extension Authentication {
    /// Creates the authentication of a console request: without a token, and never cached for a socket.
    fileprivate convenience init(console caller: Caller, in home: ContainerEnvironment) {
        self.init(caller: caller, credential: .serverKey(""), signIn: SignInAddress(home: home))
    }
}
