import Foundation
package import Records
package import SyncCore
import Synchronization
import Wire

/// Shares one notice connection among all engines and mirrors that use the same connection to a relay.
///
/// The connection is open while there is at least one listener. The relay sends no notice to the device that made a
/// change, so the multiplexer delivers the changes of one listener to the others itself.
package actor NoticeMultiplexer {
    package enum Event: Sendable {
        /// The relay delivers notices from now on; earlier changes have to be fetched.
        ///
        /// `subscriptions` contains the IDs of the user's subscriptions at that moment, and is `nil` for a listener
        /// that joins an open connection.
        case opened(subscriptions: Set<String>?)
        case lost
        /// A zone has changed.
        ///
        /// If the zone is `nil`, something in the database has changed.
        case changed(ZoneID?, SyncToken?)
        /// Requests are made as another user from now on.
        case accountReplaced
    }

    private struct Listener {
        var id: UUID
        var scope: DatabaseScope
        var databaseToken: @Sendable () -> SyncToken?
        var deliver: @Sendable (Event) async -> Void
        /// Whether `prepare` is still running.
        ///
        /// Until it ends, only changes of the account are delivered.
        var isPreparing: Bool
    }

    /// In the order in which they joined.
    private var listeners: [Listener] = []
    private var client: NoticeClient? {
        didSet { updateOfflineClient() }
    }
    private var running: Task<Void, Never>?
    private var isLive = false {
        didSet { updateOfflineClient() }
    }
    /// The client while its connection is not live, else `nil`.
    ///
    /// Every request reads it.
    private let offlineClient = Mutex<NoticeClient?>(nil)
    /// The parameters of the current connection, to open it again.
    private var parameters: (connection: RelayConnection, time: Scheduler, random: RandomGenerator)?
    /// The generation of the account that was last passed to the client.
    private var generation = 0
    /// The number of the current connection.
    ///
    /// Events of earlier ones belong to another account and are ignored.
    private var connectionNumber = 0
    /// The generation of the account in the last hello, and its token.
    private var helloGeneration = 0
    private var helloToken: String?

    package init() {}

    /// Adds a listener.
    ///
    /// Returns an ID for `stopListening(_:)`. `databaseToken` is called for each connection. Until `prepare` has
    /// returned or the account has changed, only `accountReplaced` is delivered.
    package func listen(
        to scope: DatabaseScope,
        over connection: RelayConnection,
        time: Scheduler,
        random: RandomGenerator,
        databaseToken: @escaping @Sendable () -> SyncToken?,
        deliver: @escaping @Sendable (Event) async -> Void,
        after prepare: @Sendable () async -> Void = {}
    ) async -> UUID {
        let id = UUID()
        listeners.append(
            Listener(id: id, scope: scope, databaseToken: databaseToken, deliver: deliver, isPreparing: true)
        )
        if parameters == nil { parameters = (connection, time, random) }
        await prepare()
        // The listener may have been removed during `prepare`, and a change of the account has already activated it.
        guard !Task.isCancelled, let index = listeners.firstIndex(where: { $0.id == id && $0.isPreparing }) else {
            return id
        }
        var listener = listeners.remove(at: index)
        listener.isPreparing = false
        listeners.append(listener)
        if isLive { await deliver(.opened(subscriptions: nil)) }
        if running == nil, let parameters { openConnection(parameters.connection, parameters.time, parameters.random) }
        return id
    }

    package func stopListening(_ id: UUID) {
        listeners.removeAll { $0.id == id }
        guard listeners.isEmpty else { return }
        running?.cancel()
        running = nil
        client = nil
        parameters = nil
        isLive = false
        connectionNumber += 1
    }

    /// Reconnects if the relay rejected the connection's credentials.
    ///
    /// Call when a request of this account has succeeded.
    package func accountIsUsable(generation: Int) {
        guard generation != self.generation else { return }
        self.generation = generation
        client?.credentialsChanged()
    }

    /// Reconnects if the relay rejected the connection's credentials, because the same account has a new token.
    func tokenReplaced() { client?.credentialsChanged() }

    /// Closes the connection of the previous account and opens one for the new account, optionally over another
    /// connection.
    package func accountReplaced(over connection: RelayConnection? = nil) async {
        if isLive {
            // The new connection may take a while; until then the listeners must poll.
            isLive = false
            await deliverToAll(.lost)
        }
        if var parameters, !listeners.isEmpty {
            parameters.connection = connection ?? parameters.connection
            self.parameters = parameters
            running?.cancel()
            running = nil
            client = nil
            isLive = false
            // `prepare` worked for the previous account. The event tells the listeners what to prepare again.
            for index in listeners.indices { listeners[index].isPreparing = false }
            openConnection(parameters.connection, parameters.time, parameters.random)
        }
        await deliverToAll(.accountReplaced)
    }

    /// Reports that the system has a network again.
    package func networkReturned() { client?.networkReturned() }

    /// Reports whether the relay has answered a request.
    ///
    /// Has no effect while the connection is live.
    nonisolated func requestEnded(wasAnswered: Bool) {
        offlineClient.withLock { $0 }?.requestEnded(wasAnswered: wasAnswered)
    }

    private func updateOfflineClient() {
        let client = isLive ? nil : client
        offlineClient.withLock { $0 = client }
    }

    /// Delivers the changes that one engine has sent to the other listeners, because the relay sends them no notice.
    package func changed(_ zones: Set<ZoneID>, in scope: DatabaseScope, by writer: UUID?) async {
        for listener in listeners where listener.id != writer && listener.scope == scope && !listener.isPreparing {
            for zone in zones { await listener.deliver(.changed(zone, nil)) }
        }
    }

    private func openConnection(_ connection: RelayConnection, _ time: Scheduler, _ random: RandomGenerator) {
        guard let address = connection.noticeAddress,
            let connector = connection.sockets ?? (connection.url == nil ? nil : SystemSockets.connector)
        else { return }
        connectionNumber += 1
        let connectionNumber = connectionNumber
        let client = NoticeClient(
            address: address,
            connector: connector,
            time: time,
            random: random,
            hello: { [weak self] in
                await self?.hello(connection, connectionNumber) ?? NoticeHello(deviceID: connection.deviceID)
            },
            deliver: { [weak self] in await self?.handle($0, connection, connectionNumber) }
        )
        self.client = client
        parameters = (connection, time, random)
        running = time.start { await client.run() }
    }

    private func hello(_ connection: RelayConnection, _ connectionNumber: Int) -> NoticeHello {
        var since: [DatabaseScope: String] = [:]
        for scope in [DatabaseScope.private, .shared] {
            // If the listeners have different tokens, send none: the relay then names every zone, which is correct for
            // all of them.
            let tokens = Set(listeners.filter { $0.scope == scope && !$0.isPreparing }.map { $0.databaseToken() })
            if tokens.count == 1, let token = tokens.first { since[scope] = token?.text }
        }
        let (token, generation) = connection.credentials.current
        if connectionNumber == self.connectionNumber { (helloGeneration, helloToken) = (generation, token) }
        return NoticeHello(
            deviceID: connection.deviceID,
            apiToken: connection.credentials.apiToken,
            webAuthToken: token,
            since: since
        )
    }

    private func handle(_ event: NoticeClient.Event, _ connection: RelayConnection, _ connectionNumber: Int) async {
        guard connectionNumber == self.connectionNumber else { return }
        switch event {
        case .live(let ready):
            isLive = true
            connection.setCallerName(callerName: ready.userRecordName, generation: helloGeneration)
            await deliverToAll(.opened(subscriptions: Set(ready.subscriptions)))
        case .lost:
            isLive = false
            await deliverToAll(.lost)
        case .notice(let notice): await handle(notice, connection)
        case .renewed(let token):
            connection.credentials.renew(token, generation: helloGeneration)
        case .needsCredentials:
            // A call has renewed the token since the hello, so the refusal does not concern the current one.
            guard connection.credentials.current.webAuthToken == helloToken else {
                client?.credentialsChanged()
                return
            }
            // A fetch gets the reason from the relay, and the app learns that its account has ended.
            await deliverToAll(.changed(nil, nil))
        case .goodbye: break
        }
    }

    private func handle(_ notice: Notice, _ connection: RelayConnection) async {
        var zone = notice.zone
        // Apps address their own zones by the default owner name, whatever the user's record name is.
        if notice.scope == .private || zone?.owner == notice.user { zone?.owner = .caller }
        for listener in listeners where listener.scope == notice.scope && !listener.isPreparing {
            await listener.deliver(.changed(zone, notice.syncToken.map { SyncToken($0) }))
        }
    }

    private func deliverToAll(_ event: Event) async {
        for listener in listeners where !listener.isPreparing { await listener.deliver(event) }
    }
}

extension RelayConnection {
    /// The address of the relay's notices.
    ///
    /// For a relay in this process, a name that only its own connector understands.
    package var noticeAddress: SocketAddress? {
        let allowed = CharacterSet.alphanumerics.union(CharacterSet(charactersIn: "-._~"))
        let name = container.addingPercentEncoding(withAllowedCharacters: allowed) ?? container
        let path = "/push/1/\(name)/\(environment.rawValue)"
        guard let url else { return SocketAddress(host: "in-process", port: 0, path: path, isSecure: false) }
        return SocketAddress(below: url, path: path)
    }
}
