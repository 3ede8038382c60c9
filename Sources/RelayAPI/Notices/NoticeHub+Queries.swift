import Records
import RelayCore
import Wire

/// Notices of query subscriptions.
extension NoticeHub {
    /// What one changed record means to one user.
    struct RecordNews {
        var address: NoticeAddress
        var matches: [SubscriptionIndex.Match]
        var zone: ZoneID
        /// The device that made the change, which gets no notice.
        var device: String
        var schema: Schema
        /// When the commit was, by the clock of the hub's timing; `nil` where nobody measures.
        var committed: Duration?
    }

    /// Tells a user's devices of a record that some of their queries match: once for each query that asks for an alert,
    /// else once, and not at all where a wider subscription tells them of the zone.
    ///
    /// Gives the subscriptions that a device was told of. See Notices.md, "Which notice".
    func publish(_ news: RecordNews) -> [SubscriptionIndex.Match] {
        guard let scope = news.matches.first?.scope, hasDevices(at: news.address, besides: news.device) else {
            return []
        }
        let known = subscriptions(of: news.address)
        // Of a default zone no wider subscription tells anything: it has no feed.
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
        // One notice speaks for all silent ones.
        return told.isEmpty ? [] : told.contains { $0.1.isVisible } ? told.map(\.0) : news.matches
    }
}

/// The notice of one match, still without its address.
struct QueryNotice {
    private let match: SubscriptionIndex.Match
    private let zone: ZoneID
    private let info: NotificationInfo
    private let values: [String: FieldValue]

    /// Encrypted fields do not leave the record, asked for or not.
    init(_ match: SubscriptionIndex.Match, zone: ZoneID, schema: Schema) {
        self.match = match
        self.zone = zone
        info = NotificationInfo(kept: match.subscription.notificationInfo)
        let type = schema.types[match.record.type]
        let names = info.fieldNames.filter { type?.fields[$0]?.isEncrypted != true }
        values = names.isEmpty ? [:] : (try? FieldsJSON.values(of: names, in: match.record.fields)) ?? [:]
    }

    /// Whether a person is to see or hear it.
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
        // A push has room for four kilobytes: what was asked for gives way to what has to be said.
        if (query.fields?.count ?? 0) + aps.count > Self.room {
            query.fields = nil
            query.isPruned = true
            if aps.count > Self.room { aps = info.aps([:]) }
        }
        notice.query = query
        notice.aps = aps
        return notice
    }

    /// Bytes for fields and alert together.
    private static let room = 3_072
}

extension NotificationInfo {
    /// As a subscription keeps it, which was found good when it was saved.
    init(kept json: [UInt8]?) {
        let document = json.flatMap { try? JSONDocument(parsing: $0) }
        self = document.flatMap { try? NotificationInfo($0.root) } ?? NotificationInfo()
    }
}
