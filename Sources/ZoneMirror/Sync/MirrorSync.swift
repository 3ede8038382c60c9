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
package actor MirrorSync {
    nonisolated let store: MirroredStore
    var runner: SyncRunner
    var imports = ImportState()
    var exports = ExportState()
    var polls: PollRunner
    var polling: PublicPolling
    var lastError: CKError?

    init(_ store: MirroredStore, pollInterval: Duration) {
        self.store = store
        let conditions = store.conditions
        runner = SyncRunner(of: store.database, conditions.world, isAutomatic: conditions.isAutomatic)
        polling = PublicPolling(extents: store.isPublic ? store.file.extents : [:])
        var settings = PublicPoll.Settings()
        settings.interval = min(max(pollInterval, conditions.shortestPoll), .seconds(86_400))
        polls = PollRunner(
            PublicPoll(types: store.file.mapping.recordTypes, settings: settings),
            time: conditions.time,
            wallClock: conditions.wallClock,
            random: conditions.random
        )
        conditions.time.testEnvironment?.join(self)
    }

    nonisolated var file: StoreFile { store.file }
    nonisolated var database: CKDatabase { store.database }
    nonisolated var values: ValueCodec { store.values }
    nonisolated var conditions: MirrorConditions { store.conditions }
    nonisolated var isPublic: Bool { store.isPublic }
    nonisolated var isPrivate: Bool { store.isPrivate }
    nonisolated var client: any RelayClient { store.client }

    // MARK: Lifecycle

    /// Loads the state of the last run and, if the container syncs automatically, begins.
    func start() async {
        do {
            try await load()
        } catch {
            await store.note(.setup, error: CKError(from: error))
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
        imports.feed = FeedState(databaseToken: token.map { SyncToken($0) })
        for zone in zones where zone.isThere {
            imports.feed.zoneTokens[zone.zone] = zone.token.map { SyncToken($0) }
        }
        for zone in zones where zone.isEnding { imports.endings[zone.zone] = .unknown }
        imports.awaitsRecords = try await file.pool.read { try State.text($0, .awaitsRecords) != nil }
        for zone in try await file.pool.read({ try KnownZone.unfetched($0) }) { imports.feed.changed(zone) }
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
        exports.retries.values.forEach { $0.cancel() }
        for task in stopLoop() { await task.value }
        await stopListening()
    }

    // MARK: Schedule

    /// Stores a wait that the relay requested, so that it survives a restart.
    func storeRetryDelay() async {
        delayPolls()
        guard let delay = runner.newRetryDelay(known: exports.storedDelay) else { return }
        exports.storedDelay = delay.until
        try? await file.pool.write { db in
            try State.set(db, .heldUntil, delay.until?.timeIntervalSince1970)
            try State.set(db, .heldFor, delay.seconds)
        }
    }

    /// Starts a fetch for a change that no notice has reported yet.
    package func noticed() { handle(.noticed(nil)) }
}

extension MirrorSync: SyncTarget {
    func updateFeed<Result>(_ body: (inout FeedState) -> Result) -> Result { body(&imports.feed) }

    nonisolated var databaseToken: @Sendable () -> SyncToken? {
        let pool = file.pool
        return { (try? pool.read { try State.text($0, .databaseToken) }).flatMap { $0 }.map { SyncToken($0) } }
    }

    func pollIsDue() {
        if isPublic { tellPoll(.timerFired) }
    }

    func userIsMissing(_ generation: Int) async throws { try await store.account.userIsMissing(generation) }

    func userIsKnown(_ name: String, _ generation: Int) async throws {
        try await store.account.userIsKnown(name, generation)
    }

    func userIsRefused() async throws { try await store.account.userIsRefused() }

    func accountCheckFailed(_ error: CKError) { lastError = error }

    // This starts the next round, which checks the account first, whatever the last round was waiting for.
    func credentialsReplaced() { handle(.accountChanged(isUsable: true)) }

    /// A failure of the local file is retried, because the relay did not report it.
    nonisolated func syncFailure(of error: CKError) -> SyncFailure {
        error.isOfStorage ? SyncFailure(.busy) : error.syncFailure
    }

    func tell(_ error: CKError, of lane: SyncRunner.Lane, isReported: Bool) async {
        guard !isReported else { return }
        await store.note(lane == .sending ? .export : isPublic ? .poll : .import, error: error)
    }

    func pendingWork() async -> [String] {
        guard conditions.isAutomatic, !isStopped else { return [] }
        let name = "The mirror of the \(database.scope.pathName) database"
        if isPublic, polls.hasMissedChanges {
            return ["\(name) has not polled since the last change."]
        }
        if let unfinished = runner.schedule.unfinished { return ["\(name) \(unfinished)."] }
        if runner.runningRounds > 0 { return ["\(name) is syncing."] }
        if exports.retries[.quota] != nil { return ["\(name) waits for space in the user's database."] }
        guard !isPublic, !runner.schedule.isChannelOpen, runner.hasMissedChanges else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}
