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

        package init(
            scope: DatabaseScope,
            id: String,
            kind: Subscription.Kind,
            notificationInfo: [UInt8]? = nil
        ) {
            self.scope = scope
            self.id = id
            self.kind = kind
            self.notificationInfo = notificationInfo
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

    /// The widest one that covers a subject: the database's first, then the zone's.
    ///
    /// One device gets one notice for a change however many subscriptions cover it. Notices reference 2.
    package func widest(covering subject: NoticeSubject) -> (kind: Notice.Kind, id: String)? {
        var zoneID: String?
        for item in wide where item.scope == subject.scope {
            switch item.kind {
            case .database: return (.database, item.id)
            case .zone(let zone):
                guard zoneID == nil, subject.isIn(zone) else { continue }
                zoneID = item.id
            case .query: continue
            }
        }
        return zoneID.map { (.zone, $0) }
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
