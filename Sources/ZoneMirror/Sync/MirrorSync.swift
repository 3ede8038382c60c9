import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Syncs one store with its database by running `SyncSchedule`, `FetchRound` and `PublicPoll`.
///
/// Each page is stored in one transaction with its change token. The sync never waits for the application. Fetching
/// and sending run concurrently, each one round at a time, with one request at a time per zone: a page read before a
/// save but imported after it would restore an old version.
actor MirrorSync {
    let file: StoreFile
    let link: MirrorLink
    let conditions: MirrorConditions
    let broadcaster: EventBroadcaster
    let isPublic: Bool
    /// The mirrored part of each record type of a public database, for types that are not mirrored completely.
    let extents: [String: WireExtent]

    /// Returns another store of the container, for copies.
    let otherStore: @Sendable (StoreID) -> StoreFile?
    private let account: AccountCheck
    let noticeListener: NoticeListener

    private let fetchLock = AsyncLock()
    let sendLock = AsyncLock()
    let outboxCheckLock = AsyncLock()
    private var zoneLocks: [ZoneID: AsyncLock] = [:]
    /// The number of requests sent to each zone or moving records out of it; pages requested before the last one are
    /// out of date.
    var sends: [ZoneID: Int] = [:]
    /// Ended zones whose objects may appear elsewhere, with the reason if they belong to another user.
    var endings: [ZoneID: ShareChange.Loss] = [:]
    /// Whether some records have left one zone and were not seen in another yet.
    var awaitsRecords = false
    /// Zones being prefetched, with the token of the next page to take.
    var prefetchers: [ZoneID: (token: SyncToken, prefetcher: PagePrefetcher)] = [:]

    var random: RandomGenerator
    var limits = BatchLimits()
    var feed = FeedState()
    var round: FetchRound?
    var poll: PublicPoll
    /// The number of record types being polled on schedule, and the callers that wait until it is 0.
    var typesBeingPolled = 0
    var pollWaiters: [CheckedContinuation<Void, Never>] = []
    /// Types reported as skipped, and types that exist but cannot be polled.
    var skipped: Set<String> = []
    var unpolled: Set<String> = []
    /// The next wake-up of the poll; the schedule has its own alarm.
    private var nextPollWake: Instant?
    private var nextScheduleWake: Instant?
    var schedule: SyncSchedule
    private var timerGeneration = 0
    private var timerTask: Task<Void, Never>?
    private var background: [Int: Task<Void, Never>] = [:]
    private var lastTask = 0
    private(set) var isStopped = false
    /// The number of rounds of any kind that are running.
    var runningRounds = 0
    var lastError: CKError?
    var hasWarned = false
    /// New objects that were reported because their share is unknown.
    var objectsWithoutShare: Set<String> = []
    var quotaRetryTask: Task<Void, Never>?
    var waitingRetryTask: Task<Void, Never>?
    /// When the database was asked for its zones, until all zones it returned have been read.
    var unfinishedImportStart: Date?
    /// Whether a type could not be polled in the poll that is running.
    var hasPollFailed = false
    var schemaCheckTask: Task<Void, Never>?
    private var storedRetryDelay: Double?
    private var seenChanges: SeenChanges
    private let failures: FailureLog
    /// The user and time of the last fetch of permissions in a public database.
    var lastRightsFetch: (generation: Int, at: Date)?
    /// The objects whose changes are being sent.
    var inFlight: Set<String> = []

    init(
        file: StoreFile,
        cloud: CloudOptions,
        conditions: MirrorConditions,
        broadcaster: EventBroadcaster,
        otherStore: @escaping @Sendable (StoreID) -> StoreFile?,
        accountChanged: @escaping @Sendable (AccountCheck.Change) async -> Void
    ) {
        self.otherStore = otherStore
        self.file = file
        self.conditions = conditions
        self.broadcaster = broadcaster
        link = MirrorLink(database: cloud.container.database(with: cloud.scope))
        failures = FailureLog(of: link.database, conditions.log)
        account = AccountCheck(file: file, link: link, changed: accountChanged)
        noticeListener = NoticeListener(link: link, pool: file.pool, conditions: conditions)
        isPublic = cloud.scope == .public
        extents = cloud.scope == .public ? file.extents : [:]
        random = conditions.random
        seenChanges = SeenChanges(in: conditions.time.testEnvironment, inPublic: isPublic)
        var settings = conditions.schedule
        settings.isAutomatic = conditions.isAutomatic
        schedule = SyncSchedule(settings: settings)
        var pollSettings = PublicPoll.Settings()
        pollSettings.interval = min(max(cloud.pollInterval, conditions.shortestPoll), .seconds(86_400))
        poll = PublicPoll(types: file.mapping.recordTypes, settings: pollSettings)
        conditions.time.testEnvironment?.join(self)
    }

    // MARK: Lifecycle

    /// Loads the state of the last run and, if the container syncs automatically, begins.
    func start() async {
        do {
            try await load()
        } catch {
            await note(.setup, error: CKError(from: error))
            return
        }
        await reportExistingObjects()
        guard conditions.isAutomatic, !isStopped else { return }
        beginPolls()
        await outboxChanged()
        handle(.started)
        if !isPublic { inBackground { await $0.listenForNotices() } }
    }

    private func load() async throws {
        if isPublic {
            let extents = extents
            try await file.pool.write { try PollProgress.resetIfExtentsChanged($0, extents) }
        }
        let (token, zones, marks, heldUntil, heldFor) = try await file.pool.read { db in
            (
                try State.text(db, .databaseToken), try KnownZone.all(db), try PollProgress.load(db),
                try State.number(db, .heldUntil), try State.number(db, .heldFor)
            )
        }
        feed = FeedState(databaseToken: token.map { SyncToken($0) })
        for zone in zones where zone.isThere {
            feed.zoneTokens[zone.zone] = zone.token.map { SyncToken($0) }
        }
        for zone in zones where zone.isEnding { endings[zone.zone] = .unknown }
        awaitsRecords = try await file.pool.read { try State.text($0, .awaitsRecords) != nil }
        for zone in try await unfetchedZones() { feed.changed(zone) }
        poll = poll.restored(with: marks)
        if let heldUntil, let heldFor, heldUntil > conditions.wallClock().timeIntervalSince1970 {
            var settings = conditions.schedule
            settings.isAutomatic = conditions.isAutomatic
            // Never longer than the original wait: the wall clock may have been ahead when it was stored.
            let wait = min(heldUntil - conditions.wallClock().timeIntervalSince1970, heldFor)
            schedule = SyncSchedule(settings: settings, retryNotBefore: conditions.time.now() + .seconds(wait))
        }
        // Space may have been freed, and what changes waited for may have arrived.
        try await file.pool.write { db in
            try State.set(db, .quotaIsFull, nil)
            for event in [ChangeEvent.zoneFreed, .dependencyArrived, .entityReturned] {
                try RecordTable(db).release(event)
            }
        }
    }

    private func unfetchedZones() async throws -> [ZoneID] {
        try await file.pool.read { db in
            try Row.fetchAll(db, sql: "SELECT name, owner FROM mirror_zone WHERE isUnfetched = 1 ORDER BY id")
                .map { ZoneID($0[0], owner: UserID($0[1])) }
        }
    }

    /// Stops the sync; returns when nothing of it is running.
    func stop() async {
        isStopped = true
        timerGeneration += 1
        timerTask?.cancel()
        quotaRetryTask?.cancel()
        waitingRetryTask?.cancel()
        schemaCheckTask?.cancel()
        let running = background.values
        running.forEach { $0.cancel() }
        for task in running { await task.value }
        await noticeListener.stop()
    }

    func inBackground(_ work: @escaping @Sendable (MirrorSync) async -> Void) {
        guard !isStopped else { return }
        lastTask += 1
        let id = lastTask
        background[id] = conditions.time.start { [weak self] in
            guard let self else { return }
            await work(self)
            await self.forget(id)
        }
    }

    private func forget(_ id: Int) { background[id] = nil }

    // MARK: Schedule

    /// Stores a wait that the relay requested, so that it survives a restart.
    func storeRetryDelay() async {
        delayPolls()
        let wait = schedule.retryNotBefore.map { ($0 - conditions.time.now()).inSeconds }
        let until = wait.map { conditions.wallClock().timeIntervalSince1970 + $0 }
        // The two clocks never agree exactly; only a real difference is written.
        let isNews = until.map { abs($0 - (storedRetryDelay ?? 0)) > 1 } ?? (storedRetryDelay != nil)
        guard isNews else { return }
        storedRetryDelay = until
        try? await file.pool.write { db in
            try State.set(db, .heldUntil, until)
            try State.set(db, .heldFor, wait)
        }
    }

    func beginPolls() {
        guard isPublic, conditions.isAutomatic, !isStopped else { return }
        delayPolls()
        perform(poll.handle(.started, at: conditions.time.now(), using: &random))
    }

    private func delayPolls() {
        guard isPublic, let until = schedule.retryNotBefore else { return }
        perform(poll.handle(.backingOff(until: until), at: conditions.time.now(), using: &random))
    }

    func handle(_ event: SyncSchedule.Event) {
        guard !isStopped else { return }
        if !isPublic { seenChanges.handle(event) }
        for effect in schedule.handle(event, at: conditions.time.now(), using: &random) {
            switch effect {
            case .fetch(let asksDatabase, let backingOff):
                if isPublic {
                    // A database without a feed has nothing to fetch; the poll runs on its own.
                    var outcome = FetchRound.Outcome()
                    outcome.reachedDatabaseEnd = true
                    handle(.fetchFinished(outcome))
                } else {
                    inBackground { await $0.fetchOnSchedule(asksDatabase: asksDatabase, backingOff: backingOff) }
                }
            case .send:
                let backingOff = schedule.zonesBackingOffFromSending(at: conditions.time.now())
                inBackground { await $0.sendOnSchedule(backingOff: backingOff) }
            case .wake(let instant):
                nextScheduleWake = instant
                wake()
            }
        }
    }

    func perform(_ effects: [PublicPoll.Effect]) {
        for effect in effects {
            switch effect {
            case .query(let type, let since):
                guard !isStopped else { break }
                seenChanges.began()
                typesBeingPolled += 1
                inBackground { await $0.pollOnSchedule(type, since) }
            case .wake(let instant):
                nextPollWake = instant
                wake()
            case .pollEnded:
                // A type that the relay does not know yet has no changes either.
                seenChanges.succeeded()
                scheduledPollCompleted()
            // The page loop handles the others.
            case .nextPage, .apply, .ended: break
            }
        }
    }

    private func wake() {
        timerGeneration += 1
        timerTask?.cancel()
        timerTask = nil
        let next = [nextScheduleWake, nextPollWake].compactMap { $0 }.min()
        guard let next, conditions.isAutomatic else { return }
        let (timerGeneration, time) = (timerGeneration, conditions.time)
        timerTask = time.start { [weak self] in
            guard (try? await time.sleep(next)) != nil else { return }
            await self?.timerElapsed(timerGeneration)
        }
    }

    private func timerElapsed(_ timerGeneration: Int) {
        guard timerGeneration == self.timerGeneration else { return }
        handle(.timerFired)
        if isPublic { perform(poll.handle(.timerFired, at: conditions.time.now(), using: &random)) }
    }

    var retryNotBefore: Instant? { schedule.retryNotBefore }

    /// Starts a fetch for a change that no notice has reported yet.
    func noticed() { handle(.noticed(nil)) }

    /// The container for which this sync works.
    nonisolated var container: CKContainer { CKContainer(sharing: link.database.session) }

    /// Checks the user before anything is sent or fetched, and after each change of credentials.
    func checkAccount() async throws(CKError) {
        do throws(CKError) {
            try await account.check()
        } catch {
            lastError = error
            throw error
        }
    }

    // MARK: Rounds

    /// The lock that allows one request at a time for a zone.
    func lock(of zone: ZoneID) -> AsyncLock {
        if let known = zoneLocks[zone] { return known }
        let made = AsyncLock()
        zoneLocks[zone] = made
        return made
    }

    /// Returns when all requests sent before were answered and their results stored.
    func awaitZoneLocks() async {
        for lock in Array(zoneLocks.values) {
            await lock.enter()
            lock.leave()
        }
    }

    func withFetchLock<Result: Sendable>(_ work: () async throws -> Result) async rethrows -> Result {
        await fetchLock.enter()
        runningRounds += 1
        defer {
            fetchLock.leave()
            runningRounds -= 1
        }
        return try await work()
    }

    func withSendLock<Result: Sendable>(_ work: () async throws -> Result) async rethrows -> Result {
        await sendLock.enter()
        runningRounds += 1
        defer {
            sendLock.leave()
            runningRounds -= 1
        }
        return try await work()
    }

    func advance(_ event: FetchRound.Event) -> [FetchRound.Effect] {
        round?.handle(event, state: &feed) ?? []
    }
}

/// Events of a store's sync, and its progress for callers that wait for it.
extension MirrorSync {
    func note(
        _ kind: MirrorEvent.Kind,
        began: Date? = nil,
        done: Int = 0,
        bytes: Int = 0,
        error: CKError? = nil,
        details: [MirrorEvent.Detail] = []
    ) async {
        let now = conditions.wallClock()
        let event = MirrorEvent(
            id: 0,
            store: file.id,
            kind: kind,
            began: began ?? now,
            ended: now,
            succeeded: error == nil,
            errorCode: error?.code,
            message: error?.explanation,
            done: done,
            total: nil,
            bytes: bytes,
            details: details
        )
        let written = try? await file.pool.write { [event] db in
            var event = event
            try EventLog.write(db, &event)
            return event
        }
        broadcaster.post(written ?? event)
    }
}

extension MirrorSync {
    /// Reports the end of automatic work to the log; with `kind`, a failure also in an event, unless the work has noted
    /// one itself.
    func report(_ error: CKError?, as kind: MirrorEvent.Kind? = nil) async {
        guard let error else { return failures.succeeded() }
        guard !isStopped, error != AccountCheck.anotherUser else { return }
        if failures.failed(error), let kind { await note(kind, error: error) }
    }
}

extension MirrorSync: PendingWorkReporting {
    func pendingWork() async -> [String] {
        guard conditions.isAutomatic, !isStopped else { return [] }
        let name = "The mirror of the \(link.database.scope.pathName) database"
        if isPublic, seenChanges.isIncomplete {
            return ["\(name) has not polled since the last change."]
        }
        if let unfinished = schedule.unfinished { return ["\(name) \(unfinished)."] }
        if runningRounds > 0 { return ["\(name) is syncing."] }
        if quotaRetryTask != nil { return ["\(name) waits for space in the user's database."] }
        guard !isPublic, !schedule.isChannelOpen, seenChanges.isIncomplete else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}
