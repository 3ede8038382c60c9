import Records
import RelayCore
import Synchronization
import Wire

/// Who is listening to what: takes the changes of each commit to the connections concerned.
///
/// Knows of each user only which lanes hold their devices; the devices themselves are on the lanes. So a commit costs
/// one look-up for each zone and user, wakes no lane without a receiver, and encodes each notice once.
package final class NoticeHub: Sendable {
    package let limits: NoticeLimits
    /// What `ready` calls the relay.
    package let relayName: String
    private let noticeID: @Sendable () -> String
    let timing: NoticeDelivery.Timing?
    private let state = Mutex(State())
    private let lastConnection = Atomic<UInt64>(0)
    /// Finds whom the changes of records concern, beside the commits.
    package let queries: QueryNotices

    fileprivate struct State {
        var lanes: [any NoticeLane] = []
        var listeners: [NoticeAddress: NoticeListeners] = [:]
        var connectionCount = 0
        /// What connections were sent that have ended.
        var ended = NoticeTally.Counts()
    }

    /// - Parameters:
    ///   - limits: The bounds of each connection.
    ///   - relayName: Name and version, for people.
    ///   - noticeID: Draws the identifier of a notice.
    ///   - timing: How long notices take is told there; `nil` where nobody wants to know.
    ///   - tasks: Where queries are matched with changes; left out, by the process's own threads.
    package init(
        limits: NoticeLimits = NoticeLimits(),
        relayName: String,
        noticeID: @escaping @Sendable () -> String,
        timing: NoticeDelivery.Timing? = nil,
        tasks: (any TaskExecutor)? = nil
    ) {
        self.limits = limits
        self.relayName = relayName
        self.noticeID = noticeID
        self.timing = timing
        queries = QueryNotices(tasks: tasks, uptime: timing?.uptime)
        queries.attach(self)
    }

    /// How many connections are listening now.
    package var connectionCount: Int { state.withLock { $0.connectionCount } }

    // MARK: What the relay tells

    /// Tells the devices concerned.
    ///
    /// To be called after the commit, in the order of commits. Costs one lock and a look-up for each change where nobody
    /// listens; never blocks on a connection.
    package func publish(_ changes: [ZoneChange], traces: [RequestTrace] = []) {
        guard !changes.isEmpty else { return }
        let merged = ChangeMerge.merge(changes)
        let delivery = timing.map { NoticeDelivery($0, traces) }
        let orders = state.withLock { state in
            state.listeners.isEmpty
                ? [] : merged.flatMap { state.orders(for: $0, delivery: delivery, noticeID: noticeID) }
        }
        for (lane, order) in orders { lane.post(order) }
    }

    /// Replaces what is known of a user's subscriptions; to be called after each commit that changed them, in order.
    package func subscriptionsChanged(_ subscriptions: NoticeSubscriptions, of address: NoticeAddress) {
        state.withLock { state in
            state.listeners[address]?.subscriptions = subscriptions
            state.listeners[address]?.subscriptionChanges += 1
        }
    }

    /// What open connections came with, for a check whether it is still good.
    package var liveCredentials: Set<Credential> {
        state.withLock { state in Set(state.listeners.values.flatMap { $0.credentials }) }
    }

    /// Closes the connections that came with one of these.
    ///
    /// Costs time in all connections.
    package func revoke(_ credentials: Set<Credential>) {
        end { $0.credential.map { credentials.contains($0) } ?? false }
    }

    /// Closes all connections of a user.
    package func revokeAll(of address: NoticeAddress) {
        let orders = state.withLock { state in
            (state.listeners[address]?.devices.values).map { Array($0) }?.map { device in
                (state.lanes[device.lane], NoticeOrder.end(device.connection, of: address, .revoked))
            } ?? []
        }
        for (lane, order) in orders { lane.post(order) }
    }

    private func end(where isMeant: (NoticeListeners.Device) -> Bool) {
        let orders = state.withLock { state in
            state.listeners.flatMap { address, listeners in
                listeners.devices.values.filter(isMeant).map { device in
                    (state.lanes[device.lane], NoticeOrder.end(device.connection, of: address, .revoked))
                }
            }
        }
        for (lane, order) in orders { lane.post(order) }
    }

    /// Hands one notice to a user's devices.
    func deliver(_ notice: OutgoingNotice, to address: NoticeAddress, exceptDevice device: String?) {
        let lanes = state.withLock { state in
            (state.listeners[address]?.lanes).map { $0.map { state.lanes[$0] } } ?? []
        }
        for lane in lanes { lane.post(.deliver(notice, to: address, exceptDevice: device)) }
    }

    /// Those of a commit's changes that may concern somebody who is listening: for the others nothing need be made.
    func changes(in changes: [CommittedChange], withListenersIn home: ContainerEnvironment) -> [CommittedChange] {
        state.withLock { state in
            guard !state.listeners.isEmpty else { return [] }
            return changes.filter {
                !$0.audience.isEmpty || state.listeners[NoticeAddress(store: home, user: $0.zone.owner)] != nil
            }
        }
    }

    /// Whether there is a device that a query subscription to this zone's records could speak to: the owner's, and in the
    /// public database anybody's.
    func mayBeHeard(_ zone: ZoneID, in home: ContainerEnvironment) -> Bool {
        state.withLock { state in
            zone.owner == Zone.publicOwner
                ? !state.listeners.isEmpty : state.listeners[NoticeAddress(store: home, user: zone.owner)] != nil
        }
    }

    /// The same for those with whom the record is shared, or was.
    func mayBeHeard(by viewers: [CommittedRecord.Viewer], in home: ContainerEnvironment) -> Bool {
        guard !viewers.isEmpty else { return false }
        return state.withLock { state in
            viewers.contains { state.listeners[NoticeAddress(store: home, user: $0.user)] != nil }
        }
    }

    /// Whether this device of a user is listening.
    func isListening(_ deviceID: String, at address: NoticeAddress) -> Bool {
        state.withLock { $0.listeners[address]?.devices[deviceID] != nil }
    }

    /// Whether somebody besides this device of theirs is listening.
    func hasDevices(at address: NoticeAddress, besides device: String) -> Bool {
        state.withLock { state in
            guard let devices = state.listeners[address]?.devices else { return false }
            return devices.count > (devices[device] == nil ? 0 : 1)
        }
    }

    func newNoticeID() -> String { noticeID() }

    /// Commits that wait to be matched with query subscriptions.
    package var unmatchedCommits: Int { queries.waitingCount }

    // MARK: What the console asks

    /// Of all connections, those that have ended included.
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
                (state.lanes[device.lane], NoticeOrder.end(device.connection, of: address, .tryLater))
            }
        }
        guard let (lane, order) = order else { return false }
        lane.post(order)
        return true
    }

    // MARK: What lanes and connections tell

    /// Makes a lane known.
    ///
    /// Gives its number, for the connections on it.
    package func add(_ lane: any NoticeLane) -> Int {
        state.withLock { state in
            state.lanes.append(lane)
            return state.lanes.count - 1
        }
    }

    func newConnectionID() -> NoticeConnectionID {
        NoticeConnectionID(number: lastConnection.add(1, ordering: .relaxed).newValue)
    }

    /// Begins to keep notices for a device; an older connection of the same device is ended.
    ///
    /// Gives a mark to hand to `learned`. Throws where the user has too many connections.
    func join(
        _ device: AdmittedDevice,
        as connection: NoticeConnectionID,
        on lane: Int,
        tally: NoticeTally? = nil,
        at now: Duration = .zero
    ) throws(NoticeClose) -> Int {
        let outcome = state.withLock { state -> Result<(Int, (any NoticeLane, NoticeOrder)?), NoticeClose> in
            var entry = NoticeListeners.Device(connection: connection, lane: lane, credential: device.credential)
            entry.tally = tally
            entry.since = now
            // In place throughout: a copy would cost time in all devices of the user.
            let joined = state.listeners[device.address, default: NoticeListeners()]
                .join(device.deviceID, entry, limit: limits.connectionsPerUser)
            guard let older = joined else { return .failure(.tooManyConnections) }
            if older.connection == nil { state.connectionCount += 1 }
            let changes = state.listeners[device.address]?.subscriptionChanges ?? 0
            let order = older.connection.map {
                (state.lanes[$0.lane], NoticeOrder.end($0.connection, of: device.address, .replaced))
            }
            return .success((changes, order))
        }
        let (mark, order) = try outcome.get()
        if let (lane, order) = order { lane.post(order) }
        return mark
    }

    /// Takes in the subscriptions that were read after `join`, unless they have changed since; notices that came before
    /// they were known go out now.
    ///
    /// Gives those that hold.
    @discardableResult
    func learned(_ read: NoticeSubscriptions, of address: NoticeAddress, mark: Int) -> NoticeSubscriptions {
        var subscriptions = read
        let orders = state.withLock { state -> [(any NoticeLane, NoticeOrder)] in
            guard let known = state.listeners[address]?.learned(read, mark: mark) else { return [] }
            subscriptions = known.subscriptions
            return known.early.flatMap { state.orders(for: $0, delivery: nil, noticeID: noticeID) }
        }
        for (lane, order) in orders { lane.post(order) }
        return subscriptions
    }

    func subscriptions(of address: NoticeAddress) -> NoticeSubscriptions? {
        state.withLock { $0.listeners[address]?.subscriptions }
    }

    func leave(_ device: AdmittedDevice, as connection: NoticeConnectionID, tally: NoticeTally? = nil) {
        guard Self.forgetsConnections else { return }
        state.withLock { state in
            if let tally {
                state.ended.add(tally.counts)
                state.ended.waiting = 0
            }
            if state.listeners[device.address]?.leave(device.deviceID, as: connection) == true {
                state.connectionCount -= 1
            }
            if state.listeners[device.address]?.isEmpty == true { state.listeners[device.address] = nil }
        }
    }

    /// A silent notice about `subject` for this user; `nil` where no subscription covers it.
    ///
    /// For who comes back: an alert is for the moment of the change.
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
        guard let told = subscriptions.widest(covering: subject) else { return nil }
        var notice = Notice(
            kind: told.kind,
            container: address.store.container.name,
            environment: address.store.environment,
            noticeID: noticeID(),
            user: address.user,
            scope: subject.scope,
            subscriptionID: told.id,
            zone: subject.zone,
            syncToken: syncToken
        )
        notice.aps = told.aps
        return notice
    }
}

extension NoticeHub.State {
    /// The orders that tell one user of one change: one for each lane with a device of theirs.
    fileprivate mutating func orders(
        for change: ChangeMerge.Item,
        delivery: NoticeDelivery?,
        noticeID: () -> String
    ) -> [(any NoticeLane, NoticeOrder)] {
        guard let listeners = listeners[change.address] else { return [] }
        guard let subscriptions = listeners.subscriptions else {
            self.listeners[change.address]?.keep(change)
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
        return listeners.lanes.map { [notice] in
            (lanes[$0], .deliver(notice, to: change.address, exceptDevice: change.deviceID))
        }
    }
}
