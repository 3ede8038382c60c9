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
    private let limits: Limits
    private let time: TimeSource
    private let hub: NoticeHub?
    /// Held while subscriptions are read and passed to the hub, so that the hub receives them in order.
    private let subscriptionsLock = Mutex(())
    private let pages: Pages
    let longPolls: LongPollService
    private let pushes: PushService?
    let provisioning: FirstUseProvisioning
    private let publicRates: PublicRates
    private let transfers: TransferMeter
    let assets: AssetService
    private let services: RequestServices
    private let types = RecordTypeCaches()
    private let requestIDs: UUIDSequence
    let onFault: @Sendable (String, any Error) -> Void
    /// The quota overrides of users and containers, and whether there are any.
    private let ownQuotas = Mutex(QuotaOverrides())
    private let hasOwnQuotas = Atomic<Bool>(false)

    /// - Parameters:
    ///   - authenticator: Authenticates callers.
    ///   - stores: Opens the store of each container; reports commits to `hub` on its own.
    ///   - hub: Receives changes of subscriptions; `nil` without notices.
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
        pages = Pages(authenticator, stores: stores, limits: limits, time: time, random: random)
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
        try? await store.write { writer throws(RelayError) in
            guard try writer.subscriptions(of: user, in: scope).contains(fired) else { return }
            try writer.deleteSubscriptions(ids: [fired.id], of: user, in: scope)
        }
        try? publishSubscriptions(of: user, home, store)
    }

    /// Responds to a request: in place, on `executor` when its write is on disk, or in a task.
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
        if answer(request, on: executor, then: then) { return nil }
        return Task(executorPreference: executor.tasks) { [self] in
            let response = await respond(to: request)
            executor.run { then(response) }
        }
    }

    /// Responds to a request in the caller's task.
    package func respond(to request: APIRequest) async -> APIResponse {
        let direct: APIResponse? = await withUnsafeContinuation { continuation in
            let isDirect = answer(request, on: InlineResponseExecutor()) { continuation.resume(returning: $0) }
            if !isDirect { continuation.resume(returning: nil) }
        }
        if let direct { return direct }
        if let page = Pages.Page(request.path) { return await pages.respond(to: request, at: page) }
        if let path = SharePagePath(request.path) { return await pages.respond(to: request, at: path) }
        if let purpose = AssetService.purpose(request.path) { return await respondToAssetRequest(request, purpose) }
        let id = requestID()
        if request.path == "*", request.method == .options {
            return Self.methods("GET, HEAD, POST, PUT, OPTIONS", id: id)
        }
        if OpenAPIDocument.isRequested(by: request.path) { return Self.openAPIResponse(request, id: id) }
        if let home = LongPollService.home(ofPath: request.path) { return await poll(request, home, id: id) }
        var authentication: Authentication?
        var response: APIResponse
        do {
            let route = try request.head.parsedHead.route.get()
            if request.method == .options { return preflight(request, route, id: id) }
            guard request.method == .post || (request.method == .get && route.operation.allowsGet) else {
                let method = route.operation.allowsGet ? "GET" : "POST"
                throw RelayError.methodNotAllowed("This path requires \(method).")
            }
            let known = try admit(request, route)
            authentication = known
            let answer = try await answer(request, route, known, id: id)
            response = APIResponse(answer)
        } catch {
            response = failure(error, id: id)
            if response.status == .methodNotAllowed, let route = try? request.head.parsedHead.route.get() {
                response.headers[.allow] = route.allowed
            }
        }
        addCommonFields(&response, request, authentication, id: id)
        return response
    }

    /// Handles a frequent operation on the caller's thread or, once a write is on disk, on `executor`.
    ///
    /// Returns `false` and does nothing for all other requests; the caller must then use `respond(to:)`.
    private func answer(
        _ request: APIRequest,
        on executor: any ResponseExecutor,
        then: @escaping @Sendable (APIResponse) -> Void
    ) -> Bool {
        let parsedHead = request.head.parsedHead
        guard parsedHead.isOperationPath, case .success(let route) = parsedHead.route, route.operation.isDirect,
            request.method == .post || (request.method == .get && route.operation.allowsGet)
        else { return false }
        DirectRequest(self, request, route, executor: executor, then: then).begin()
        return true
    }

    /// Returns the intake that receives the body of an upload as it arrives; `nil` if the body is to be buffered.
    ///
    /// Fast enough for an event loop.
    package func intake(for request: APIRequest) -> (any BodyIntake)? { assets.intake(request) }

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
        for address in kept { try? publishSubscriptions(of: address.user, home, store) }
    }

    /// Authenticates the caller and charges the request to the public database's rate.
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
        if let user = authentication.caller.user {
            try await provisioning.provision(user, route.home, in: context.store)
        }
        let answer = try await route.operation.perform(context)
        if route.operation == .subscriptionsModify, let user = authentication.caller.user {
            try publishSubscriptions(of: user, route.home, context.store)
        }
        count(answer, of: route)
        return answer
    }

    /// Whether the bytes of the responses count towards the public transfer quota.
    private func isMetered(_ route: Route) -> Bool { route.scope == .public && route.operation.readsRecords }

    func count(_ answer: EndpointAnswer, of route: Route) {
        if isMetered(route) { transfers.count(Int64(answer.body.count), of: route.home) }
    }

    /// Checks access and creates the context for the endpoint.
    func context(
        _ request: APIRequest,
        _ route: Route,
        _ authentication: Authentication,
        id: RequestIdentifier
    ) throws -> RequestContext {
        try Self.checkAccess(route, authentication)
        let body = request.method == .get || request.body.isEmpty ? Self.emptyBody : request.body
        let json = try JSONDocument(parsing: ByteOrderMark.dropped(from: body), limits: limits.json).root
        guard json.isObject else { throw json.mismatch("a JSON object") }
        var store = try stores.store(of: route.home)
        if let signature = authentication.signature { store = SignedStore(store, signature) }
        if let trace = request.trace { store = TracedStore(store, of: route.home, trace) }
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
            store: store,
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

    /// Returns the rate limits that were hit in the last 24 hours, highest count first.
    package func rateHits() -> [RateHit] {
        let now = time.uptime()
        return (authenticator.rateHits(at: now) + publicRates.hits(at: now))
            .sorted { ($0.count, $0.last) > ($1.count, $1.last) }
    }

    private func publishSubscriptions(of user: UserID, _ home: ContainerEnvironment, _ store: any Store) throws {
        guard let hub else { return }
        try subscriptionsLock.withLock { _ in
            let now = try store.read { reader throws(RelayError) in try reader.noticeSubscriptions(of: user) }
            hub.subscriptionsChanged(now, of: NoticeAddress(store: home, user: user))
        }
    }

    private static let emptyBody = Array("{}".utf8)

    /// Checks whether this kind of caller may use the operation.
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
            guard let home = Route.home(ofPath: request.path),
                authenticator.allowsOrigin(origin, of: request, in: home)
            else { return }
            CrossOrigin.allow(origin, &response)
        }
    }

    static let json = HTTPField(name: .contentType, value: "application/json; charset=UTF-8")

    /// Returns the response to OPTIONS without an origin: the methods of a path, or of the whole server for `*`.
    static func methods(_ allowed: String, id: RequestIdentifier) -> APIResponse {
        var response = APIResponse(status: .noContent)
        response.headers[.allow] = allowed
        response.headers[.requestUUID] = id.text
        return response
    }

    /// Answers OPTIONS: as a CORS preflight if the request has an origin, otherwise with the allowed methods.
    ///
    /// See Wire.md, "Headers and bodies", and RFC 9110, 9.3.7.
    func preflight(_ request: APIRequest, _ route: Route, id: RequestIdentifier) -> APIResponse {
        guard request.headers[.origin] != nil else { return Self.methods(route.allowed, id: id) }
        let origin = request.headers[.origin].flatMap {
            authenticator.allowsOrigin($0, of: request, in: route.home) ? $0 : nil
        }
        var response = CrossOrigin.preflight(origin)
        response.headers[.requestUUID] = id.text
        return response
    }
}

extension APIResponse {
    /// Creates a response from an endpoint's answer.
    init(_ answer: EndpointAnswer) {
        self.init(status: answer.errorCode.map { .init(code: $0.status) } ?? .ok, text: answer.body)
        errorCode = answer.errorCode
    }
}

extension RelayError {
    /// Returns an error with status 405.
    ///
    /// The caller must set the header `Allow`: RFC 9110, 15.5.6.
    static func methodNotAllowed(_ reason: String) -> RelayError { RelayError(.badRequest, reason, status: 405) }
}

/// The CORS header fields.
///
/// See Wire.md, "Headers and bodies". The header names the origin, never `*`, so that pages may also send credentials.
enum CrossOrigin {
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
        // Ten minutes. If an origin is removed, browsers notice after that time, and the request itself is refused at
        // once.
        response.headers[.accessControlMaxAge] = "600"
        return response
    }
}

/// Endpoints that are not operations on a database.
extension Relay {
    /// Serves the OpenAPI document, which is public and readable from any origin.
    static func openAPIResponse(_ request: APIRequest, id: RequestIdentifier) -> APIResponse {
        let isRead = request.method == .get || request.method == .head
        var response = APIResponse(
            status: isRead ? .ok : .methodNotAllowed,
            body: isRead ? OpenAPIDocument.json : []
        )
        response.headers.append(json)
        response.headers[.requestUUID] = id.text
        response.headers[.accessControlAllowOrigin] = "*"
        if !isRead { response.headers[.allow] = "GET, HEAD" }
        return response
    }

    /// Handles a request to an asset's upload or download address, which needs no credentials and allows any origin.
    func respondToAssetRequest(_ request: APIRequest, _ purpose: AssetSeal.Purpose) async -> APIResponse {
        let id = requestID()
        var response: APIResponse
        do {
            switch (purpose, request.method) {
            case (_, .options):
                response = APIResponse(status: .noContent)
                response.headers[.accessControlAllowMethods] = "GET, POST, PUT, OPTIONS"
                response.headers[.accessControlAllowHeaders] = "Content-Type, If-None-Match, Range, Upload-Offset"
                response.headers[.accessControlMaxAge] = "600"
            case (.upload, .post), (.upload, .put):
                let answer = try await assets.finish(request)
                response = APIResponse(status: .ok, text: answer.body)
                response.headers.append(Self.json)
            case (.upload, .get), (.upload, .head): response = try assets.progress(request)
            case (.download, .get), (.download, .head): response = try await assets.download(request)
            default: throw RelayError.methodNotAllowed("This address does not support this method.")
            }
        } catch {
            response = failure(error, id: id)
            if response.status == .methodNotAllowed {
                response.headers[.allow] = purpose == .upload ? "POST, PUT, OPTIONS" : "GET, HEAD, OPTIONS"
            }
            response.headers.append(Self.json)
        }
        response.headers[.requestUUID] = id.text
        response.headers[.accessControlAllowOrigin] = "*"
        response.headers[.accessControlExposeHeaders] = "ETag, Upload-Offset, X-Apple-Request-UUID"
        return response
    }

    /// Handles a long poll.
    func poll(_ request: APIRequest, _ home: ContainerEnvironment, id: RequestIdentifier) async -> APIResponse {
        var response: APIResponse
        do {
            guard request.method == .get else {
                throw RelayError.methodNotAllowed("This path requires GET.")
            }
            response = try await longPolls.respond(to: request, in: home)
        } catch {
            response = failure(error, id: id)
            if response.status == .methodNotAllowed { response.headers[.allow] = "GET" }
            response.headers.append(Self.json)
            response.headers[.accessControlAllowOrigin] = "*"
        }
        response.headers[.requestUUID] = id.text
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
        let id = requestID()
        var response: APIResponse
        do {
            let route = try request.head.parsedHead.route.get()
            let known = Authentication(console: caller, in: route.home)
            let context = try context(request, route, known, id: id)
            let answer = try await route.operation.perform(context)
            response = APIResponse(answer)
        } catch {
            response = failure(error, id: id)
        }
        addCommonFields(&response, request, nil, id: id)
        return response
    }
}

extension Route.Operation {
    /// Whether operators may use it in the public database.
    var isForOperators: Bool {
        switch self {
        case .recordsModify, .recordsLookup, .recordsQuery, .assetsUpload, .assetsRereference, .zonesList: true
        default: false
        }
    }
}

extension Authentication {
    /// Creates the authentication of a console request: without a token, and never cached for a socket.
    fileprivate convenience init(console caller: Caller, in home: ContainerEnvironment) {
        self.init(caller: caller, credential: .serverKey(""), signIn: SignInAddress(home: home))
    }
}
