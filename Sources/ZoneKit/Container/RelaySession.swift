package import Foundation
import Synchronization

/// What all objects of one container share: the way to its relay, and who speaks.
package struct RelayConnection: Sendable {
    package var container: String
    package var environment: RelayEndpoint.Environment
    /// The relay's address; `nil` for a relay in this process.
    package var url: URL?
    package var credentials: RelayCredentials
    package var deviceID: String
    package var transport: any RelayTransport
    /// What is known of the user; shared by copies of this value.
    package let caller: CallerMemory
    /// The notice connection of all engines that use this one; shared by copies of this value, and by those that take its
    /// place where the container's relay is named anew.
    package let notices: NoticeStation
    /// Makes the notice connection's socket; `nil`: the system's sockets, or none for a relay in this process.
    package var sockets: (any SocketConnector)?
    /// Gives the user's key for encrypted values.
    package var encryptionKey: (any EncryptionKeyProvider)?
    /// What engines, mirrors and pollers over this connection take from a test's world; `nil`: the system's.
    package var conditions: SyncConditions?
    /// The keys of zones that were opened with it; shared by copies of this value.
    package let zoneKeys: ZoneKeyring
    /// Writes whose answers were lost; shared by copies of this value.
    package let lostWrites = LostWrites()

    package init(
        container: String,
        environment: RelayEndpoint.Environment = .development,
        url: URL?,
        credentials: RelayCredentials,
        deviceID: String,
        transport: any RelayTransport,
        sockets: (any SocketConnector)? = nil,
        notices: NoticeStation = NoticeStation()
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
        caller = CallerMemory(links: links, keys: zoneKeys) {
            // Not this connection: its memory, which holds the keeper, would hold itself.
            AssetKeeper(
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

    package init(container: String, endpoint: RelayEndpoint, notices: NoticeStation = NoticeStation()) {
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
    /// Takes the caller's name out of an answer to a request of that generation; an older account's is dropped.
    func learn(callerName: String, generation: Int) {
        guard generation == credentials.current.generation else { return }
        caller.learn(callerName, generation: generation)
    }
}

/// What readers of answers need to know: the user's own record name, once some answer has told it, and where the links of
/// shares lead to.
package final class CallerMemory: Sendable {
    private let name = Mutex<(text: String?, generation: Int)>((nil, 0))
    /// Somebody was told that it cannot be found out now.
    private let awaited = Mutex(false)
    /// The relay's folder of this container's links.
    private let links: URL
    /// Opens what is encrypted.
    let keys: ZoneKeyring?
    private let makeKeeper: (@Sendable () -> AssetKeeper)?
    private let keeper = Mutex<AssetKeeper?>(nil)

    /// A relay in this process has no address; links to it only look like links.
    package init(
        links: URL? = nil,
        keys: ZoneKeyring? = nil,
        assets: (@Sendable () -> AssetKeeper)? = nil
    ) {
        self.links = links ?? URL(filePath: "/zonecast/share")
        self.keys = keys
        makeKeeper = assets
    }

    /// The files of this connection; `nil` where there is no connection.
    package var assets: AssetKeeper? {
        keeper.withLock { keeper in
            if keeper == nil { keeper = makeKeeper?() }
            return keeper
        }
    }

    /// A keeper besides, with a folder of its own.
    package func newKeeper() -> AssetKeeper? { makeKeeper?() }

    /// The same memory of a user whose name some file remembers, for reading while no relay has been asked.
    package func named(_ name: String?) -> CallerMemory {
        guard recordName == nil, let name else { return self }
        let copy = CallerMemory(links: links, keys: keys, assets: makeKeeper)
        copy.recordName = name
        return copy
    }

    /// The link of a share; the title behind it is for people.
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

    /// The sign-in that the name is, or will be, of.
    var generation: Int { name.withLock { $0.generation } }

    /// Takes a name that the relay has told in answer to a sign-in of that generation; an older one's is dropped.
    package func learn(_ recordName: String, generation: Int) {
        let isNews = name.withLock { name in
            guard generation >= name.generation else { return false }
            name = (recordName, generation)
            return true
        }
        if isNews { endAwaiting() }
    }

    var isAwaited: Bool { awaited.withLock { $0 } }

    /// Whoever was told that the user cannot be found out now waits for `CKAccountChanged`.
    ///
    /// `false`: somebody does so already.
    func beginAwaiting() -> Bool {
        awaited.withLock { awaited in
            defer { awaited = true }
            return !awaited
        }
    }

    /// The relay has answered.
    func endAwaiting() {
        let wasAwaited = awaited.withLock { awaited in
            defer { awaited = false }
            return awaited
        }
        if wasAwaited { NotificationCenter.default.post(name: .CKAccountChanged, object: nil) }
    }

    /// Somebody else speaks from this generation on.
    package func forget(generation: Int) {
        name.withLock { name in
            guard generation > name.generation else { return }
            name = (nil, generation)
        }
    }
}

/// Finds a container's connection when it is first needed, so that a program may make containers before it configures.
package final class RelaySession: Sendable {
    /// What is equal for all sessions that lead to the same: a container at the relay that is configured for it, or one at a
    /// relay of its own.
    package struct Identity: Hashable, Sendable {
        var container: String
        var connection: ObjectIdentifier?
    }

    package let container: String
    /// Where operations that are added to databases and containers run.
    package let operations = OperationQueue()
    private let fixed: RelayConnection?

    package var identity: Identity {
        Identity(container: container, connection: fixed.map { ObjectIdentifier($0.caller) })
    }

    /// Without a connection of its own, a session looks up the configured one at each use.
    package init(container: String, connection: RelayConnection? = nil) {
        self.container = container
        fixed = connection
    }

    package func connection() throws(CKError) -> RelayConnection {
        if let connection = fixed ?? ConfiguredRelays.connection(for: container) { return connection }
        throw CKError(
            .badContainer,
            "No relay is known for \(container). Set ZONECAST_URL, or call CKContainer.configure(_:) before the first request."
        )
    }

    /// The connection, as soon as there is one; `nil` where the task is cancelled before.
    package func connectionOnceConfigured() async -> RelayConnection? {
        if let fixed { return fixed }
        return await ConfiguredRelays.firstConnection(for: container)
    }
}

/// The process-wide table of relays: what `CKContainer.configure` said, else what the environment says.
package enum ConfiguredRelays {
    private struct State {
        var general: RelayEndpoint?
        var endpoints: [String: RelayEndpoint] = [:]
        var connections: [String: RelayConnection] = [:]
        /// Who listens for a container's notices goes on listening, whatever relay the container is at.
        var notices: [String: NoticeStation] = [:]
        var defaultContainer: String?
        /// Those whose container has no relay yet.
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
        // Engines and mirrors that are at work find out now who speaks, as after a sign-in.
        Task(executorPreference: OwnThreads.lane) {
            for container in replaced {
                guard let connection = connection(for: container) else { continue }
                await connection.notices.accountReplaced(over: connection)
            }
        }
        NotificationCenter.default.post(name: .CKAccountChanged, object: nil)
    }

    /// Waits until a relay is named for the container; `nil` where the task is cancelled before.
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
            guard let endpoint = state.endpoints[container] ?? state.general ?? Self.endpointOfProcess else {
                return nil
            }
            let notices = state.notices[container] ?? NoticeStation()
            let made = RelayConnection(container: container, endpoint: endpoint, notices: notices)
            state.connections[container] = made
            state.notices[container] = notices
            return made
        }
    }

    /// What the environment says: a file that it names, else itself.
    private static var endpointOfProcess: RelayEndpoint? {
        let variables = ProcessInfo.processInfo.environment
        if let path = variables["ZONECAST_CONFIG"], !path.isEmpty {
            return try? RelayEndpoint(contentsOf: URL(fileURLWithPath: path))
        }
        return RelayEndpoint(variables: variables)
    }

    /// What `CKContainer.default()` stands for: the container first configured by name, else `ZONECAST_CONTAINER`, else
    /// one named after the program.
    package static var defaultContainer: String {
        if let configured = state.withLock({ $0.defaultContainer }) { return configured }
        let process = ProcessInfo.processInfo
        if let named = process.environment["ZONECAST_CONTAINER"], !named.isEmpty { return named }
        let program = process.processName.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "-" }
        return "iCloud." + String(program)
    }
}
