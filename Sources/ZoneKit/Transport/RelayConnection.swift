package import Foundation
package import Records
import Synchronization
package import Wire

/// The connection to a container's relay, which all objects of the container share.
package struct RelayConnection: Sendable {
    package var container: String
    package var environment: RelayEndpoint.Environment
    /// The relay's URL; `nil` for a relay in this process.
    package var url: URL?
    package var credentials: RelayCredentials
    package var deviceID: String
    package var transport: any RelayTransport
    /// Facts about the current user; shared by copies of this value.
    package let caller: CallerInfo
    /// The notice connection of all engines; shared by copies of this value, and by later connections of the same
    /// container.
    package let notices: NoticeMultiplexer
    /// Creates the socket of the notice connection; `nil` for the system's sockets, or for none with a relay in this
    /// process.
    package var sockets: (any SocketConnector)?
    /// Provides the user's key for encrypted values.
    package var encryptionKey: (any EncryptionKeyProvider)?
    /// The dependencies of engines, mirrors and pollers in tests; `nil` for the system's.
    package var conditions: SyncConditions?
    /// The zone keys that have been opened; shared by copies of this value.
    package let zoneKeys: ZoneKeyring
    /// Writes whose responses were lost; shared by copies of this value.
    package let idempotencyCache = IdempotencyCache()

    package init(
        container: String,
        environment: RelayEndpoint.Environment = .development,
        url: URL?,
        credentials: RelayCredentials,
        deviceID: String,
        transport: any RelayTransport,
        sockets: (any SocketConnector)? = nil,
        notices: NoticeMultiplexer = NoticeMultiplexer()
    ) {
        self.container = container
        self.environment = environment
        self.url = url
        self.credentials = credentials
        self.deviceID = deviceID
        self.transport = transport
        self.sockets = sockets
        self.notices = notices
        let zoneKeys = ZoneKeyring(of: container)
        self.zoneKeys = zoneKeys
        let links = url?.appendingPathComponent("share/\(container)/\(environment.rawValue)")
        caller = CallerInfo(links: links, keys: zoneKeys) {
            // Not this connection, because its `CallerInfo` retains the asset client: that would be a retain cycle.
            AssetClient(
                RelayConnection(
                    container: container,
                    environment: environment,
                    url: url,
                    credentials: credentials,
                    deviceID: deviceID,
                    transport: transport,
                    notices: notices
                )
            )
        }
    }

    package init(container: String, endpoint: RelayEndpoint, notices: NoticeMultiplexer = NoticeMultiplexer()) {
        self.init(
            container: container,
            environment: endpoint.environment,
            url: endpoint.url,
            credentials: RelayCredentials(
                apiToken: endpoint.apiToken,
                credential: endpoint.credential ?? endpoint.webAuthToken.map { .webAuthToken($0) } ?? .nobody,
                renewed: endpoint.tokenRenewed
            ),
            deviceID: endpoint.deviceID ?? UUID().uuidString,
            transport: endpoint.network?.transport ?? NetworkTransport.to(endpoint.url),
            sockets: endpoint.network?.sockets,
            notices: notices
        )
        encryptionKey = endpoint.encryptionKey
    }
}

extension RelayConnection {
    /// Stores the current user's record name from a response of a generation.
    ///
    /// Names of earlier accounts are ignored.
    func setCallerName(callerName: String, generation: Int) {
        guard generation == credentials.current.generation else { return }
        caller.setCallerName(callerName, generation: generation)
    }
}

/// Facts about the current user for reading responses: the record name, when it is known, and the base URL of share
/// links.
package final class CallerInfo: Sendable {
    private let name = Mutex<(text: String?, generation: Int)>((nil, 0))
    /// Whether a caller got the result that the account cannot be determined, and waits for a change.
    private let waitingForAccount = Mutex(false)
    /// The relay's base URL for this container's share links.
    private let links: URL
    /// Decrypts encrypted values.
    let keys: ZoneKeyring?
    private let makeClient: (@Sendable () -> AssetClient)?
    private let assetClient = Mutex<AssetClient?>(nil)

    /// For a relay in this process, which has no URL, `links` is a placeholder.
    package init(
        links: URL? = nil,
        keys: ZoneKeyring? = nil,
        assets: (@Sendable () -> AssetClient)? = nil
    ) {
        self.links = links ?? URL(filePath: "/zonecast/share")
        self.keys = keys
        makeClient = assets
    }

    /// The asset files of this connection; `nil` without a connection.
    package var assets: AssetClient? {
        assetClient.withLock { assetClient in
            if assetClient == nil { assetClient = makeClient?() }
            return assetClient
        }
    }

    /// Returns another asset client with its own folder.
    package func makeAssetClient() -> AssetClient? { makeClient?() }

    /// Returns a copy with the user's name from a file, to read records before any request; `self` if the name is
    /// known.
    package func named(_ name: String?) -> CallerInfo {
        guard recordName == nil, let name else { return self }
        let copy = CallerInfo(links: links, keys: keys, assets: makeClient)
        copy.recordName = name
        return copy
    }

    /// Returns the link of a share.
    ///
    /// The title in its fragment is for readers only.
    package func link(_ shortGUID: String, title: String?) -> URL? {
        let link = links.appendingPathComponent(shortGUID)
        guard let title, !title.isEmpty, var parts = URLComponents(url: link, resolvingAgainstBaseURL: false) else {
            return link
        }
        parts.fragment = title
        return parts.url
    }

    package var recordName: String? {
        get { name.withLock { $0.text } }
        set { name.withLock { $0.text = newValue } }
    }

    /// The generation of the sign-in that the name belongs to.
    var generation: Int { name.withLock { $0.generation } }

    /// Stores a name from a response of a generation.
    ///
    /// Names of earlier generations are ignored.
    package func setCallerName(_ recordName: String, generation: Int) {
        let isNews = name.withLock { name in
            guard generation >= name.generation else { return false }
            name = (recordName, generation)
            return true
        }
        if isNews { endWaitingForAccount() }
    }

    var isWaitingForAccount: Bool { waitingForAccount.withLock { $0 } }

    /// Called when a caller waits for `CKAccountChanged`, because the account could not be determined.
    ///
    /// Returns `false` if another caller already waits.
    func beginWaitingForAccount() -> Bool {
        waitingForAccount.withLock { waitingForAccount in
            defer { waitingForAccount = true }
            return !waitingForAccount
        }
    }

    /// Called when the relay has responded.
    ///
    /// Posts `CKAccountChanged` if a caller waits.
    func endWaitingForAccount() {
        let wasAwaited = waitingForAccount.withLock { waitingForAccount in
            defer { waitingForAccount = false }
            return waitingForAccount
        }
        if wasAwaited { NotificationCenter.default.post(name: .CKAccountChanged, object: nil) }
    }

    /// Forgets the name, because another user is signed in from this generation on.
    package func forget(generation: Int) {
        name.withLock { name in
            guard generation > name.generation else { return }
            name = (nil, generation)
        }
    }
}

/// Looks up a container's connection when it is first needed, so that an app can create containers before it configures
/// them.
package final class RelaySession: Sendable {
    /// Identifies sessions with the same destination: a container at its configured relay, or at a relay of its own.
    package struct Identity: Hashable, Sendable {
        var container: String
        var connection: ObjectIdentifier?
    }

    package let container: String
    /// The queue of operations that are added to databases and containers.
    package let operations = OperationQueue()
    private let fixed: RelayConnection?
    /// Makes the clients in place of HTTP.
    private let makeClient: (@Sendable (DatabaseScope) -> any RelayClient)?

    package var identity: Identity {
        Identity(container: container, connection: fixed.map { ObjectIdentifier($0.caller) })
    }

    /// Creates a session.
    ///
    /// Without a fixed connection, it looks up the configured one at each use.
    package init(
        container: String,
        connection: RelayConnection? = nil,
        client: (@Sendable (DatabaseScope) -> any RelayClient)? = nil
    ) {
        self.container = container
        fixed = connection
        makeClient = client
    }

    /// Returns the client for the requests about one database.
    ///
    /// With an owner, the client makes no request in the name of another sign-in.
    package func client(
        of scope: DatabaseScope,
        _ settings: RequestSettings,
        owner: (@Sendable () -> AccountBinding?)? = nil
    ) -> any RelayClient {
        makeClient?(scope)
            ?? HTTPRelayClient(scope, settings, owner: owner) { () throws(CKError) in try self.connection() }
    }

    package func connection() throws(CKError) -> RelayConnection {
        if let connection = fixed ?? RelayConfiguration.connection(for: container) { return connection }
        throw CKError(
            .badContainer,
            "No relay is configured for \(container). Set ZONECAST_URL, or call CKContainer.configure(_:) before the first request."
        )
    }

    /// Returns the connection as soon as there is one; `nil` if the task is cancelled first.
    package func connectionOnceConfigured() async -> RelayConnection? {
        if let fixed { return fixed }
        return await RelayConfiguration.firstConnection(for: container)
    }
}

/// The relays of the process: those set by `CKContainer.configure`, else those in the environment.
package enum RelayConfiguration {
    private struct State {
        var general: RelayEndpoint?
        var endpoints: [String: RelayEndpoint] = [:]
        var connections: [String: RelayConnection] = [:]
        /// Listeners for a container's notices continue to listen when its relay changes.
        var notices: [String: NoticeMultiplexer] = [:]
        var defaultContainer: String?
        /// The tasks that wait for a container's relay.
        var waiting: [UUID: AsyncStream<Void>.Continuation] = [:]
    }

    private static let state = Mutex(State())

    package static func configure(_ endpoint: RelayEndpoint, container: String?) {
        let (replaced, waiting) = state.withLock { state in
            let known = state.connections
            if let container {
                state.endpoints[container] = endpoint
                state.connections[container] = nil
                state.defaultContainer = state.defaultContainer ?? container
            } else {
                state.general = endpoint
                state.connections = state.connections.filter { state.endpoints[$0.key] != nil }
            }
            return (known.keys.filter { state.connections[$0] == nil }, Array(state.waiting.values))
        }
        waiting.forEach { $0.yield() }
        guard !replaced.isEmpty else { return }
        // Running engines and mirrors then check which user is signed in, as after a sign-in.
        Task(executorPreference: BlockingThreads.executor) {
            for container in replaced {
                guard let connection = connection(for: container) else { continue }
                await connection.notices.accountReplaced(over: connection)
            }
        }
        NotificationCenter.default.post(name: .CKAccountChanged, object: nil)
    }

    /// Waits until a relay is configured for the container; returns `nil` if the task is cancelled first.
    static func firstConnection(for container: String) async -> RelayConnection? {
        let id = UUID()
        let (news, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.waiting[id] = continuation }
        defer { state.withLock { $0.waiting[id] = nil } }
        if let connection = connection(for: container) { return connection }
        for await _ in news {
            if let connection = connection(for: container) { return connection }
        }
        return nil
    }

    package static func connection(for container: String) -> RelayConnection? {
        state.withLock { state in
            if let known = state.connections[container] { return known }
            guard let endpoint = state.endpoints[container] ?? state.general ?? Self.processEndpoint else {
                return nil
            }
            let notices = state.notices[container] ?? NoticeMultiplexer()
            let made = RelayConnection(container: container, endpoint: endpoint, notices: notices)
            state.connections[container] = made
            state.notices[container] = notices
            return made
        }
    }

    /// The endpoint from the environment: from the file that it names, else from its variables.
    private static var processEndpoint: RelayEndpoint? {
        let variables = ProcessInfo.processInfo.environment
        if let path = variables["ZONECAST_CONFIG"], !path.isEmpty {
            return try? RelayEndpoint(contentsOf: URL(fileURLWithPath: path))
        }
        return RelayEndpoint(variables: variables)
    }

    /// The container of `CKContainer.default()`.
    ///
    /// This is the first container that was configured by its identifier, else `ZONECAST_CONTAINER`, else a container
    /// named after the program.
    package static var defaultContainer: String {
        if let configured = state.withLock({ $0.defaultContainer }) { return configured }
        let process = ProcessInfo.processInfo
        if let named = process.environment["ZONECAST_CONTAINER"], !named.isEmpty { return named }
        let program = process.processName.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "-" }
        return "iCloud." + String(program)
    }
}

/// One call to the relay: an operation of a database with an encoded body.
package struct RelayCall: Sendable {
    package var scope: DatabaseScope
    /// The path below the database, such as `records/modify`.
    package var operation: String
    /// `nil` for a GET request.
    package var body: [UInt8]?
    package var isWrite: Bool
    package var settings: RequestSettings

    package init(
        _ scope: DatabaseScope,
        _ operation: String,
        _ body: [UInt8]? = nil,
        isWrite: Bool = false,
        settings: RequestSettings = RequestSettings()
    ) {
        self.scope = scope
        self.operation = operation
        self.body = body
        self.isWrite = isWrite
        self.settings = settings
    }
}

/// A failed call: the error, and the response body if it has details about single items.
package struct CallFailure: Error {
    package var error: CKError
    package var failure: ClientResponse.Failure?
    package var document: JSONDocument?
}

/// The sign-in that a task's requests belong to, on one connection.
///
/// A round of fetching or sending works for one user. If another user signs in during the round, the remaining requests
/// must not be sent, and above all must not write, as that user.
package struct AccountBinding: Sendable {
    @TaskLocal package static var current: AccountBinding?

    /// Identifies the connection; a connection that replaces it with the same multiplexer is treated as the same.
    private let multiplexer: NoticeMultiplexer
    private let generation: Int

    package init(_ connection: RelayConnection, generation: Int) {
        multiplexer = connection.notices
        self.generation = generation
    }

    /// Returns the sign-in that this task works for on a connection, or else the current one.
    package static func forCurrentTask(_ connection: RelayConnection) -> AccountBinding {
        if let current, current.multiplexer === connection.notices { return current }
        return AccountBinding(connection, generation: connection.credentials.current.generation)
    }

    /// Runs `work` and sends its requests only as this sign-in.
    ///
    /// `work` must not call the app's code, because requests of the app do not belong to this sign-in.
    func perform<Result>(_ work: () async throws(CKError) -> Result) async throws(CKError) -> Result {
        do {
            return try await Self.$current.withValue(self) { try await work() }
        } catch {
            throw CKError(from: error)
        }
    }

    /// Throws if the task works for another sign-in than this one.
    fileprivate static func check(_ connection: RelayConnection, _ generation: Int) throws(CallFailure) {
        guard let current, current.multiplexer === connection.notices,
            current.generation != generation, isEnforced
        else { return }
        throw CallFailure(
            error: CKError(.accountTemporarilyUnavailable, "Another user has signed in since this operation began.")
        )
    }
}

extension RelayConnection {
    /// Sends a call and reads the response.
    ///
    /// Stores the renewed token if the response contains one.
    package func send(_ call: RelayCall) async throws(CallFailure) -> JSONDocument {
        if credentials.hasUnusableKey {
            throw CallFailure(
                error: CKError(.notAuthenticated, "The server key's private key is not a P-256 key in PEM format.")
            )
        }
        var (token, generation) = credentials.current
        if token == nil, let fresh = try await signIn(insteadOf: nil) {
            (token, generation) = (fresh.token, fresh.generation)
        }
        try AccountBinding.check(self, generation)
        do throws(CallFailure) {
            return try await exchange(call, token, generation)
        } catch {
            // The relay refused the call before it executed it, so it is safe to repeat.
            guard error.error.code == .notAuthenticated, let fresh = try await signIn(insteadOf: token) else {
                throw error
            }
            try AccountBinding.check(self, fresh.generation)
            let document = try await exchange(call, fresh.token, fresh.generation)
            await notices.tokenReplaced()
            return document
        }
    }

    /// Signs in, if the credential allows it.
    private func signIn(insteadOf refused: String?) async throws(CallFailure) -> (token: String, generation: Int)? {
        do {
            return try await credentials.signedIn(insteadOf: refused) { credential in
                try await self.fetchToken(for: credential)
            }
        } catch let failure as CallFailure {
            throw failure
        } catch {
            throw CallFailure(error: CKError(ofSignIn: error))
        }
    }

    /// Requests `users/signin` and returns the token.
    private func fetchToken(for credential: RelayCredential) async throws -> String {
        let body: [UInt8]
        switch credential {
        case .account(let email, let password): body = ClientRequest.signIn(emailAddress: email, password: password)
        case .identityToken(let provide): body = ClientRequest.signIn(identityToken: try await provide())
        case .webAuthToken, .dev, .serverKey, .nobody: throw CKError(.notAuthenticated)
        }
        let call = RelayCall(.public, "users/signin", body, isWrite: true)
        let document = try await exchange(call, nil, credentials.current.generation)
        return try reading { () throws(JSONError) in try document.root.required("ckWebAuthToken").string() }
    }

    private func exchange(
        _ call: RelayCall,
        _ token: String?,
        _ generation: Int
    ) async throws(CallFailure) -> JSONDocument {
        let request: RelayRequest
        do throws(CKError) {
            request = try self.request(for: call, webAuthToken: token)
        } catch {
            throw CallFailure(error: error)
        }
        let response: RelayResponse
        do {
            response = try await transport.send(request, until: call.settings.deadline)
        } catch {
            if case .cancelled = error {} else { notices.requestEnded(wasAnswered: false) }
            throw CallFailure(error: CKError(error, isWrite: call.isWrite))
        }
        if token != nil, let fresh = response.header("X-Apple-CloudKit-Web-Auth-Token"), !fresh.isEmpty {
            credentials.renew(fresh, generation: generation)
        }
        let document = try Self.read(response, isWrite: call.isWrite)
        notices.requestEnded(wasAnswered: true)
        return document
    }

    private static func read(_ response: RelayResponse, isWrite: Bool) throws(CallFailure) -> JSONDocument {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: response.body, limits: .response)
        } catch {
            guard response.status == 200 else {
                throw CallFailure(error: CKError(foreign: response, isWrite: isWrite))
            }
            throw CallFailure(error: CKError(error))
        }
        guard response.status != 200 else { return document }
        guard let failure = try? ClientResponse.failure(document.root, zone: nil) else {
            throw CallFailure(error: CKError(foreign: response, isWrite: isWrite))
        }
        throw CallFailure(error: CKError(failure, at: .request), failure: failure, document: document)
    }

    private func request(for call: RelayCall, webAuthToken: String?) throws(CKError) -> RelayRequest {
        var query: [String] = []
        let key = credentials.serverKey
        if let token = credentials.apiToken, key == nil { query.append("ckAPIToken=" + Self.escape(token)) }
        if let token = webAuthToken { query.append("ckWebAuthToken=" + Self.escape(token)) }
        var headers = [("X-Zonecast-Device-ID", deviceID), ("Accept", "application/json")]
        if call.body != nil { headers.append(("Content-Type", "application/json; charset=utf-8")) }
        headers += call.settings.headers.map { ($0.name, $0.value) }
        let path =
            "/database/1/\(Self.escape(container))/\(environment.rawValue)/\(call.scope.pathName)/\(call.operation)"
        headers += try key?.headers(path: path, body: call.body ?? [], at: Date()) ?? []
        return RelayRequest(
            method: call.body == nil ? .get : .post,
            path: path,
            query: query.joined(separator: "&"),
            headers: headers.map { (name: $0.0, value: $0.1) },
            body: call.body ?? [],
            isWrite: call.isWrite,
            timeout: call.settings.timeout
        )
    }

    /// Percent-encodes all characters outside RFC 3986's unreserved set; tokens contain `+`, `/` and `=`.
    private static func escape(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? text
    }

    private static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    )
}

/// Reads a response.
///
/// An unreadable response becomes an `internalError`.
package func reading<T>(_ body: () throws(JSONError) -> T) throws(CKError) -> T {
    do {
        return try body()
    } catch {
        throw CKError(error)
    }
}
