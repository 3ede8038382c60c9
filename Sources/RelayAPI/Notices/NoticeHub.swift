package import Records
package import RelayCore
import Synchronization
import Wire

/// Delivers the messages of the notice bus to the connections that subscribe to them.
///
/// The hub maps each user to the event loops that hold the user's connections; each event loop keeps the connections
/// themselves. A commit therefore costs one dictionary lookup per changed zone and affected user, wakes only event
/// loops that have a recipient, and encodes each notice once.
///
/// Thread safety: all methods may be called from any thread. `receive` must be called in commit order.
package final class NoticeHub: NoticeReceiver {
    package let limits: NoticeLimits
    /// The relay's name in `ready`.
    package let relayName: String
    /// Where the hub learns of changes.
    package let bus: any NoticeBus
    private let noticeID: @Sendable () -> String
    let timing: NoticeDelivery.Timing?
    private let state = Mutex(State())
    private let lastConnection = Atomic<UInt64>(0)
    /// Matches changed records with query subscriptions, asynchronously to commits.
    package let queries: QueryNotices
    /// How many devices were admitted without reading what they have missed from the store.
    package let catchUpLookups = CacheLookups()

    fileprivate struct State {
        var workers: [any NoticeWorker] = []
        var listeners: [NoticeAddress: NoticeListeners] = [:]
        var connectionCount = 0
        /// The notice counts of connections that have ended.
        var ended = NoticeTally.Counts()
    }

    /// - Parameters:
    ///   - limits: The limits of each connection.
    ///   - relayName: Name and version of the relay, for people.
    ///   - bus: Where the hub learns of changes.
    ///   - noticeID: Creates the identifier of a notice.
    ///   - timing: Receives delivery times; `nil` disables the measurement.
    ///   - tasks: Executes the matching of queries; `nil` for the global executor.
    package init(
        limits: NoticeLimits = NoticeLimits(),
        relayName: String,
        bus: any NoticeBus = InProcessNoticeBus(),
        noticeID: @escaping @Sendable () -> String,
        timing: NoticeDelivery.Timing? = nil,
        tasks: (any TaskExecutor)? = nil
    ) {
        self.limits = limits
        self.relayName = relayName
        self.bus = bus
        self.noticeID = noticeID
        self.timing = timing
        queries = QueryNotices(tasks: tasks, uptime: timing?.uptime)
        queries.attach(self)
        bus.add(self)
        bus.add(queries)
    }

    /// The number of connected devices.
    package var connectionCount: Int { state.withLock { $0.connectionCount } }

    // MARK: Messages

    package func receive(_ message: NoticeMessage) {
        switch message {
        case .zonesChanged(let changes, let traces): publish(changes, traces: traces)
        case .subscriptionsChanged(let changes, _, let home): apply(changes, in: home)
        case .credentialsRevoked(let credentials, _): revoke(credentials)
        case .recordMatched(let matches): _ = publish(matches)
        case .recordsChanged, .schemaChanged, .presence, .present, .pushDevicesChanged, .nodesChanged, .sweeping: break
        }
    }

    package func receivable(_ commit: Commit, in home: ContainerEnvironment) -> Commit? {
        var receivable = commit
        receivable.zones = changes(in: commit.zones, withListenersIn: home)
        if !commit.records.isEmpty { receivable.records = self.receivable(commit.records, in: home) }
        return receivable
    }

    /// Sends notices about the changes to the devices concerned.
    ///
    /// Must be called after the commit, in commit order. Costs one lock, and one lookup per change without listeners;
    /// never blocks on a connection.
    package func publish(_ changes: [ZoneChange], traces: [RequestTrace] = []) {
        guard !changes.isEmpty else { return }
        let merged = ChangeMerge.merge(changes)
        let delivery = timing.map { NoticeDelivery($0, traces) }
        let orders = state.withLock { state in
            state.listeners.isEmpty
                ? [] : merged.flatMap { state.orders(for: $0, delivery: delivery, noticeID: noticeID) }
        }
        for (worker, order) in orders { worker.post(order) }
    }

    private func apply(_ changes: [CommittedSubscription], in home: ContainerEnvironment) {
        state.withLock { state in
            for change in changes {
                state.listeners[NoticeAddress(store: home, user: change.user)]?.apply(change)
            }
        }
    }

    /// Sets all subscriptions of a user, as when the store is another one than before.
    func replaceSubscriptions(of address: NoticeAddress, with read: NoticeSubscriptions) {
        state.withLock { $0.listeners[address]?.replaceSubscriptions(with: read) }
    }

    /// The users with a connected device, by store.
    var users: [ContainerEnvironment: [UserID]] {
        state.withLock { state in
            state.listeners.keys.reduce(into: [:]) { $0[$1.store, default: []].append($1.user) }
        }
    }

    /// Tells all devices of a user that something may have changed in any of the user's databases.
    package func remind(_ address: NoticeAddress) {
        for scope in [DatabaseScope.private, .shared] { remind(address, of: NoticeSubject(scope: scope, zone: nil)) }
    }

    /// Tells all devices of a user, or one of them, that something may have changed.
    func remind(_ address: NoticeAddress, of subject: NoticeSubject, syncToken: String? = nil, device: String? = nil) {
        guard let known = subscriptions(of: address),
            let notice = notice(about: subject, syncToken: syncToken, for: address, subscriptions: known)
        else { return }
        guard let device else { return deliver(notice, to: address, exceptDevice: nil) }
        let workers = state.withLock { state in
            state.listeners[address]?.noteChange()
            return (state.listeners[address]?.workers).map { $0.map { state.workers[$0] } } ?? []
        }
        for worker in workers { worker.post(.remind(notice, to: address, device: device)) }
    }

    /// The credentials of all open connections, to check whether they are still valid.
    package var liveCredentials: Set<Credential> {
        state.withLock { state in Set(state.listeners.values.flatMap { $0.credentials }) }
    }

    /// Closes the connections that use one of these credentials.
    ///
    /// O(connections).
    private func revoke(_ credentials: Set<Credential>) {
        end { $0.credential.map { credentials.contains($0) } ?? false }
    }

    /// Closes all connections of a user.
    package func revokeAll(of address: NoticeAddress) {
        let orders = state.withLock { state in
            (state.listeners[address]?.devices.values).map { Array($0) }?.map { device in
                (state.workers[device.worker], NoticeOrder.end(device.connection, of: address, .revoked))
            } ?? []
        }
        for (worker, order) in orders { worker.post(order) }
    }

    /// Closes the connections to a store that is closed for a while, except those of `worker`; the devices come back.
    ///
    /// Returns the users that have connections of `worker`.
    func endAll(in home: ContainerEnvironment, except worker: Int?) -> Set<NoticeAddress> {
        let (orders, kept) = state.withLock { state in
            var orders: [(any NoticeWorker, NoticeOrder)] = []
            var kept: Set<NoticeAddress> = []
            for (address, listeners) in state.listeners where address.store == home {
                for device in listeners.devices.values {
                    if device.worker == worker {
                        kept.insert(address)
                    } else {
                        orders.append((state.workers[device.worker], .end(device.connection, of: address, .tryLater)))
                    }
                }
            }
            return (orders, kept)
        }
        for (worker, order) in orders { worker.post(order) }
        return kept
    }

    private func end(where matches: (NoticeListeners.Device) -> Bool) {
        let orders = state.withLock { state in
            state.listeners.flatMap { address, listeners in
                listeners.devices.values.filter(matches).map { device in
                    (state.workers[device.worker], NoticeOrder.end(device.connection, of: address, .revoked))
                }
            }
        }
        for (worker, order) in orders { worker.post(order) }
    }

    /// Sends one notice to a user's devices.
    func deliver(_ notice: OutgoingNotice, to address: NoticeAddress, exceptDevice device: String?) {
        let workers = state.withLock { state in
            (state.listeners[address]?.workers).map { $0.map { state.workers[$0] } } ?? []
        }
        for worker in workers { worker.post(.deliver(notice, to: address, exceptDevice: device)) }
    }

    /// Returns the changes that may concern a connected user.
    private func changes(in changes: [CommittedChange], withListenersIn home: ContainerEnvironment) -> [CommittedChange]
    {
        state.withLock { state in
            guard !state.listeners.isEmpty else { return [] }
            return changes.filter {
                !$0.audience.isEmpty || state.listeners[NoticeAddress(store: home, user: $0.zone.owner)] != nil
            }
        }
    }

    /// Returns whether any connected device could receive a query notification for this zone.
    ///
    /// These are the owner's devices, and in the public database the devices of all users.
    private func mayBeReceived(_ zone: ZoneID, in home: ContainerEnvironment) -> Bool {
        state.withLock { state in
            zone.owner == Zone.publicOwner
                ? !state.listeners.isEmpty : state.listeners[NoticeAddress(store: home, user: zone.owner)] != nil
        }
    }

    /// Returns whether any of these users, with whom the record is or was shared, has a connected device.
    private func mayBeReceived(by viewers: [CommittedRecord.Viewer], in home: ContainerEnvironment) -> Bool {
        guard !viewers.isEmpty else { return false }
        return state.withLock { state in
            viewers.contains { state.listeners[NoticeAddress(store: home, user: $0.user)] != nil }
        }
    }

    /// Returns the records that a connected device could be notified of.
    ///
    /// One-time subscriptions fire only for a connected device.
    private func receivable(_ records: [CommittedRecord], in home: ContainerEnvironment) -> [CommittedRecord] {
        // Most commits affect one zone, and all records of a zone that is shared as a whole have the same array of
        // viewers; comparing arrays with the same storage is fast.
        var lastZone: (id: ZoneID, isReceivable: Bool)?
        var lastViewers: (list: [CommittedRecord.Viewer], isReceivable: Bool) = ([], false)
        func isReceivable(_ index: Int) -> Bool {
            if lastZone?.id != records[index].zone {
                lastZone = (records[index].zone, mayBeReceived(records[index].zone, in: home))
            }
            guard lastZone?.isReceivable == false else { return true }
            if records[index].viewers != lastViewers.list {
                lastViewers = (records[index].viewers, mayBeReceived(by: records[index].viewers, in: home))
            }
            return lastViewers.isReceivable
        }
        // Uses indices, and returns the array unchanged if possible: copying a record increments many reference counts.
        return records.indices.allSatisfy(isReceivable)
            ? records : records.indices.filter(isReceivable).map { records[$0] }
    }

    /// Returns whether another device of the user than this one is connected.
    func hasDevices(at address: NoticeAddress, besides device: String) -> Bool {
        state.withLock { state in
            guard let devices = state.listeners[address]?.devices else { return false }
            return devices.count > (devices[device] == nil ? 0 : 1)
        }
    }

    func newNoticeID() -> String { noticeID() }

    /// The number of commits that wait to be matched with query subscriptions.
    package var unmatchedCommits: Int { queries.waitingCount }

    // MARK: Calls of the console

    /// The notice counts of all connections, including those that have ended.
    package var noticeCounts: NoticeTally.Counts {
        state.withLock { state in
            state.listeners.values.lazy.flatMap { $0.devices.values }.compactMap(\.tally).reduce(into: state.ended) {
                $0.add($1.counts)
            }
        }
    }

    func listening(in home: ContainerEnvironment, limit: Int) -> (devices: [ListeningDevice], count: Int) {
        state.withLock { state in
            var found: [ListeningDevice] = []
            var count = 0
            for (address, listeners) in state.listeners where address.store == home {
                count += listeners.count
                for (name, device) in listeners.devices where found.count < limit {
                    found.append(
                        ListeningDevice(
                            address: address,
                            deviceID: name,
                            since: device.tally == nil ? nil : device.since,
                            notices: device.tally?.counts ?? .init(),
                            subscriptions: listeners.subscriptions?.items.count ?? 0
                        )
                    )
                }
            }
            return (found, count)
        }
    }

    func end(_ deviceID: String, of address: NoticeAddress) -> Bool {
        let order = state.withLock { state in
            state.listeners[address]?.devices[deviceID].map { device in
                (state.workers[device.worker], NoticeOrder.end(device.connection, of: address, .tryLater))
            }
        }
        guard let (worker, order) = order else { return false }
        worker.post(order)
        return true
    }

    // MARK: Calls of event loops and connections

    /// Registers an event loop and returns its number, which its connections use.
    package func add(_ worker: any NoticeWorker) -> Int {
        state.withLock { state in
            state.workers.append(worker)
            return state.workers.count - 1
        }
    }

    /// Enqueues an order at one event loop.
    func post(_ order: NoticeOrder, on worker: Int) { state.withLock { $0.workers[worker] }.post(order) }

    func newConnectionID() -> NoticeConnectionID {
        NoticeConnectionID(number: lastConnection.add(1, ordering: .relaxed).newValue)
    }

    /// Registers a device and begins to queue notices for it; closes an older connection of the same device.
    ///
    /// Returns a revision for `subscriptionsRead`. Throws if the user has too many connections.
    func join(
        _ device: AdmittedDevice,
        as connection: NoticeConnectionID,
        on worker: Int,
        tally: NoticeTally? = nil,
        at now: Duration = .zero
    ) throws(NoticeClose) -> Int {
        let outcome = state.withLock { state -> Result<(Int, (any NoticeWorker, NoticeOrder)?), NoticeClose> in
            var entry = NoticeListeners.Device(connection: connection, worker: worker, credential: device.credential)
            entry.tally = tally
            entry.since = now
            // Mutates in place: a copy would take time proportional to the number of the user's devices.
            let joined = state.listeners[device.address, default: NoticeListeners()]
                .join(device.deviceID, entry, limit: limits.connectionsPerUser)
            guard let older = joined else { return .failure(.tooManyConnections) }
            if older.connection == nil { state.connectionCount += 1 }
            let changes = state.listeners[device.address]?.subscriptionChanges ?? 0
            let order = older.connection.map {
                (state.workers[$0.worker], NoticeOrder.end($0.connection, of: device.address, .replaced))
            }
            return .success((changes, order))
        }
        let (revision, order) = try outcome.get()
        bus.publish(presence(of: device, as: connection, isConnected: true))
        if let (worker, order) = order { worker.post(order) }
        return revision
    }

    /// Sets the subscriptions that were read after `join`, unless they have changed since, and sends the notices that
    /// were queued until they were known.
    ///
    /// Returns the current subscriptions.
    @discardableResult
    func subscriptionsRead(_ read: NoticeSubscriptions, of address: NoticeAddress, revision: Int) -> NoticeSubscriptions
    {
        var subscriptions = read
        var former: NoticeSubscriptions?
        let orders = state.withLock { state -> [(any NoticeWorker, NoticeOrder)] in
            former = state.listeners[address]?.subscriptions
            guard let known = state.listeners[address]?.subscriptionsRead(read, revision: revision) else { return [] }
            subscriptions = known.subscriptions
            return known.pendingChanges.flatMap { state.orders(for: $0, delivery: nil, noticeID: noticeID) }
        }
        for (worker, order) in orders { worker.post(order) }
        // The message of another relay that changed them was lost: until now, changes were announced to the former ones.
        if let former, former != subscriptions { remind(address) }
        return subscriptions
    }

    func subscriptions(of address: NoticeAddress) -> NoticeSubscriptions? {
        state.withLock { $0.listeners[address]?.subscriptions }
    }

    /// Returns what an earlier device of the user with these tokens has missed, if nothing has changed since, and the
    /// revision for `keep`.
    ///
    /// The device must have joined. A change that is committed and not published yet may be missing; the device receives
    /// its notice.
    func catchUp(of address: NoticeAddress, since: CatchUpTokens) -> (known: NoticeCatchUp?, revision: Int?) {
        let (known, revision): (NoticeCatchUp?, Int?) = state.withLock { state in
            guard let listeners = state.listeners[address] else { return (nil, nil) }
            return (listeners.catchUps[since], listeners.revision)
        }
        if known == nil { catchUpLookups.countMiss() } else { catchUpLookups.countHit() }
        return (known, revision)
    }

    /// Keeps what was read after `revision` for further devices with the same tokens, until the next change that
    /// concerns the user.
    func keep(_ catchUp: NoticeCatchUp, of address: NoticeAddress, since: CatchUpTokens, revision: Int?) {
        state.withLock { $0.listeners[address]?.keep(catchUp, since: since, revision: revision) }
    }

    func leave(_ device: AdmittedDevice, as connection: NoticeConnectionID, tally: NoticeTally? = nil) {
        guard Self.removesEndedConnections else { return }
        let hasLeft = state.withLock { state in
            if let tally {
                state.ended.add(tally.counts)
                state.ended.waiting = 0
            }
            let hasLeft = state.listeners[device.address]?.leave(device.deviceID, as: connection) == true
            if hasLeft { state.connectionCount -= 1 }
            if state.listeners[device.address]?.isEmpty == true { state.listeners[device.address] = nil }
            return hasLeft
        }
        if hasLeft { bus.publish(presence(of: device, as: connection, isConnected: false)) }
    }

    private func presence(
        of device: AdmittedDevice,
        as connection: NoticeConnectionID,
        isConnected: Bool
    ) -> NoticeMessage {
        .presence(of: device.deviceID, at: device.address, as: connection, isConnected: isConnected, on: bus.node)
    }

    /// Returns a silent notice about `subject` for this user; `nil` if no subscription covers it.
    ///
    /// For devices that reconnect: an alert is sent only at the time of the change.
    func notice(
        about subject: NoticeSubject,
        syncToken: String?,
        for address: NoticeAddress,
        subscriptions: NoticeSubscriptions
    ) -> OutgoingNotice? {
        var notice = Self.notice(
            about: subject,
            syncToken: syncToken,
            for: address,
            subscriptions: subscriptions,
            noticeID: noticeID
        )
        notice?.aps = nil
        return notice.map { OutgoingNotice($0) }
    }

    fileprivate static func notice(
        about subject: NoticeSubject,
        syncToken: String?,
        for address: NoticeAddress,
        subscriptions: NoticeSubscriptions,
        noticeID: () -> String
    ) -> Notice? {
        guard let widest = subscriptions.widest(covering: subject) else { return nil }
        var notice = Notice(
            kind: widest.kind,
            container: address.store.container.name,
            environment: address.store.environment,
            noticeID: noticeID(),
            user: address.user,
            scope: subject.scope,
            subscriptionID: widest.id,
            zone: subject.zone,
            syncToken: syncToken
        )
        notice.aps = widest.aps
        return notice
    }
}

extension NoticeHub.State {
    /// Returns the orders that notify one user of one change: one per event loop with a connection of the user.
    fileprivate mutating func orders(
        for change: ChangeMerge.Item,
        delivery: NoticeDelivery?,
        noticeID: () -> String
    ) -> [(any NoticeWorker, NoticeOrder)] {
        guard let index = listeners.index(forKey: change.address) else { return [] }
        listeners.values[index].noteChange()
        guard let subscriptions = listeners.values[index].subscriptions else {
            listeners.values[index].addPending(change)
            return []
        }
        guard
            let draft = NoticeHub.notice(
                about: change.subject,
                syncToken: change.syncToken,
                for: change.address,
                subscriptions: subscriptions,
                noticeID: noticeID
            )
        else { return [] }
        var notice = OutgoingNotice(draft)
        notice.delivery = delivery
        return listeners.values[index].workers.map { [notice] in
            (workers[$0], .deliver(notice, to: change.address, exceptDevice: change.deviceID))
        }
    }
}

/// The hub's state for one user with connected devices.
struct NoticeListeners {
    struct Device {
        var connection: NoticeConnectionID
        /// The number of the event loop of the connection.
        var worker: Int
        var credential: Credential?
        /// The notice counts; `nil` for a device that uses long polls.
        var tally: NoticeTally?
        /// When the device connected, by the transport's clock.
        var since = Duration.zero
    }

    private(set) var devices: [String: Device] = [:]
    /// The number of devices on each event loop, by its number; only positive counts.
    private var workerCounts: [Int: Int] = [:]
    /// `nil` until the subscriptions have been read for the first device.
    private(set) var subscriptions: NoticeSubscriptions?
    /// How often subscriptions have changed.
    private(set) var subscriptionChanges = 0
    /// The changes since the first device has joined, until the subscriptions have been read.
    private var unreadChanges: [CommittedSubscription] = []
    /// The number of changes that concerned the user, to data or to subscriptions, since the first device joined.
    private(set) var revision = 0
    /// What devices have missed, by the tokens of their hellos, as of `revision`.
    private(set) var catchUps: [CatchUpTokens: NoticeCatchUp] = [:]
    /// Devices of one user that are in step have the same tokens, so few entries suffice.
    private static let maxCatchUps = 4
    /// Changes that arrived before the subscriptions were known: one per zone, and few because reading takes little
    /// time.
    var pendingChanges: [ChangeMerge.Item] = []

    var isEmpty: Bool { devices.isEmpty }
    var count: Int { devices.count }
    var workers: some Collection<Int> { workerCounts.keys }
    var credentials: [Credential] { devices.values.compactMap(\.credential) }

    /// Adds a device.
    ///
    /// Returns the connection that it replaces, if any; returns `nil` if there are too many devices.
    mutating func join(_ deviceID: String, _ device: Device, limit: Int) -> (connection: Device?, Void)? {
        let older = devices[deviceID]
        guard older != nil || devices.count < limit else { return nil }
        if let older { releaseWorker(older.worker) }
        devices[deviceID] = device
        workerCounts[device.worker, default: 0] += 1
        return (older, ())
    }

    /// Removes a device unless a newer connection has replaced this one; returns whether it was removed.
    mutating func leave(_ deviceID: String, as connection: NoticeConnectionID) -> Bool {
        guard let device = devices[deviceID], device.connection == connection else { return false }
        devices[deviceID] = nil
        releaseWorker(device.worker)
        return true
    }

    /// Sets all subscriptions, as when the store is another one than before.
    mutating func replaceSubscriptions(with read: NoticeSubscriptions) {
        subscriptionChanges += 1
        noteChange()
        unreadChanges = []
        subscriptions = read
    }

    mutating func apply(_ change: CommittedSubscription) {
        subscriptionChanges += 1
        noteChange()
        if subscriptions == nil { unreadChanges.append(change) } else { subscriptions?.apply(change) }
    }

    /// Must be called for each change that concerns the user, before its notices are sent.
    mutating func noteChange() {
        revision &+= 1
        if !catchUps.isEmpty { catchUps = [:] }
    }

    /// Keeps the result of a read that began at `revision`; ignores it if something has changed since.
    mutating func keep(_ catchUp: NoticeCatchUp, since: CatchUpTokens, revision: Int?) {
        // Alerts depend on the schema too, and are rare. For a user's only device, the entry would only take memory.
        guard revision == self.revision, catchUp.matches.isEmpty, devices.count > 1 else { return }
        if catchUps.count >= Self.maxCatchUps { catchUps = [:] }
        catchUps[since] = catchUp
    }

    /// Sets the subscriptions that were read after `subscriptionChanges` was `revision`; ignores them if it has changed
    /// and they are known.
    ///
    /// What was read may have the changes since, or a part of them: applied again, they have the same result. Returns
    /// the current subscriptions and the changes of zones that arrived before they were known.
    mutating func subscriptionsRead(
        _ read: NoticeSubscriptions,
        revision: Int
    ) -> (subscriptions: NoticeSubscriptions, pendingChanges: [ChangeMerge.Item]) {
        var current = read
        if subscriptionChanges != revision {
            for change in unreadChanges { current.apply(change) }
            current = subscriptions ?? current
        }
        unreadChanges = []
        subscriptions = current
        defer { pendingChanges = [] }
        return (current, pendingChanges)
    }

    mutating func addPending(_ change: ChangeMerge.Item) {
        if let index = pendingChanges.firstIndex(where: { $0.subject == change.subject }) {
            pendingChanges[index] = pendingChanges[index].followed(by: change)
        } else if pendingChanges.count < 64 {
            pendingChanges.append(change)
        } else {
            // Too many zones to list: a notice for the whole database replaces them.
            var whole = change
            whole.subject.zone = nil
            whole.syncToken = nil
            whole.deviceID = nil
            pendingChanges.removeAll { $0.subject.scope == change.subject.scope }
            pendingChanges.append(whole)
        }
    }

    private mutating func releaseWorker(_ worker: Int) {
        guard let count = workerCounts[worker] else { return }
        workerCounts[worker] = count > 1 ? count - 1 : nil
    }
}

/// Merges the changes of one commit into at most one per user and zone.
enum ChangeMerge {
    struct Item {
        var address: NoticeAddress
        var subject: NoticeSubject
        var syncToken: String?
        /// The device that made all of the change and needs no notice; `nil` if there were several.
        var deviceID: String?

        /// Merges this change with a later one.
        func followed(by later: Item) -> Item {
            var item = later
            // Each of the two devices needs a notice about the change of the other.
            if deviceID != later.deviceID { item.deviceID = nil }
            return item
        }
    }

    private struct Key: Hashable {
        var address: NoticeAddress
        var subject: NoticeSubject
    }

    static func merge(_ changes: [ZoneChange]) -> [Item] {
        if changes.count == 1, let change = changes.first { return items(of: change) }
        var items: [Item] = []
        var places: [Key: Int] = [:]
        for change in changes {
            for item in Self.items(of: change) {
                let key = Key(address: item.address, subject: item.subject)
                if let place = places[key] {
                    items[place] = items[place].followed(by: item)
                } else {
                    places[key] = items.count
                    items.append(item)
                }
            }
        }
        return items
    }

    private static func items(of change: ZoneChange) -> [Item] {
        change.audience.map { user in
            Item(
                address: NoticeAddress(store: change.store, user: user),
                subject: NoticeSubject(scope: change.scope, zone: change.namesZone ? change.zone : nil),
                syncToken: change.syncToken,
                deviceID: change.deviceID
            )
        }
    }
}

/// A device that is connected for notices.
package struct ListeningDevice: Sendable {
    package var address: NoticeAddress
    package var deviceID: String
    /// When the device connected, by the hub's uptime clock; `nil` for a device that uses long polls.
    package var since: Duration?
    package var notices: NoticeTally.Counts
    /// The number of the user's subscriptions in all databases.
    package var subscriptions: Int
}

extension NoticeHub {
    /// Returns at most `limit` connected devices of one environment, and their total number.
    package func devices(in home: ContainerEnvironment, limit: Int) -> (devices: [ListeningDevice], count: Int) {
        listening(in: home, limit: limit)
    }

    /// Closes one device's connection; the device may reconnect.
    ///
    /// Returns `false` if it is not connected.
    package func disconnect(_ deviceID: String, of address: NoticeAddress) -> Bool {
        end(deviceID, of: address)
    }

    /// Sends the user's devices the notice that a change of their database would cause, if they have a subscription.
    package func sendTestNotice(to address: NoticeAddress) {
        guard let known = subscriptions(of: address), let item = known.items.first else { return }
        let subject = NoticeSubject(scope: item.scope, zone: nil)
        guard let notice = notice(about: subject, syncToken: nil, for: address, subscriptions: known) else { return }
        deliver(notice, to: address, exceptDevice: nil)
    }
}
