import Foundation
package import Records
package import SyncCore

/// Polls the public database, which has neither a change feed nor notices.
///
/// At the start and every 30 minutes, the poller queries the records that were modified since the last poll, and
/// delivers the new ones. It cannot detect deletions: mark a record as deleted with a date field, and hide it. The
/// record types need an index on their modification date, which they have by default in the development environment.
public actor PublicDatabasePoller {
    /// An event of the poller.
    ///
    /// Events are delivered one at a time.
    public enum Event: Sendable {
        /// Records that were created or changed, in the order of their modification dates.
        case fetchedRecords([CKRecord])
        /// The poller's state has changed.
        ///
        /// Save it together with the data.
        case stateUpdate(State)
        /// The query for one record type failed.
        ///
        /// The other types were polled, and this one is retried later.
        case failed(recordType: CKRecord.RecordType, error: CKError)
        /// All record types have been polled.
        case ended
    }

    /// The position up to which changes have been delivered.
    public struct State: Codable, Sendable {
        struct Seen: Codable, Sendable {
            var name: String
            var tag: String
            var milliseconds: Int64
        }

        struct Mark: Codable, Sendable {
            var watermark: Int64?
            var recent: [Seen]
        }

        var marks: [String: Mark] = [:]
    }

    private let database: CKDatabase
    private let time: Scheduler
    private let handle: @Sendable (Event) async -> Void
    private let deliveryLock = AsyncLock()
    package var polls: PollRunner
    /// The positions delivered to the app so far.
    ///
    /// May be behind the known ones: types are queried concurrently and delivered one after another.
    private var deliveredPositions: [String: PublicPoll.Mark]
    private var timerID = 0
    private var timerTask: Task<Void, Never>?
    private var work: [Int: Task<Void, Never>] = [:]
    private var lastTask = 0
    package private(set) var isStopped = false
    private var isStarted = false

    /// Creates a poller that has not started.
    ///
    /// - Parameters:
    ///   - database: The public database.
    ///   - recordTypes: The record types to poll.
    ///   - interval: The time from the start of one poll to the start of the next, clamped to the range from a minute
    ///     to a day.
    ///   - state: The state from the last `stateUpdate` event of the previous run; `nil` at the first start.
    ///   - handle: The event handler, called for one event at a time.
    public init(
        database: CKDatabase,
        recordTypes: [CKRecord.RecordType],
        interval: Duration = .seconds(1800),
        state: State? = nil,
        handle: @escaping @Sendable (Event) async -> Void
    ) {
        var settings = PublicPoll.Settings()
        settings.interval = min(max(interval, .seconds(60)), .seconds(86_400))
        let conditions = (try? database.session.connection())?.conditions ?? SyncConditions()
        self.init(
            database,
            recordTypes,
            settings,
            state,
            time: conditions.time,
            random: conditions.random,
            handle: handle
        )
    }

    /// Creates a poller with any interval and given sources of time and randomness.
    package init(
        _ database: CKDatabase,
        _ types: [String],
        _ settings: PublicPoll.Settings,
        _ state: State?,
        time: Scheduler,
        random: RandomGenerator,
        handle: @escaping @Sendable (Event) async -> Void
    ) {
        self.database = database
        self.time = time
        self.handle = handle
        deliveredPositions = state?.coreMarks ?? [:]
        let poll = PublicPoll(types: types, settings: settings, marks: deliveredPositions)
        polls = PollRunner(poll, time: time, random: random)
        time.testEnvironment?.join(self)
    }

    /// Polls now, and then regularly.
    public func start() {
        isStarted = true
        tellPoll(.started)
    }

    /// Polls now.
    ///
    /// The next regular poll follows after the interval.
    public func pollNow() { tellPoll(.pollNow) }

    /// Stops the poller permanently.
    public func stop() {
        isStopped = true
        timerID += 1
        timerTask?.cancel()
        work.values.forEach { $0.cancel() }
    }

    /// The time until the next poll; `nil` during a poll.
    public var untilNextPoll: Duration? { polls.poll.nextPoll.map { max(.zero, $0 - time.now()) } }

    private func deliver(_ event: Event) async {
        await deliveryLock.enter()
        defer { deliveryLock.leave() }
        if !isStopped { await time.application { await handle(event) } }
    }

    private func timerDidFire(_ timerID: Int) {
        if timerID == self.timerID { tellPoll(.timerFired) }
    }

    private func forget(_ id: Int) { work[id] = nil }
}

extension PublicDatabasePoller: PollTarget {
    package func inBackground(_ work: @escaping @Sendable (PublicDatabasePoller) async -> Void) {
        lastTask += 1
        let id = lastTask
        self.work[id] = time.start { [weak self] in
            guard let self else { return }
            await work(self)
            await self.forget(id)
        }
    }

    package func setPollAlarm(at instant: Instant?) {
        timerID += 1
        timerTask?.cancel()
        timerTask = nil
        guard let instant else { return }
        let (timerID, time) = (timerID, time)
        timerTask = time.start { [weak self] in
            guard (try? await time.sleep(instant)) != nil else { return }
            await self?.timerDidFire(timerID)
        }
    }

    package func syncFailure(of error: CKError) -> SyncFailure { error.syncFailure }

    /// Throws if a record could not be read, because the position would skip it.
    package func pollPage(
        of type: String,
        since: Timestamp?,
        after cursor: CKQueryOperation.Cursor?
    ) async throws -> PollPage<CKRecord, CKQueryOperation.Cursor> {
        var query = Query(recordType: type)
        if let since { query.filters = [.init(.modified, .greaterThanOrEquals, [.timestamp(since)])] }
        query.sorts = [.init(.modified)]
        let page =
            if let cursor { try await database.records(continuingMatchFrom: cursor) } else {
                try await database.records(matching: CKQuery(query))
            }
        return PollPage(try page.matchResults.map { try $0.1.get() }, page.queryCursor) { record in
            PublicPoll.ListedRecord(
                recordName: record.recordID.recordName,
                changeTag: record.recordChangeTag ?? "",
                modified: Timestamp(record.modificationDate ?? Date(timeIntervalSince1970: 0))
            )
        }
    }

    package func apply(_ records: [CKRecord], of type: String, _ mark: PublicPoll.Mark?) async -> Int {
        await deliver(.fetchedRecords(records))
        deliveredPositions[type] = mark
        await deliver(.stateUpdate(State(deliveredPositions)))
        return records.count
    }

    package func pageFailed(_ type: String, _ error: CKError, _ failure: SyncFailure) async {
        await deliver(.failed(recordType: type, error: error))
    }

    package func pollEnded(isComplete: Bool) { inBackground { await $0.deliver(.ended) } }
}

extension PublicDatabasePoller: PendingWorkReporting {
    package func pendingWork() -> [String] {
        guard isStarted, !isStopped else { return [] }
        if !work.isEmpty { return ["The poller of the public database is polling."] }
        return polls.hasMissedChanges
            ? ["The poller of the public database has not polled since the last change."] : []
    }
}

extension PublicDatabasePoller.State {
    init(_ marks: [String: PublicPoll.Mark]) {
        self.marks = marks.mapValues { mark in
            let recent = mark.recent.map { name, tag in
                Seen(name: name, tag: tag, milliseconds: mark.recentTimes[name]?.milliseconds ?? 0)
            }
            return Mark(watermark: mark.watermark?.milliseconds, recent: recent)
        }
    }

    var coreMarks: [String: PublicPoll.Mark] {
        marks.mapValues { stored in
            var mark = PublicPoll.Mark()
            mark.watermark = stored.watermark.map { Timestamp(milliseconds: $0) }
            for seen in stored.recent {
                mark.recent[seen.name] = seen.tag
                mark.recentTimes[seen.name] = Timestamp(milliseconds: seen.milliseconds)
            }
            return mark
        }
    }
}
