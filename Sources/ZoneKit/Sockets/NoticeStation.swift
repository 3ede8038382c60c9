import Foundation
package import Records
package import SyncCore
import Synchronization
import Wire

/// One notice connection for all engines that share a way to a relay, kept while at least one listens.
///
/// The relay leaves out the device that made a change, so what one engine sends is told here to the others.
package actor NoticeStation {
    package enum Event: Sendable {
        /// Notices come from now on; what happened before is to be fetched.
        ///
        /// With the names of the subscriptions that the relay knew of the user's then; `nil` for who comes later.
        case opened(subscriptions: Set<String>?)
        case lost
        /// Something has changed; `nil` for the zone: somewhere in the database.
        case changed(ZoneID?, SyncToken?)
        /// Requests are made as somebody else from now on.
        case accountReplaced
    }

    private struct Listener {
        var id: UUID
        var scope: DatabaseScope
        var databaseToken: @Sendable () -> SyncToken?
        var deliver: @Sendable (Event) async -> Void
        /// It still prepares itself, and is told of the account alone.
        var isPreparing: Bool
    }

    /// In the order in which they came.
    private var listeners: [Listener] = []
    private var client: NoticeClient? {
        didSet { noteWaiting() }
    }
    private var running: Task<Void, Never>?
    private var isLive = false {
        didSet { noteWaiting() }
    }
    /// The client, while its line is not up: every request looks at it.
    private let waiting = Mutex<NoticeClient?>(nil)
    /// What the line was begun with, for beginning it again.
    private var begun: (connection: RelayConnection, time: Timekeeper, chance: Chance)?
    /// The account that the line was last told of.
    private var generation = 0
    /// The line that is kept, by its number: what those before it still deliver is of another account.
    private var line = 0
    /// The account and the token of the last hello.
    private var spoken = 0
    private var spokenToken: String?

    package init() {}

    /// Begins to listen.
    ///
    /// Returns a number to stop by. `databaseToken` is asked at each connection. Until `prepare` has ended, or the account has
    /// changed, only that change is told.
    package func listen(
        to scope: DatabaseScope,
        over connection: RelayConnection,
        time: Timekeeper,
        chance: Chance,
        databaseToken: @escaping @Sendable () -> SyncToken?,
        deliver: @escaping @Sendable (Event) async -> Void,
        after prepare: @Sendable () async -> Void = {}
    ) async -> UUID {
        let id = UUID()
        listeners.append(
            Listener(id: id, scope: scope, databaseToken: databaseToken, deliver: deliver, isPreparing: true)
        )
        if begun == nil { begun = (connection, time, chance) }
        await prepare()
        // Whoever has stopped meanwhile is gone; and after a change of account it listens already.
        guard !Task.isCancelled, let index = listeners.firstIndex(where: { $0.id == id && $0.isPreparing }) else {
            return id
        }
        var listener = listeners.remove(at: index)
        listener.isPreparing = false
        listeners.append(listener)
        if isLive { await deliver(.opened(subscriptions: nil)) }
        if running == nil, let begun { begin(begun.connection, begun.time, begun.chance) }
        return id
    }

    package func stopListening(_ id: UUID) {
        listeners.removeAll { $0.id == id }
        guard listeners.isEmpty else { return }
        running?.cancel()
        running = nil
        client = nil
        begun = nil
        isLive = false
        line += 1
    }

    /// A request has just been answered as this account: a line that was turned away may try again.
    package func accountIsUsable(generation: Int) {
        guard generation != self.generation else { return }
        self.generation = generation
        client?.credentialsChanged()
    }

    /// The same account has another token: the one before may be why the line was turned away.
    func signedInAgain() { client?.credentialsChanged() }

    /// Somebody else speaks from now on, perhaps over another connection: the line of the old account is given up.
    package func accountReplaced(over connection: RelayConnection? = nil) async {
        if isLive {
            // The new line may take its time, and until it is there they have to look by themselves.
            isLive = false
            await tellAll(.lost)
        }
        if var begun, !listeners.isEmpty {
            begun.connection = connection ?? begun.connection
            self.begun = begun
            running?.cancel()
            running = nil
            client = nil
            isLive = false
            // What was to be prepared was so for the account before; without it they are told what is missing.
            for index in listeners.indices { listeners[index].isPreparing = false }
            begin(begun.connection, begun.time, begun.chance)
        }
        await tellAll(.accountReplaced)
    }

    /// The system says that there is a network again.
    package func networkReturned() { client?.networkReturned() }

    /// The relay has answered a request, or was not there for one; to a line that is up this is no news.
    nonisolated func requestEnded(wasAnswered: Bool) {
        waiting.withLock { $0 }?.requestEnded(wasAnswered: wasAnswered)
    }

    private func noteWaiting() {
        let client = isLive ? nil : client
        waiting.withLock { $0 = client }
    }

    /// An engine has sent changes; the relay will not tell the others on this line.
    package func changed(_ zones: Set<ZoneID>, in scope: DatabaseScope, by writer: UUID?) async {
        for listener in listeners where listener.id != writer && listener.scope == scope && !listener.isPreparing {
            for zone in zones { await listener.deliver(.changed(zone, nil)) }
        }
    }

    private func begin(_ connection: RelayConnection, _ time: Timekeeper, _ chance: Chance) {
        guard let address = connection.noticeAddress,
            let connector = connection.sockets ?? (connection.url == nil ? nil : SystemSockets.connector)
        else { return }
        line += 1
        let line = line
        let client = NoticeClient(
            address: address,
            connector: connector,
            time: time,
            random: chance,
            hello: { [weak self] in await self?.hello(connection, line) ?? NoticeHello(deviceID: connection.deviceID) },
            deliver: { [weak self] in await self?.take($0, connection, line) }
        )
        self.client = client
        begun = (connection, time, chance)
        running = time.start { await client.run() }
    }

    private func hello(_ connection: RelayConnection, _ line: Int) -> NoticeHello {
        var since: [DatabaseScope: String] = [:]
        for scope in [DatabaseScope.private, .shared] {
            // Engines that have come to different places: with no token the relay names every zone, which suits all.
            let tokens = Set(listeners.filter { $0.scope == scope && !$0.isPreparing }.map { $0.databaseToken() })
            if tokens.count == 1, let token = tokens.first { since[scope] = token?.text }
        }
        let (token, generation) = connection.credentials.current
        if line == self.line { (spoken, spokenToken) = (generation, token) }
        return NoticeHello(
            deviceID: connection.deviceID,
            apiToken: connection.credentials.apiToken,
            webAuthToken: token,
            since: since
        )
    }

    private func take(_ event: NoticeClient.Event, _ connection: RelayConnection, _ line: Int) async {
        guard line == self.line else { return }
        switch event {
        case .live(let ready):
            isLive = true
            connection.learn(callerName: ready.userRecordName, generation: spoken)
            await tellAll(.opened(subscriptions: Set(ready.subscriptions)))
        case .lost:
            isLive = false
            await tellAll(.lost)
        case .notice(let notice): await take(notice, connection)
        case .renewed(let token):
            connection.credentials.renew(token, generation: spoken)
        case .needsCredentials:
            // A call has renewed the token since the hello, so the refusal does not concern the current one.
            if connection.credentials.current.webAuthToken != spokenToken { client?.credentialsChanged() }
        case .goodbye: break
        }
    }

    private func take(_ notice: Notice, _ connection: RelayConnection) async {
        var zone = notice.zone
        // Programs know their own zones by the default owner, whatever the user's record name is.
        if notice.scope == .private || zone?.owner == notice.user { zone?.owner = .caller }
        for listener in listeners where listener.scope == notice.scope && !listener.isPreparing {
            await listener.deliver(.changed(zone, notice.syncToken.map { SyncToken($0) }))
        }
    }

    private func tellAll(_ event: Event) async {
        for listener in listeners where !listener.isPreparing { await listener.deliver(event) }
    }
}

extension RelayConnection {
    /// Where the relay's notices are; for a relay in this process a name that only its own connector reads.
    package var noticeAddress: SocketAddress? {
        let allowed = CharacterSet.alphanumerics.union(CharacterSet(charactersIn: "-._~"))
        let name = container.addingPercentEncoding(withAllowedCharacters: allowed) ?? container
        let path = "/push/1/\(name)/\(environment.rawValue)"
        guard let url else { return SocketAddress(host: "in-process", port: 0, path: path, isSecure: false) }
        return SocketAddress(below: url, path: path)
    }
}
