import Records
import RelayCore
import Wire

/// Finds the query notices that a device missed while it was disconnected.
///
/// Zones covered by a wider subscription are left to that subscription. The relay knows only the current state of each
/// record, not the states in between: a deleted record may have matched. See Notices.md, "Catching up".
struct MissedMatches {
    let hub: NoticeHub
    let address: NoticeAddress
    let subscriptions: NoticeSubscriptions
    let scope: DatabaseScope

    /// If a zone has more missed notices than this, one general notice replaces them.
    static let recordLimit = 20
    /// The maximum number of changed records examined per zone.
    private static let lookLimit = 200
    /// The maximum number of bytes of their fields: all are in memory until the oldest is known.
    private static let lookBytes = 4 << 20

    func notices(
        _ news: NoticeCatchUp.News,
        since token: String,
        from reader: any StoreReader
    ) throws(RelayError) -> [Notice] {
        let queries = subscriptions.queries(in: scope)
        guard let first = queries.first else { return [] }
        switch news {
        case .manyZones:
            let subject = NoticeSubject(scope: scope, zone: nil)
            return subscriptions.widest(covering: subject) == nil ? [general(first.id, zone: nil)] : []
        case .zones(let zones):
            let schema = try reader.schema
            var index = SubscriptionIndex()
            for item in queries {
                let subscription = Subscription(
                    id: item.id,
                    kind: item.kind,
                    notificationInfo: item.notificationInfo
                )
                index.apply(
                    .init(user: address.user, scope: scope, id: item.id, subscription: subscription),
                    schema: schema
                )
            }
            let start = ChangeToken(encoded: token)?.position ?? 0
            var missed: [Notice] = []
            for zone in zones { missed += try notices(in: zone, after: start, first.id, &index, schema, reader) }
            return missed
        }
    }

    private func notices(
        in changed: NoticeCatchUp.Zone,
        after start: UInt64,
        _ first: String,
        _ index: inout SubscriptionIndex,
        _ schema: Schema,
        _ reader: any StoreReader
    ) throws(RelayError) -> [Notice] {
        let isShared = scope == .shared
        let found = isShared ? try reader.zone(changed.zone, sharedWith: address.user) : try reader.zone(changed.zone)
        guard changed.syncToken != nil, let zone = found, zone.lastChange > start,
            subscriptions.widest(covering: NoticeSubject(scope: scope, zone: zone.id)) == nil
        else { return [] }
        var records: [StoredRecord] = []
        var (count, bytes) = (0, 0)
        let range = start + 1...zone.lastChange
        let given = zone.view?.since ?? 0
        try reader.visitRecords(in: zone, changes: range, backwards: true, limit: Self.lookLimit) { record, position in
            count += 1
            // The user has never seen records that were deleted before the zone was shared with them.
            if record.isDeleted, position <= given { return }
            bytes += record.fields.count
            if bytes <= Self.lookBytes { records.append(zone.aliases.viewed(record)) }
        }
        // The latest record unchanged since `start` was written before it, so a record created later may be new to the
        // device.
        var known = Timestamp(milliseconds: .min)
        if start > 0 {
            try reader.visitRecords(in: zone, changes: 1...start, backwards: true, limit: 1) { record, _ in
                known = record.modified.at
            }
        }
        var notices: [Notice] = []
        var spent: [SubscriptionIndex.Match] = []
        for record in records.reversed() {
            let matches = try index.possibleMatches(
                record,
                mayBeNew: record.created.at >= known,
                in: zone.id,
                seenBy: isShared ? address.user : nil,
                schema: schema
            )
            let drafts = matches.map { ($0, QueryNotice($0, zone: zone.id, schema: schema)) }
            let visible = drafts.filter { $0.1.isVisible }
            for (match, draft) in visible.isEmpty ? Array(drafts.prefix(1)) : visible {
                notices.append(draft.notice(for: address, noticeID: hub.newNoticeID()))
                guard match.subscription.query?.firesOnce == true else { continue }
                index.apply(match.end, schema: schema)
                spent.append(match)
            }
        }
        for match in spent { hub.queries.end(match, address.store, schema: schema) }
        let hasMore = count == Self.lookLimit || bytes > Self.lookBytes
        guard notices.count > Self.recordLimit || hasMore else { return notices }
        return [general(first, zone: zone.id)]
    }

    private func general(_ subscriptionID: String, zone: ZoneID?) -> Notice {
        var notice = Notice(
            kind: .query,
            container: address.store.container.name,
            environment: address.store.environment,
            noticeID: hub.newNoticeID(),
            user: address.user,
            scope: scope,
            subscriptionID: subscriptionID,
            zone: zone,
            syncToken: nil
        )
        notice.query = .init()
        return notice
    }
}
