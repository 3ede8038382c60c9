package import Records
import RelayCore
import Synchronization
import Wire

/// Matches committed records with query subscriptions, in commit order and asynchronously.
///
/// A message only enqueues its changes. One task processes the queue and ends when it is empty. If the queue becomes too
/// long, the commit thread processes it too, which slows writes down to the speed of matching.
package final class QueryNotices: NoticeReceiver {
    /// Deletes a one-time subscription that has fired.
    package typealias DeleteSubscription =
        @Sendable (ContainerEnvironment, UserID, DatabaseScope, Subscription) async -> Void

    private enum Job {
        /// Includes the time at which the records were enqueued, if delivery is measured.
        case records([CommittedRecord], ContainerEnvironment, since: Duration?)
        case subscriptions([CommittedSubscription], ContainerEnvironment)
        case schema(Schema, ContainerEnvironment)
        case replacement([CommittedSubscription], Schema, ContainerEnvironment)
        case barrier(CheckedContinuation<Void, Never>)
    }

    private struct Waiting {
        var jobs: [Job] = []
        var isProcessing = false
    }

    /// The subscriptions of one environment, and the schema by which records are matched with them.
    fileprivate struct Watched {
        var index = SubscriptionIndex()
        var schema = Schema()
    }

    /// The number of queued jobs above which the commit thread helps.
    private static let maxQueuedJobs = 1_000

    private let waiting = Mutex(Waiting())
    /// Locked while one job is processed.
    private let environments = Mutex<[ContainerEnvironment: Watched]>([:])
    private let hub = Mutex<WeakHub>(WeakHub())
    private let deleteSubscription = Mutex<DeleteSubscription?>(nil)
    /// The executor of the matching; `nil` for the global executor.
    private let tasks: (any TaskExecutor)?

    private struct WeakHub { weak var hub: NoticeHub? }

    private let uptime: (@Sendable () -> Duration)?

    init(tasks: (any TaskExecutor)? = nil, uptime: (@Sendable () -> Duration)? = nil) {
        self.tasks = tasks
        self.uptime = uptime
    }

    func attach(_ hub: NoticeHub) { self.hub.withLock { $0.hub = hub } }

    /// Sets the function that deletes subscriptions in the store.
    package func deleteFiredSubscriptions(by deleteSubscription: @escaping DeleteSubscription) {
        self.deleteSubscription.withLock { $0 = deleteSubscription }
    }

    /// Enqueues a message that concerns query subscriptions.
    package func receive(_ message: NoticeMessage) {
        switch message {
        case .recordsChanged(let records, let home):
            if !matchNothing(records, in: home) { add(.records(records, home, since: uptime?())) }
        case .subscriptionsChanged(let changes, _, let home): add(.subscriptions(changes, home))
        case .schemaChanged(let schema, let home): add(.schema(schema, home))
        case .zonesChanged, .recordMatched, .credentialsRevoked, .presence, .present, .pushDevicesChanged,
            .nodesChanged, .sweeping:
            break
        }
    }

    /// Enqueues all query subscriptions of a store, which replace those that are known.
    func replace(with all: [CommittedSubscription], _ schema: Schema, in home: ContainerEnvironment) {
        add(.replacement(all, schema, home))
    }

    /// Returns whether no subscription can match any of the records, which is the case for most commits.
    ///
    /// Returns `false` while other jobs are queued, since they may add subscriptions.
    private func matchNothing(_ records: [CommittedRecord], in home: ContainerEnvironment) -> Bool {
        guard waiting.withLock({ $0.jobs.isEmpty }) else { return false }
        // If the lock is taken, a job is being processed that is no longer in the queue.
        return environments.withLockIfAvailable { environments in
            guard let watched = environments[home] else { return true }
            return !records.indices.contains { watched.index.mayMatchAny(records[$0], schema: watched.schema) }
        } ?? false
    }

    /// The number of queued jobs.
    var waitingCount: Int { waiting.withLock { $0.jobs.count } }

    /// Returns when everything enqueued before has been processed.
    package func waitUntilIdle() async {
        await withCheckedContinuation { add(.barrier($0)) }
    }

    /// Drops the subscriptions of a store that is closed, after all its commits have been matched.
    func drop(_ home: ContainerEnvironment) async {
        await waitUntilIdle()
        environments.withLock { $0[home] = nil }
    }

    private func add(_ job: Job) {
        let (begins, isLong) = waiting.withLock { waiting in
            waiting.jobs.append(job)
            defer { waiting.isProcessing = true }
            return (!waiting.isProcessing, waiting.jobs.count > Self.maxQueuedJobs)
        }
        if begins { Task(executorPreference: tasks) { self.processQueue() } }
        if isLong { processQueue() }
    }

    private func processQueue() {
        while processNext() {}
    }

    /// Returns `false` if the queue is empty.
    private func processNext() -> Bool {
        // The job is dequeued while `environments` is locked, so that two workers keep the order.
        environments.withLock { environments in
            let next = waiting.withLock { waiting in
                waiting.isProcessing = !waiting.jobs.isEmpty
                return waiting.jobs.isEmpty ? nil : waiting.jobs.removeFirst()
            }
            switch next {
            case .records(let records, let home, let start):
                match(records, home, since: start, &environments[home, default: Watched()])
            case .subscriptions(let changes, let home):
                environments[home, default: Watched()].apply(changes)
            case .schema(let schema, let home): environments[home, default: Watched()].schema = schema
            case .replacement(let all, let schema, let home):
                var watched = Watched(schema: schema)
                watched.apply(all)
                environments[home] = watched
            case .barrier(let waiter): waiter.resume()
            case nil: return false
            }
            return true
        }
    }

    private func match(
        _ records: [CommittedRecord],
        _ home: ContainerEnvironment,
        since start: Duration?,
        _ watched: inout Watched
    ) {
        guard let hub = hub.withLock({ $0.hub }) else { return }
        for change in records {
            // An unreadable record is skipped here; a client that fetches it gets the error.
            guard let matches = try? watched.index.matches(change, schema: watched.schema), !matches.isEmpty else {
                continue
            }
            for run in matches.groupedByUser() {
                let found = RecordMatches(
                    address: NoticeAddress(store: home, user: run[0].user),
                    matches: run,
                    zone: change.zone,
                    // Devices of different users may have the same ID.
                    device: change.after.modified.by == run[0].user ? change.device : "",
                    schema: watched.schema,
                    committed: start
                )
                let reported = hub.publish(found)
                if hub.bus.node != nil { hub.bus.share(.recordMatched(found)) }
                for match in reported where match.subscription.query?.firesOnce == true {
                    watched.apply([match.end])
                    deleteInStore(match, home)
                }
            }
        }
    }

    /// Ends a one-time subscription that has fired: immediately in this process, later in the store.
    func end(_ match: SubscriptionIndex.Match, _ home: ContainerEnvironment) {
        add(.subscriptions([match.end], home))
        deleteInStore(match, home)
    }

    private func deleteInStore(_ match: SubscriptionIndex.Match, _ home: ContainerEnvironment) {
        guard let deleteSubscription = deleteSubscription.withLock({ $0 }) else { return }
        Task(executorPreference: tasks) { await deleteSubscription(home, match.user, match.scope, match.subscription) }
    }
}

extension QueryNotices.Watched {
    fileprivate mutating func apply(_ changes: [CommittedSubscription]) {
        for change in changes { index.apply(change, schema: schema) }
    }
}

extension SubscriptionIndex.Match {
    /// The deletion of the subscription.
    var end: CommittedSubscription {
        CommittedSubscription(user: user, scope: scope, id: subscription.id, subscription: nil)
    }
}

extension [SubscriptionIndex.Match] {
    /// Groups the matches by user and database; they are already in that order.
    fileprivate func groupedByUser() -> [[SubscriptionIndex.Match]] {
        reduce(into: []) { runs, match in
            if let last = runs.last?.last, last.user == match.user, last.scope == match.scope {
                runs[runs.count - 1].append(match)
            } else {
                runs.append([match])
            }
        }
    }
}

/// The subscription matches of one changed record for one user.
package struct RecordMatches: Sendable {
    var address: NoticeAddress
    var matches: [SubscriptionIndex.Match]
    var zone: ZoneID
    /// The device that made the change, which gets no notice.
    var device: String
    var schema: Schema
    /// The time of the commit by the hub's clock; `nil` if nothing is measured.
    var committed: Duration?
}

/// Notices of query subscriptions.
extension NoticeHub {
    /// Sends a user's devices the notices of the query subscriptions that match a record.
    ///
    /// Sends one notice for each subscription with an alert. If there is none, sends one silent notice, or nothing if a
    /// wider subscription covers the zone. Returns the subscriptions whose notices reached a device. See
    /// Notices.md, "Which notice".
    func publish(_ news: RecordMatches) -> [SubscriptionIndex.Match] {
        guard let scope = news.matches.first?.scope, hasDevices(at: news.address, besides: news.device) else {
            return []
        }
        let known = subscriptions(of: news.address)
        // A wider subscription never covers a default zone, which has no change feed.
        let isCovered =
            !news.zone.isDefault && known?.widest(covering: NoticeSubject(scope: scope, zone: news.zone)) != nil
        let drafts = news.matches.map { ($0, QueryNotice($0, zone: news.zone, schema: news.schema)) }
        var reported = drafts.filter { $0.1.isVisible }
        if reported.isEmpty, !isCovered { reported = Array(drafts.prefix(1)) }
        let delivery = timing.flatMap { timing in news.committed.map { NoticeDelivery(timing, ofQuerySince: $0) } }
        for (_, draft) in reported {
            var notice = OutgoingNotice(draft.notice(for: news.address, noticeID: newNoticeID()))
            notice.delivery = delivery
            deliver(notice, to: news.address, exceptDevice: news.device)
        }
        // One silent notice stands for all matches.
        return reported.isEmpty ? [] : reported.contains { $0.1.isVisible } ? reported.map(\.0) : news.matches
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
    private static let recordScanLimit = 200
    /// The maximum number of bytes of their fields: all are in memory until the oldest is known.
    private static let scanByteLimit = 4 << 20

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
            return subscriptions.widest(covering: subject) == nil ? [summaryNotice(first.id, zone: nil)] : []
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
            let reached = DatabaseToken(encoded: token)
            var missed: [Notice] = []
            for zone in zones {
                // All records of an owner are news to a device that knows none of the owner's zones.
                let start = reached?.position(of: zone.zone.owner) ?? 0
                missed += try notices(in: zone, after: start, first.id, &index, schema, reader)
            }
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
        try reader.visitRecords(in: zone, changes: range, backwards: true, limit: Self.recordScanLimit) {
            record,
            position in
            count += 1
            // The user has never seen records that were deleted before the zone was shared with them.
            if record.isDeleted, position <= given { return }
            bytes += record.fields.count
            if bytes <= Self.scanByteLimit { records.append(zone.aliases.viewed(record)) }
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
        for match in spent { hub.queries.end(match, address.store) }
        let hasMore = count == Self.recordScanLimit || bytes > Self.scanByteLimit
        guard notices.count > Self.recordLimit || hasMore else { return notices }
        return [summaryNotice(first, zone: zone.id)]
    }

    private func summaryNotice(_ subscriptionID: String, zone: ZoneID?) -> Notice {
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
