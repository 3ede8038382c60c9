package import Records
import RelayCore
package import Wire

/// The subscriptions of a user in all databases.
package struct NoticeSubscriptions: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var scope: DatabaseScope
        package var id: String
        package var kind: Subscription.Kind
        /// Shapes the notices of a query subscription.
        package var notificationInfo: [UInt8]?
        /// The `aps` member of the notices of a database or zone subscription, if they are visible or audible.
        package var aps: [UInt8]?

        package init(
            scope: DatabaseScope,
            id: String,
            kind: Subscription.Kind,
            notificationInfo: [UInt8]? = nil,
            aps: [UInt8]? = nil
        ) {
            self.scope = scope
            self.id = id
            self.kind = kind
            self.notificationInfo = notificationInfo
            self.aps = aps
        }

        init(_ subscription: Subscription, in scope: DatabaseScope) {
            self.init(scope: scope, id: subscription.id, kind: subscription.kind)
            guard subscription.query == nil else {
                notificationInfo = subscription.notificationInfo
                return
            }
            let info = NotificationInfo(kept: subscription.notificationInfo)
            aps = info.isVisible ? info.aps([:]) : nil
        }

        /// Whether the item comes before another one of the user: by scope, with the public database last, the order in
        /// which devices have always received them, then by ID.
        func precedes(_ other: Item) -> Bool {
            guard scope == other.scope else {
                return other.scope == .public || (scope != .public && scope.rawValue < other.scope.rawValue)
            }
            return id.utf8.lexicographicallyPrecedes(other.id.utf8)
        }

        fileprivate var isWide: Bool { if case .query = kind { false } else { true } }
        private var isOfDatabase: Bool { if case .database = kind { true } else { false } }
        /// The precedence among subscriptions that cover the same change.
        fileprivate var weight: Int { (aps == nil ? 0 : 2) + (isOfDatabase ? 1 : 0) }
        /// The kind, subscription ID and `aps` member of its notices.
        fileprivate var reported: (kind: Notice.Kind, id: String, aps: [UInt8]?) {
            (isOfDatabase ? .database : .zone, id, aps)
        }
    }

    package private(set) var items: [Item]
    /// The database and zone subscriptions, stored separately because each change searches them, whatever the number of
    /// query subscriptions.
    private var wide: [Item]

    package init(_ items: [Item] = []) {
        self.items = items
        wide = items.filter(\.isWide)
    }

    /// Applies a change of the user's subscriptions; applied twice, it has the same result.
    mutating func apply(_ change: CommittedSubscription) {
        items.removeAll { $0.scope == change.scope && $0.id == change.id }
        if let subscription = change.subscription {
            let item = Item(subscription, in: change.scope)
            items.insert(item, at: items.firstIndex { item.precedes($0) } ?? items.endIndex)
        }
        wide = items.filter(\.isWide)
    }

    package var ids: [String] { items.map(\.id) }

    /// Returns the subscription whose notice reports a change of `subject`.
    ///
    /// Subscriptions with an alert come first; among equals, database subscriptions come before zone subscriptions. A
    /// device gets one notice per change however many subscriptions cover it. See Notices.md, "Which notice".
    package func widest(covering subject: NoticeSubject) -> (kind: Notice.Kind, id: String, aps: [UInt8]?)? {
        var widest: Item?
        for item in wide where item.scope == subject.scope {
            if case .zone(let zone) = item.kind, !subject.isIn(zone) { continue }
            if let found = widest, found.weight >= item.weight { continue }
            widest = item
        }
        return widest?.reported
    }

    /// Returns the query subscriptions of one database, ordered by ID.
    package func queries(in scope: DatabaseScope) -> [Item] {
        items.filter { item in
            guard item.scope == scope, case .query = item.kind else { return false }
            return true
        }
    }
}

extension NoticeSubject {
    /// Returns whether a subscription to `watched` (`nil`: to all zones) covers this subject.
    fileprivate func isIn(_ watched: ZoneID?) -> Bool {
        guard let watched, let zone else { return true }
        guard watched.zoneName == zone.zoneName else { return false }
        // A client may omit the owner of its own zones.
        return watched.owner == zone.owner || (watched.owner == .caller && scope == .private)
    }
}
