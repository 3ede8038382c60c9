import Records
import RelayCore
import Wire

/// Notices of query subscriptions.
extension NoticeHub {
    /// The subscription matches of one changed record for one user.
    struct RecordNews {
        var address: NoticeAddress
        var matches: [SubscriptionIndex.Match]
        var zone: ZoneID
        /// The device that made the change, which gets no notice.
        var device: String
        var schema: Schema
        /// The time of the commit by the hub's clock; `nil` if nothing is measured.
        var committed: Duration?
    }

    /// Sends a user's devices the notices of the query subscriptions that match a record.
    ///
    /// Sends one notice for each subscription with an alert. If there is none, sends one silent notice, or nothing if a
    /// wider subscription covers the zone. Returns the subscriptions whose notices reached a device. See
    /// Notices.md, "Which notice".
    func publish(_ news: RecordNews) -> [SubscriptionIndex.Match] {
        guard let scope = news.matches.first?.scope, hasDevices(at: news.address, besides: news.device) else {
            return []
        }
        let known = subscriptions(of: news.address)
        // A wider subscription never covers a default zone, which has no change feed.
        let isCovered =
            !news.zone.isDefault && known?.widest(covering: NoticeSubject(scope: scope, zone: news.zone)) != nil
        let drafts = news.matches.map { ($0, QueryNotice($0, zone: news.zone, schema: news.schema)) }
        var told = drafts.filter { $0.1.isVisible }
        if told.isEmpty, !isCovered { told = Array(drafts.prefix(1)) }
        let delivery = timing.flatMap { timing in news.committed.map { NoticeDelivery(timing, ofQuerySince: $0) } }
        for (_, draft) in told {
            var notice = OutgoingNotice(draft.notice(for: news.address, noticeID: newNoticeID()))
            notice.delivery = delivery
            deliver(notice, to: news.address, exceptDevice: news.device)
        }
        // One silent notice stands for all matches.
        return told.isEmpty ? [] : told.contains { $0.1.isVisible } ? told.map(\.0) : news.matches
    }
}

/// The notice of one match, before it is addressed.
struct QueryNotice {
    private let match: SubscriptionIndex.Match
    private let zone: ZoneID
    private let info: NotificationInfo
    private let values: [String: FieldValue]

    /// Omits encrypted fields even if the subscription requests them.
    init(_ match: SubscriptionIndex.Match, zone: ZoneID, schema: Schema) {
        self.match = match
        self.zone = zone
        info = NotificationInfo(kept: match.subscription.notificationInfo)
        let type = schema.types[match.record.type]
        let names = info.fieldNames.filter { type?.fields[$0]?.isEncrypted != true }
        values = names.isEmpty ? [:] : (try? FieldsJSON.values(of: names, in: match.record.fields)) ?? [:]
    }

    /// Whether the notice is visible or audible.
    var isVisible: Bool { info.isVisible }

    func notice(for address: NoticeAddress, noticeID: String) -> Notice {
        var notice = Notice(
            kind: .query,
            container: address.store.container.name,
            environment: address.store.environment,
            noticeID: noticeID,
            user: address.user,
            scope: match.scope,
            subscriptionID: match.subscription.id,
            zone: zone,
            syncToken: nil
        )
        var query = Notice.Query(recordName: match.record.name, reason: match.event)
        query.fields = info.additionalFields(values)
        var aps = info.aps(values)
        // A push message holds 4 KiB: the requested fields are dropped before the alert is shortened.
        if (query.fields?.count ?? 0) + aps.count > Self.room {
            query.fields = nil
            query.isPruned = true
            if aps.count > Self.room { aps = info.aps([:]) }
        }
        notice.query = query
        notice.aps = aps
        return notice
    }

    /// The maximum number of bytes for fields and alert together.
    private static let room = 3_072
}

extension NotificationInfo {
    /// Creates the value from stored JSON, which was validated when the subscription was saved.
    init(kept json: [UInt8]?) {
        let document = json.flatMap { try? JSONDocument(parsing: $0) }
        self = document.flatMap { try? NotificationInfo($0.root) } ?? NotificationInfo()
    }
}
