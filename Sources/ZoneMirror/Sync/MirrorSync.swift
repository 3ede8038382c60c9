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
    let database: CKDatabase
    let values: ValueCodec
    let conditions: MirrorConditions
    let broadcaster: EventBroadcaster
    let isPublic: Bool

    /// Returns another store of the container, for copies.
    let otherStore: @Sendable (StoreID) -> StoreFile?
    let account: StoreAccount

    var runner: SyncRunner
    let outboxCheckLock = AsyncLock()
    /// Ended zones whose objects may appear elsewhere, with the reason if they belong to another user.
    var endings: [ZoneID: ShareChange.Loss] = [:]
    /// Whether some records have left one zone and were not seen in another yet.
    var awaitsRecords = false
    /// Zones being prefetched, with the token of the next page to take.
    var prefetchers: [ZoneID: (token: SyncToken, prefetcher: PagePrefetcher)] = [:]

    var feed = FeedState()
    var polls: PollRunner
    var polling: PublicPolling
    var lastError: CKError?
    var hasWarned = false
    /// New objects that were reported because their share is unknown.
    var objectsWithoutShare: Set<String> = []
    var retries: [Retry: Task<Void, Never>] = [:]
    /// When the database was asked for its zones, until all zones it returned have been read.
    var unfinishedImportStart: Date?
    private var storedRetryDelay: Date?
    /// The objects whose changes are being sent.
    var inFlight: Set<String> = []

    init(
        file: StoreFile,
        cloud: CloudOptions,
        conditions: MirrorConditions,
        broadcaster: EventBroadcaster,
        otherStore: @escaping @Sendable (StoreID) -> StoreFile?,
        accountChanged: @escaping @Sendable (StoreAccount.Change) async -> Void
    ) {
        self.otherStore = otherStore
        self.file = file
        self.conditions = conditions
        self.broadcaster = broadcaster
        database = cloud.container.database(with: cloud.scope)
        let account = StoreAccount(of: file, database, changed: accountChanged)
        self.account = account
        let assets = AssetValues(of: database) { account.binding }
        values = ValueCodec(file: file, database: database, assets: assets)
        isPublic = cloud.scope == .public
        runner = SyncRunner(of: database, conditions.world, isAutomatic: conditions.isAutomatic)
        polling = PublicPolling(extents: isPublic ? file.extents : [:])
        var settings = PublicPoll.Settings()
        settings.interval = min(max(cloud.pollInterval, conditions.shortestPoll), .seconds(86_400))
        polls = PollRunner(
            PublicPoll(types: file.mapping.recordTypes, settings: settings),
            time: conditions.time,
            wallClock: conditions.wallClock,
            random: conditions.random
        )
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
            let extents = polling.extents
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
        for zone in try await file.pool.read({ try KnownZone.unfetched($0) }) { feed.changed(zone) }
        polls.restore(marks)
        if let heldUntil, let heldFor, heldUntil > conditions.wallClock().timeIntervalSince1970 {
            // Never longer than the original wait: the wall clock may have been ahead when it was stored.
            runner.hold(for: min(heldUntil - conditions.wallClock().timeIntervalSince1970, heldFor))
        }
        // Space may have been freed, and what changes waited for may have arrived.
        try await file.pool.write { db in
            try State.set(db, .quotaIsFull, nil)
            for event in [ChangeEvent.zoneFreed, .dependencyArrived, .entityReturned] {
                try RecordTable(db).release(event)
            }
        }
    }

    /// Stops the sync; returns when nothing of it is running.
    func stop() async {
        retries.values.forEach { $0.cancel() }
        for task in stopLoop() { await task.value }
        await stopListening()
    }

    // MARK: Schedule

    /// Stores a wait that the relay requested, so that it survives a restart.
    func storeRetryDelay() async {
        delayPolls()
        guard let delay = runner.newRetryDelay(known: storedRetryDelay) else { return }
        storedRetryDelay = delay.until
        try? await file.pool.write { db in
            try State.set(db, .heldUntil, delay.until?.timeIntervalSince1970)
            try State.set(db, .heldFor, delay.seconds)
        }
    }

    /// Starts a fetch for a change that no notice has reported yet.
    func noticed() { handle(.noticed(nil)) }

    /// Sends requests in the name of the store's user.
    nonisolated var client: any RelayClient { account.client }

    nonisolated var isPrivate: Bool { database.databaseScope == .private }

    /// The container for which this sync works.
    nonisolated var container: CKContainer { CKContainer(sharing: database.session) }
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

extension MirrorSync: SyncTarget {
    func updateFeed<Result>(_ body: (inout FeedState) -> Result) -> Result { body(&feed) }

    nonisolated var databaseToken: @Sendable () -> SyncToken? {
        let pool = file.pool
        return { (try? pool.read { try State.text($0, .databaseToken) }).flatMap { $0 }.map { SyncToken($0) } }
    }

    func pollIsDue() {
        if isPublic { tellPoll(.timerFired) }
    }

    func userIsMissing(_ generation: Int) async throws { try await account.userIsMissing(generation) }

    func userIsKnown(_ name: String, _ generation: Int) async throws {
        try await account.userIsKnown(name, generation)
    }

    func userIsRefused() async throws { try await account.userIsRefused() }

    func accountCheckFailed(_ error: CKError) { lastError = error }

    // This starts the next round, which checks the account first, whatever the last round was waiting for.
    func credentialsReplaced() { handle(.accountChanged(isUsable: true)) }

    /// A failure of the local file is retried, because the relay did not report it.
    nonisolated func syncFailure(of error: CKError) -> SyncFailure {
        error.isOfStorage ? SyncFailure(.busy) : error.syncFailure
    }

    func tell(_ error: CKError, of lane: SyncRunner.Lane, isReported: Bool) async {
        guard !isReported else { return }
        await note(lane == .sending ? .export : isPublic ? .poll : .import, error: error)
    }

    func pendingWork() async -> [String] {
        guard conditions.isAutomatic, !isStopped else { return [] }
        let name = "The mirror of the \(database.scope.pathName) database"
        if isPublic, polls.hasMissedChanges {
            return ["\(name) has not polled since the last change."]
        }
        if let unfinished = runner.schedule.unfinished { return ["\(name) \(unfinished)."] }
        if runner.runningRounds > 0 { return ["\(name) is syncing."] }
        if retries[.quota] != nil { return ["\(name) waits for space in the user's database."] }
        guard !isPublic, !runner.schedule.isChannelOpen, runner.hasMissedChanges else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}
