import Records
import RelayCore

/// What the hub knows of one user who listens.
struct NoticeListeners {
    struct Device {
        var connection: NoticeConnectionID
        /// The number of the lane that it lives on.
        var lane: Int
        var credential: Credential?
        /// What it was sent; `nil` for one that polls.
        var tally: NoticeTally?
        /// When it came, by the transport's clock.
        var since = Duration.zero
    }

    private(set) var devices: [String: Device] = [:]
    /// How many devices each lane has, by its number; only lanes with one or more.
    private var laneCounts: [Int: Int] = [:]
    /// `nil` until the first device's have been read.
    var subscriptions: NoticeSubscriptions?
    /// Counts the times that the relay told of new subscriptions.
    var subscriptionChanges = 0
    /// Changes that came before the subscriptions were known: one for each zone, and few, since reading takes a moment.
    var early: [ChangeMerge.Item] = []

    var isEmpty: Bool { devices.isEmpty }
    var count: Int { devices.count }
    var lanes: some Collection<Int> { laneCounts.keys }
    var credentials: [Credential] { devices.values.compactMap(\.credential) }

    /// Enters a device.
    ///
    /// Gives the connection that it replaces, if any; `nil` where there are too many.
    mutating func join(_ deviceID: String, _ device: Device, limit: Int) -> (connection: Device?, Void)? {
        let older = devices[deviceID]
        guard older != nil || devices.count < limit else { return nil }
        if let older { countDown(older.lane) }
        devices[deviceID] = device
        laneCounts[device.lane, default: 0] += 1
        return (older, ())
    }

    /// Takes a device out, unless a newer connection has its place; whether it did.
    mutating func leave(_ deviceID: String, as connection: NoticeConnectionID) -> Bool {
        guard let device = devices[deviceID], device.connection == connection else { return false }
        devices[deviceID] = nil
        countDown(device.lane)
        return true
    }

    /// Takes in subscriptions that were read when there had been so many changes to them.
    ///
    /// Gives those that hold, and the changes that came before they were known.
    mutating func learned(
        _ read: NoticeSubscriptions,
        mark: Int
    ) -> (subscriptions: NoticeSubscriptions, early: [ChangeMerge.Item]) {
        let holds = subscriptionChanges == mark ? read : subscriptions ?? read
        subscriptions = holds
        defer { early = [] }
        return (holds, early)
    }

    mutating func keep(_ change: ChangeMerge.Item) {
        if let index = early.firstIndex(where: { $0.subject == change.subject }) {
            early[index] = early[index].followed(by: change)
        } else if early.count < 64 {
            early.append(change)
        } else {
            // Too many to name: the database as a whole says the same.
            var whole = change
            whole.subject.zone = nil
            whole.syncToken = nil
            whole.deviceID = nil
            early.removeAll { $0.subject.scope == change.subject.scope }
            early.append(whole)
        }
    }

    private mutating func countDown(_ lane: Int) {
        guard let count = laneCounts[lane] else { return }
        laneCounts[lane] = count > 1 ? count - 1 : nil
    }
}

/// Turns the changes of one commit into at most one for each user and zone.
enum ChangeMerge {
    struct Item {
        var address: NoticeAddress
        var subject: NoticeSubject
        var syncToken: String?
        /// Who needs no notice: the device that made all of it; `nil` where there were several.
        var deviceID: String?

        /// This change and a later one as one.
        func followed(by later: Item) -> Item {
            var item = later
            // Each of two devices has yet to hear of the other's change.
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
