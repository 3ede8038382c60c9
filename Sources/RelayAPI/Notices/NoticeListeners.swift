import Records
import RelayCore

/// The hub's state for one user with connected devices.
struct NoticeListeners {
    struct Device {
        var connection: NoticeConnectionID
        /// The number of the event loop of the connection.
        var lane: Int
        var credential: Credential?
        /// The notice counts; `nil` for a device that uses long polls.
        var tally: NoticeTally?
        /// When the device connected, by the transport's clock.
        var since = Duration.zero
    }

    private(set) var devices: [String: Device] = [:]
    /// The number of devices on each event loop, by its number; only positive counts.
    private var laneCounts: [Int: Int] = [:]
    /// `nil` until the subscriptions have been read for the first device.
    var subscriptions: NoticeSubscriptions?
    /// How often the relay has reported new subscriptions.
    var subscriptionChanges = 0
    /// Changes that arrived before the subscriptions were known: one per zone, and few because reading takes little
    /// time.
    var early: [ChangeMerge.Item] = []

    var isEmpty: Bool { devices.isEmpty }
    var count: Int { devices.count }
    var lanes: some Collection<Int> { laneCounts.keys }
    var credentials: [Credential] { devices.values.compactMap(\.credential) }

    /// Adds a device.
    ///
    /// Returns the connection that it replaces, if any; returns `nil` if there are too many devices.
    mutating func join(_ deviceID: String, _ device: Device, limit: Int) -> (connection: Device?, Void)? {
        let older = devices[deviceID]
        guard older != nil || devices.count < limit else { return nil }
        if let older { countDown(older.lane) }
        devices[deviceID] = device
        laneCounts[device.lane, default: 0] += 1
        return (older, ())
    }

    /// Removes a device unless a newer connection has replaced this one; returns whether it was removed.
    mutating func leave(_ deviceID: String, as connection: NoticeConnectionID) -> Bool {
        guard let device = devices[deviceID], device.connection == connection else { return false }
        devices[deviceID] = nil
        countDown(device.lane)
        return true
    }

    /// Sets the subscriptions that were read when `subscriptionChanges` was `mark`; ignores them if it has changed.
    ///
    /// Returns the current subscriptions and the changes that arrived before they were known.
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
            // Too many zones to list: a notice for the whole database replaces them.
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
