import Records
package import RelayCore
import Synchronization
import Wire

/// Finds what the bus between nodes has lost, by comparing the store with what this node has announced.
///
/// For each user with a connected device and each owner whose zones the user sees, the sweep knows a change up to which
/// everything was announced. It reads the zones that have changed since and announces those whose latest change was not
/// announced. It also reads the schema and the subscriptions again if their versions are not those that the messages led
/// to. Safe to call from any thread.
///
/// A relay that is alone has an `InProcessNoticeBus`, which loses nothing, and no sweep.
package final class NoticeSweep: Sendable {
    /// How often to call `sweep`.
    package static let interval = Duration.seconds(10)

    fileprivate struct Announcement {
        var position: UInt64
        /// The devices that were left out of an announcement since the last sweep, because they had made its change.
        var excluded: Set<String> = []
    }

    fileprivate struct Follower {
        /// By owner, the change up to which everything was announced; `nil` until it was read.
        var verified: [UserID: UInt64]?
        /// `verified` as of the two sweeps before, oldest first: a gap may show only after a sweep that follows the loss.
        var earlier: [[UserID: UInt64]] = []
        /// What was announced since.
        var announced: [ZoneID: Announcement] = [:]

        func covers(_ zone: ZoneID, at position: UInt64) -> Bool {
            position <= max(verified?[zone.owner] ?? 0, announced[zone]?.position ?? 0)
        }

        mutating func keepVerified() { earlier = (earlier + [verified ?? [:]]).suffix(2) }

        /// Sets the position of an owner's data up to which everything is announced by a sweep.
        mutating func swept(_ owner: UserID, to last: UInt64) {
            verified?[owner] = last
            announced = announced.filter { $0.key.owner != owner || $0.value.position > last }
        }
    }

    fileprivate struct Versions {
        var schema: Int?
        /// The version up to which all changes of subscriptions were applied.
        var subscriptions: UInt64?
        /// The greatest version of a change that was applied.
        var latestSubscriptions: UInt64 = 0

        /// Records a change of subscriptions; returns `false` if it must not be applied after those that were.
        mutating func subscriptionsChanged(to version: UInt64) -> Bool {
            guard version > latestSubscriptions else { return false }
            latestSubscriptions = version
            // After a gap, the sweep reads all subscriptions.
            if subscriptions == nil || subscriptions == version - 1 { subscriptions = version }
            return true
        }
    }

    fileprivate struct Home {
        var versions = Versions()
        var followers: [UserID: Follower] = [:]
    }

    fileprivate struct State {
        var homes: [ContainerEnvironment: Home] = [:]
        var hasLostMessages = false
    }

    /// What a sweep has read from one committed state of a store.
    private struct Reading {
        var schema: Schema
        var subscriptionsVersion: UInt64
        /// The query subscriptions of all users, and all subscriptions of the connected ones; `nil` if they are known.
        var subscriptions: (queries: [CommittedSubscription], users: [UserID: NoticeSubscriptions])?
        var lastChanges: [OwnerView: UInt64]
        /// The zones that have changed since the last sweep.
        var zones: [OwnerView: [Zone]] = [:]
        /// The current epochs of the owners of these zones.
        var epochs: [UserID: UInt64] = [:]
        /// The notices of query subscriptions that may have been lost.
        var matches: [UserID: [Notice]] = [:]
    }

    private let bus: NodeNoticeBus
    private let hub: NoticeHub
    private let stores: any StoreCatalog
    private let state = Mutex(State())

    /// - Parameters:
    ///   - bus: The bus of this node; does not retain the sweep.
    ///   - hub: The hub of this node.
    ///   - stores: The stores that the nodes share.
    package init(bus: NodeNoticeBus, hub: NoticeHub, stores: any StoreCatalog) {
        self.bus = bus
        self.hub = hub
        self.stores = stores
        bus.attach(self)
    }

    // MARK: Messages

    /// Notes a message of this node before it is passed on.
    func published(_ message: NoticeMessage) {
        switch message {
        case .presence(_, let address, _, true, _): state.withLock { $0.add(address) }
        case .zonesChanged(let changes, _):
            state.withLock { state in
                for change in changes { _ = state.note(change, isRepeatable: true) }
            }
        case .subscriptionsChanged(_, let version, let home):
            state.withLock { _ = $0.homes[home, default: Home()].versions.subscriptionsChanged(to: version) }
        case .schemaChanged(let schema, let home):
            state.withLock { $0.homes[home, default: Home()].versions.schema = schema.version }
        case .recordsChanged, .recordMatched, .credentialsRevoked, .presence, .present, .pushDevicesChanged,
            .nodesChanged, .sweeping:
            break
        }
    }

    /// Returns what is new in a message of another node; `nil` if nothing is.
    func received(_ message: NoticeMessage) -> NoticeMessage? {
        switch message {
        case .zonesChanged(let changes, let traces):
            let new = state.withLock { state in changes.compactMap { state.note($0, isRepeatable: false) } }
            return new.isEmpty ? nil : .zonesChanged(new, traces: traces)
        case .subscriptionsChanged(let changes, let version, let home):
            let isNew = state.withLock {
                $0.homes[home, default: Home()].versions.subscriptionsChanged(to: version)
            }
            guard isNew else { return nil }
            bus.publishHere(message)
            // A change between this one and now was announced to the former subscriptions.
            for user in Set(changes.map(\.user)) { hub.remind(NoticeAddress(store: home, user: user)) }
            return nil
        case .schemaChanged(let schema, let home):
            return state.withLock { state in
                guard schema.version > state.homes[home]?.versions.schema ?? -1 else { return nil }
                state.homes[home, default: Home()].versions.schema = schema.version
                return message
            }
        case .recordsChanged, .nodesChanged, .sweeping: return nil
        case .recordMatched, .credentialsRevoked, .presence, .present, .pushDevicesChanged: return message
        }
    }

    /// Some messages of other nodes are missing, possibly those of query subscriptions, which no position shows.
    func messagesWereLost() { state.withLock { $0.hasLostMessages = true } }

    /// Reads up to where a device is about to catch up, unless that is known.
    func follow(_ address: NoticeAddress) {
        guard state.withLock({ $0.isUnread(address) }) else { return }
        let read = try? stores.store(of: address.store).read { reader throws(RelayError) in
            try reader.lastChanges(seenBy: [address.user])
        }
        guard let read else { return }
        let verified = Dictionary(read.map { ($0.owner, $1) }, uniquingKeysWith: max)
        state.withLock { state in
            // A sweep may have read it meanwhile.
            guard state.isUnread(address) else { return }
            state.homes[address.store]?.followers[address.user]?.verified = verified
        }
    }

    // MARK: Sweeps

    /// Announces what connected devices have not been told, and refreshes the caches that are not current.
    ///
    /// Call every `interval`, and after each reconnection of the channel. Blocks while the stores are read: one read for
    /// each store, however many users are connected.
    package func sweep() {
        bus.publishHere(.sweeping)
        // Shows the other nodes which messages they have not received.
        bus.share(.sweeping)
        let (known, hasLost) = state.withLock { state in
            defer { state.hasLostMessages = false }
            return (Set(state.homes.keys), state.hasLostMessages)
        }
        let users = hub.users
        for home in known.union(users.keys) {
            guard let reading = read(home, users[home] ?? [], hasLost) else {
                if hasLost { messagesWereLost() }
                continue
            }
            refresh(home, by: reading)
            if Self.announcesMissed { announce(home, reading) }
        }
        // A device joins the hub before it is followed, so none that is connected is forgotten.
        let present = hub.users.mapValues { Set($0) }
        state.withLock { state in
            for (home, known) in state.homes {
                state.homes[home]?.followers = known.followers.filter { present[home]?.contains($0.key) == true }
            }
        }
    }

    private func read(_ home: ContainerEnvironment, _ users: [UserID], _ hasLost: Bool) -> Reading? {
        let known = state.withLock { $0.homes[home] } ?? Home()
        guard let store = try? stores.store(of: home) else { return nil }
        return try? store.read { reader throws(RelayError) in
            let version = try reader.subscriptionsVersion
            var reading = Reading(
                schema: try reader.schema,
                subscriptionsVersion: version,
                lastChanges: try reader.lastChanges(seenBy: users)
            )
            if known.versions.subscriptions != version, Self.refreshesSubscriptions {
                var all: [UserID: NoticeSubscriptions] = [:]
                for user in users { all[user] = try reader.noticeSubscriptions(of: user) }
                reading.subscriptions = (try reader.querySubscriptions(), all)
            }
            for (view, last) in reading.lastChanges {
                guard let follower = known.followers[view.user], let verified = follower.verified else { continue }
                let start = verified[view.owner] ?? 0
                let matchStart = hasLost ? follower.earlier.first?[view.owner] ?? start : start
                guard last > matchStart else { continue }
                let zones = try reader.zones(in: view, after: matchStart).filter(\.tracksChanges)
                reading.zones[view] = zones.filter { $0.lastChange > start }
                for zone in zones where reading.epochs[zone.id.owner] == nil {
                    reading.epochs[zone.id.owner] = try store.epoch(of: zone.id.owner)
                }
                let unmatched = zones.filter { hasLost || !follower.covers($0.id, at: $0.lastChange) }
                reading.matches[view.user, default: []] += try missedMatches(
                    in: unmatched,
                    NoticeAddress(store: home, user: view.user),
                    view.scope,
                    after: matchStart,
                    reader
                )
            }
            return reading
        }
    }

    /// Returns the notices of query subscriptions about changes after `start`.
    private func missedMatches(
        in zones: [Zone],
        _ address: NoticeAddress,
        _ scope: DatabaseScope,
        after start: UInt64,
        _ reader: any StoreReader
    ) throws(RelayError) -> [Notice] {
        guard !zones.isEmpty, let subscriptions = hub.subscriptions(of: address) else { return [] }
        let token = ChangeToken(kind: .database, log: 0, epoch: 0, position: start).encoded
        let changed = zones.map { zone in
            // Its value is not used: it says that the zone exists.
            NoticeCatchUp.Zone(zone.id, syncToken: zone.isDeleted ? nil : token)
        }
        return try MissedMatches(hub: hub, address: address, subscriptions: subscriptions, scope: scope)
            .notices(.zones(changed), since: token, from: reader)
    }

    /// Refreshes the caches whose versions are not those of the store.
    private func refresh(_ home: ContainerEnvironment, by reading: Reading) {
        let isSchemaKnown = state.withLock { state in
            guard Self.refreshesSchema else { return true }
            defer { state.homes[home, default: Home()].versions.schema = reading.schema.version }
            return state.homes[home]?.versions.schema == reading.schema.version
        }
        if !isSchemaKnown { bus.publishHere(.schemaChanged(reading.schema, in: home)) }
        guard let (queries, users) = reading.subscriptions else { return }
        state.withLock { state in
            state.homes[home, default: Home()].versions.subscriptions = reading.subscriptionsVersion
            state.homes[home]?.versions.latestSubscriptions = reading.subscriptionsVersion
        }
        hub.queries.replace(with: queries, reading.schema, in: home)
        for (user, subscriptions) in users {
            let address = NoticeAddress(store: home, user: user)
            guard hub.subscriptions(of: address) != subscriptions else { continue }
            hub.replaceSubscriptions(of: address, with: subscriptions)
            // What has changed in the meantime was announced to the former subscriptions.
            hub.remind(address)
        }
    }

    /// Announces the zones whose latest changes were not announced.
    private func announce(_ home: ContainerEnvironment, _ reading: Reading) {
        var missed: [ZoneChange] = []
        var reminders: [(NoticeAddress, NoticeSubject, ChangeToken, String)] = []
        var unread: Set<UserID> = []
        state.withLock { state in
            for user in Set(reading.lastChanges.keys.map(\.user)) { state.homes[home]?.followers[user]?.keepVerified() }
            for (view, last) in reading.lastChanges {
                guard var follower = state.homes[home]?.followers[view.user] else { continue }
                for zone in reading.zones[view] ?? [] {
                    guard let epoch = reading.epochs[zone.id.owner] else { continue }
                    let token = zone.token(epoch: epoch)
                    // An ended zone has no token, so that it is not known whether its end was announced.
                    if !zone.isDeleted, let known = follower.announced[zone.id], known.position >= zone.lastChange {
                        let address = NoticeAddress(store: home, user: view.user)
                        let subject = NoticeSubject(scope: view.scope, zone: zone.id)
                        // Another device's change, which is lost, may have come before the device's own.
                        reminders += known.excluded.map { (address, subject, token, $0) }
                    } else if zone.isDeleted || !follower.covers(zone.id, at: zone.lastChange) {
                        missed.append(
                            ZoneChange(
                                store: home,
                                zone: zone.id,
                                scope: view.scope,
                                syncToken: zone.isDeleted ? nil : token.encoded,
                                deviceID: nil,
                                audience: [view.user]
                            )
                        )
                    }
                }
                if follower.verified == nil {
                    unread.insert(view.user)
                    follower.verified = [:]
                }
                follower.swept(view.owner, to: last)
                state.homes[home]?.followers[view.user] = follower
            }
        }
        hub.publish(missed)
        for (address, subject, token, device) in reminders {
            hub.remind(address, of: subject, syncToken: token.encoded, device: device)
        }
        // It is unknown what they have missed.
        for user in unread { hub.remind(NoticeAddress(store: home, user: user)) }
        for (user, notices) in reading.matches {
            for notice in notices {
                hub.deliver(OutgoingNotice(notice), to: NoticeAddress(store: home, user: user), exceptDevice: nil)
            }
        }
    }
}

extension NoticeSweep.State {
    /// Adds a user whose device has joined the hub, unless another device has before.
    fileprivate mutating func add(_ address: NoticeAddress) {
        guard homes[address.store]?.followers[address.user] == nil else { return }
        homes[address.store, default: .init()].followers[address.user] = .init()
    }

    /// Returns whether it is unknown up to which change everything was announced.
    fileprivate func isUnread(_ address: NoticeAddress) -> Bool {
        homes[address.store]?.followers[address.user].map { $0.verified == nil } ?? false
    }

    /// Records that a change is announced; returns its part that was not announced before.
    fileprivate mutating func note(_ change: ZoneChange, isRepeatable: Bool) -> ZoneChange? {
        guard let position = change.syncToken.flatMap({ ChangeToken(encoded: $0) })?.position else { return change }
        var change = change
        change.audience = change.audience.filter { user in
            guard var follower = homes[change.store]?.followers[user] else { return true }
            // A device that was left out of a later announcement needs this one, unless it has made both.
            let excluded = follower.announced[change.zone]?.excluded ?? []
            let isCovered =
                follower.covers(change.zone, at: position) && excluded.subtracting([change.deviceID ?? ""]).isEmpty
            guard isRepeatable || !isCovered else { return false }
            var announcement = follower.announced[change.zone] ?? .init(position: 0)
            announcement.position = max(announcement.position, position)
            if let device = change.deviceID { announcement.excluded.insert(device) }
            follower.announced[change.zone] = announcement
            homes[change.store]?.followers[user] = follower
            return true
        }
        return change.audience.isEmpty ? nil : change
    }
}
