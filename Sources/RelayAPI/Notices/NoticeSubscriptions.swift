package import Records
package import Wire

/// A user's subscriptions, of all databases.
package struct NoticeSubscriptions: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var scope: DatabaseScope
        package var id: String
        package var kind: Subscription.Kind
        /// Of query subscriptions, whose notices it shapes.
        package var notificationInfo: [UInt8]?
        /// The `aps` member of the notices of one that watches zones, where a person is to see or hear them.
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

        private var isOfDatabase: Bool { if case .database = kind { true } else { false } }
        /// The one with the most of it is told of a change that several cover.
        fileprivate var weight: Int { (aps == nil ? 0 : 2) + (isOfDatabase ? 1 : 0) }
        /// The notice that it makes.
        fileprivate var told: (kind: Notice.Kind, id: String, aps: [UInt8]?) {
            (isOfDatabase ? .database : .zone, id, aps)
        }
    }

    package let items: [Item]
    /// Those to databases and zones, apart: each change asks for them, however many queries there are.
    private let wide: [Item]

    package init(_ items: [Item] = []) {
        self.items = items
        wide = items.filter { item in
            if case .query = item.kind { false } else { true }
        }
    }

    package var ids: [String] { items.map(\.id) }

    /// The widest of those that ask for an alert, else the widest of all that cover a subject: the database's first, then the
    /// zone's.
    ///
    /// One device gets one notice for a change however many subscriptions cover it. See Notices.md, "Which notice".
    package func widest(covering subject: NoticeSubject) -> (kind: Notice.Kind, id: String, aps: [UInt8]?)? {
        var widest: Item?
        for item in wide where item.scope == subject.scope {
            if case .zone(let zone) = item.kind, !subject.isIn(zone) { continue }
            if let found = widest, found.weight >= item.weight { continue }
            widest = item
        }
        return widest?.told
    }

    /// The subscriptions to records of one database, in the order of their names.
    package func queries(in scope: DatabaseScope) -> [Item] {
        items.filter { item in
            guard item.scope == scope, case .query = item.kind else { return false }
            return true
        }
    }
}

extension NoticeSubject {
    /// Whether a subscription to `watched` (`nil`: to every zone) speaks of this.
    fileprivate func isIn(_ watched: ZoneID?) -> Bool {
        guard let watched, let zone else { return true }
        guard watched.zoneName == zone.zoneName else { return false }
        // A client may leave out the owner of its own zones.
        return watched.owner == zone.owner || (watched.owner == .caller && scope == .private)
    }
}
