import Foundation
package import Records
package import SyncCore

/// The state of the loop that runs the sync of one database.
///
/// The loop itself is an extension of `SyncTarget`: it performs what `SyncSchedule` and `FetchRound` decide, for the
/// delegate of an engine and for a mirrored store.
package struct SyncRunner {
    /// Fetching and sending run concurrently, each one round at a time.
    package enum Lane { case fetching, sending }

    package let database: CKDatabase
    package let time: Scheduler
    package let wallClock: @Sendable () -> Date
    /// Whether the loop fetches and sends by itself and not only when called.
    package let isAutomatic: Bool
    /// The ID of the subscription for the notices.
    package let subscriptionID: String
    package var random: RandomGenerator
    package var limits = BatchLimits()
    package fileprivate(set) var schedule: SyncSchedule
    private let settings: SyncSchedule.Settings
    fileprivate let failures: FailureLog
    fileprivate var seenChanges: SeenChanges

    package let fetchLock = AsyncLock()
    package let sendLock = AsyncLock()
    /// Locks the requests that create and delete zones.
    package let zoneListLock = AsyncLock()
    fileprivate let accountLock = AsyncLock()
    /// The generation of the credentials for which the user was checked.
    package fileprivate(set) var checkedGeneration: Int?
    /// The generation of the credentials that the relay rejected.
    package fileprivate(set) var refusedGeneration: Int?
    fileprivate var zoneLocks: [ZoneID: AsyncLock] = [:]
    /// The number of times that this device has changed each zone or moved records out of it.
    ///
    /// Pages that were requested before the last time are out of date.
    package var changes: [ZoneID: Int] = [:]
    var round: FetchRound?
    /// The number of rounds of any kind that are running.
    package fileprivate(set) var runningRounds = 0
    /// Increases with each change of the user of an engine.
    ///
    /// Results of work that began in an earlier epoch are discarded.
    package var accountEpoch = 0

    /// The number of calls of `cancelRounds`.
    fileprivate var cancellations = 0
    /// The value of `cancellations` when the running round was requested.
    fileprivate var cancellationsBeforeRound: [Lane: Int] = [:]
    /// The cancel functions of the running requests.
    fileprivate var requests: [Int: @Sendable () -> Void] = [:]
    fileprivate var background: [Int: Task<Void, Never>] = [:]
    fileprivate var lastTask = 0
    package fileprivate(set) var isStopped = false

    /// The next wake-up of the schedule.
    fileprivate var scheduleWake: Instant?
    /// The next wake-up of the poll of a public database.
    package var pollWake: Instant?
    fileprivate var alarmID = 0
    fileprivate var alarm: Task<Void, Never>?
    /// The ID of this loop's listener at the notice multiplexer.
    fileprivate var listenerID: UUID?

    package init(
        of database: CKDatabase,
        _ conditions: SyncConditions,
        isAutomatic: Bool,
        subscriptionID: String? = nil
    ) {
        self.database = database
        time = conditions.time
        wallClock = conditions.wallClock
        self.isAutomatic = isAutomatic
        self.subscriptionID = subscriptionID ?? database.changesSubscriptionID
        random = conditions.random
        var settings = conditions.schedule
        settings.isAutomatic = isAutomatic
        self.settings = settings
        schedule = SyncSchedule(settings: settings)
        failures = FailureLog(of: database, conditions.log)
        seenChanges = SeenChanges(in: conditions.time.testEnvironment, inPublic: false)
    }

    fileprivate mutating func effects(of event: SyncSchedule.Event) -> [SyncSchedule.Effect] {
        schedule.handle(event, at: time.now(), using: &random)
    }

    /// Whether the database has a change feed; a public one is polled instead.
    package var hasFeed: Bool { database.databaseScope != .public }

    /// Makes the loop wait for this number of seconds, because the relay asked for it in an earlier run.
    package mutating func hold(for seconds: Double) {
        guard seconds > 0 else { return }
        schedule = SyncSchedule(settings: settings, retryNotBefore: time.now() + .seconds(seconds))
    }

    /// Returns the delay that the relay has requested, to be stored for the next run, unless its end is `known`.
    package func newRetryDelay(known: Date?) -> (until: Date?, seconds: Double?)? {
        let seconds = schedule.retryNotBefore.map { ($0 - time.now()).inSeconds }
        let until = seconds.map { wallClock().addingTimeInterval($0) }
        // The two clocks never agree exactly, so small differences are ignored.
        let drift = until.flatMap { until in known.map { abs(until.timeIntervalSince($0)) } }
        return (drift ?? 0) > 1 || (until == nil) != (known == nil) ? (until, seconds) : nil
    }

    /// Whether there is a change that no successful fetch has covered; `false` outside tests.
    package var hasMissedChanges: Bool { seenChanges.isIncomplete }
}

// MARK: The loop

extension SyncTarget {
    package var isStopped: Bool { runner.isStopped }

    // MARK: Tasks

    package func inBackground(_ work: @escaping @Sendable (Self) async -> Void) {
        guard !isStopped else { return }
        let id = newTaskID()
        runner.background[id] = runner.time.start { [weak self] in
            guard let self else { return }
            await work(self)
            await self.taskEnded(id)
        }
    }

    private func newTaskID() -> Int {
        runner.lastTask += 1
        return runner.lastTask
    }

    private func taskEnded(_ id: Int) { runner.background[id] = nil }

    /// Stops the loop and cancels its tasks, which are returned.
    package func stopLoop() -> [Task<Void, Never>] {
        runner.isStopped = true
        runner.alarmID += 1
        runner.alarm?.cancel()
        runner.failures.succeeded()
        let tasks = Array(runner.background.values)
        tasks.forEach { $0.cancel() }
        return tasks
    }

    // MARK: Schedule

    package func handle(_ event: SyncSchedule.Event) {
        guard !isStopped else { return }
        if runner.hasFeed { runner.seenChanges.handle(event) }
        for effect in runner.effects(of: event) {
            switch effect {
            case .fetch where !runner.hasFeed:
                // A database without a feed has nothing to fetch; its poll runs on its own.
                var outcome = FetchRound.Outcome()
                outcome.reachedDatabaseEnd = true
                handle(.fetchFinished(outcome))
            case .fetch(let asksDatabase, let backingOff):
                inBackground { await $0.fetchOnSchedule(asksDatabase: asksDatabase, backingOff: backingOff) }
            case .send:
                let backingOff = runner.schedule.zonesBackingOffFromSending(at: runner.time.now())
                inBackground { await $0.sendOnSchedule(backingOff: backingOff) }
            case .wake(let instant):
                runner.scheduleWake = instant
                setAlarm()
            }
        }
        scheduleChanged()
    }

    package func fetchOnSchedule(asksDatabase: Bool, backingOff: Set<ZoneID>) async {
        await onSchedule(.fetching) { failure in
            var outcome = FetchRound.Outcome()
            outcome.syncFailure = failure
            return .fetchFinished(outcome)
        } work: {
            try await fetch(Self.scheduledFetch, asksDatabase: asksDatabase, backingOff: backingOff)
        }
    }

    package func sendOnSchedule(backingOff: Set<ZoneID>) async {
        await onSchedule(.sending) {
            .sendFinished(.init(syncFailure: $0))
        } work: {
            try await send(Self.scheduledSend, backingOff: backingOff)
        }
    }

    /// Checks the account and runs a round; `end` returns the event that the schedule receives if the check fails.
    private func onSchedule(
        _ lane: SyncRunner.Lane,
        end: (SyncFailure) -> SyncSchedule.Event,
        work: () async throws -> Void
    ) async {
        let epoch: Int
        do {
            try await checkAccount()
            epoch = runner.accountEpoch
        } catch {
            let error = CKError(from: error)
            handle(end(syncFailure(of: error)))
            return await report(error, of: lane)
        }
        do {
            try await work()
            runner.failures.succeeded()
        } catch {
            if epoch == runner.accountEpoch { await report(CKError(from: error), of: lane, isReported: true) }
        }
    }

    /// Reports a failure of automatic work to the log and to the app, unless they know it.
    package func report(_ error: CKError, of lane: SyncRunner.Lane, isReported: Bool = false) async {
        if !isStopped, runner.failures.failed(error) { await tell(error, of: lane, isReported: isReported) }
    }

    /// Called when automatic work has succeeded that the schedule does not know of.
    package func reportSuccess() { runner.failures.succeeded() }

    // MARK: Account

    /// Checks which user is signed in, before each fetch and send and after a change of the credentials.
    package func checkAccount() async throws(CKError) {
        await runner.accountLock.enter()
        defer { runner.accountLock.leave() }
        do {
            let connection = try runner.database.session.connection()
            let generation = connection.credentials.current.generation
            guard runner.checkedGeneration != generation else { return }
            if connection.credentials.identifiesUser {
                // Ask as the current sign-in, even if a round of the previous user has led to this call.
                let name: String
                do {
                    name = try await AccountBinding.$current.withValue(nil) {
                        try await runner.database.client.callerName()
                    }
                } catch {
                    // An expired or rejected sign-in does not identify another user; the user's data stay pending.
                    if CKError(from: error).code == .notAuthenticated {
                        runner.refusedGeneration = generation
                        try await userIsRefused()
                    }
                    throw error
                }
                await connection.notices.accountIsUsable(generation: generation)
                try await userIsKnown(name, generation)
            } else {
                // This is known without a request, so the app is informed even without a network.
                runner.refusedGeneration = generation
                try await userIsMissing(generation)
            }
            // Set last, so that work still running for the previous user is not mistaken for the new user's.
            runner.checkedGeneration = generation
        } catch {
            let error = CKError(from: error)
            await accountCheckFailed(error)
            throw error
        }
    }

    /// Throws if the user has changed since a round began, so that an abandoned round does not report success.
    func requireSameUser(since epoch: Int) throws(CKError) {
        guard epoch == runner.accountEpoch else {
            throw CKError(.accountTemporarilyUnavailable, "Another user has signed in since this operation began.")
        }
    }

    // MARK: Alarms

    /// Sets the alarm to the next wake-up of the schedule or the poll.
    package func setAlarm() {
        runner.alarmID += 1
        runner.alarm?.cancel()
        runner.alarm = nil
        let next = [runner.scheduleWake, runner.pollWake].compactMap { $0 }.min()
        guard let next, runner.isAutomatic else { return }
        let (alarmID, time) = (runner.alarmID, runner.time)
        runner.alarm = time.start { [weak self] in
            guard (try? await time.sleep(next)) != nil else { return }
            await self?.alarmRang(alarmID)
        }
    }

    private func alarmRang(_ alarmID: Int) {
        guard alarmID == runner.alarmID else { return }
        handle(.timerFired)
        pollIsDue()
    }

    // MARK: Lanes

    /// Returns the lock that allows one exchange with the relay about a zone at a time, until its result is applied.
    ///
    /// A page that was read after a save of this device but applied before its confirmation would look like a conflict
    /// with that save. A page that was read before the save but applied after it would restore an old version. Neither
    /// would be corrected later, since the relay sends no notice about the device's own changes.
    package func lock(of zone: ZoneID) -> AsyncLock {
        if let known = runner.zoneLocks[zone] { return known }
        let made = AsyncLock()
        runner.zoneLocks[zone] = made
        return made
    }

    /// Returns when all requests sent so far have been answered and their results applied.
    package func awaitZoneLocks() async {
        for lock in Array(runner.zoneLocks.values) + [runner.zoneListLock] {
            await lock.enter()
            lock.leave()
        }
    }

    /// Runs a round of fetching or sending, after the rounds of the same kind that were requested before.
    package func inLane<Result>(
        _ lane: SyncRunner.Lane,
        _ work: () async throws -> Result
    ) async rethrows -> Result {
        let cancellations = runner.cancellations
        let lock = lane == .fetching ? runner.fetchLock : runner.sendLock
        await lock.enter()
        runner.runningRounds += 1
        defer {
            lock.leave()
            runner.runningRounds -= 1
        }
        runner.cancellationsBeforeRound[lane] = cancellations
        return try await work()
    }

    // MARK: Cancellation

    /// Cancels the running rounds and those that wait.
    ///
    /// A round that is waiting for the app ends before its next request.
    package func cancelRounds() {
        runner.cancellations += 1
        runner.requests.values.forEach { $0() }
    }

    /// Returns whether the current round was cancelled.
    package func isRoundCancelled(_ lane: SyncRunner.Lane) -> Bool {
        runner.cancellationsBeforeRound[lane] != runner.cancellations
    }

    /// Runs a request in its own task, so that `cancelRounds` can cancel it, and only as the user of `binding`.
    package func cancellable<Result: Sendable>(
        as binding: AccountBinding?,
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let id = newTaskID()
        let task: Task<Result, any Error> = runner.time.start {
            try await AccountBinding.$current.withValue(binding) { try await work() }
        }
        runner.requests[id] = { task.cancel() }
        defer { runner.requests[id] = nil }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    // MARK: Notices

    /// Subscribes, and handles notices from then on; a change of the user is handled at once.
    package func listenForNotices() async {
        let (database, time, random) = (runner.database, runner.time, runner.random)
        guard let connection = await database.session.connectionOnceConfigured(), !isStopped, !Task.isCancelled else {
            return
        }
        let (subscriptionID, retryNotBefore) = (runner.subscriptionID, runner.schedule.retryNotBefore)
        let listenerID = await connection.notices.listen(
            to: database.scope,
            over: connection,
            time: time,
            random: random,
            databaseToken: databaseToken,
            deliver: { [weak self] in await self?.noticeReceived($0) },
            after: {
                await database.subscribeToChanges(
                    as: subscriptionID,
                    notBefore: retryNotBefore,
                    time: time,
                    random: random
                )
            }
        )
        runner.listenerID = listenerID
        if isStopped { await connection.notices.stopListening(listenerID) }
    }

    package func stopListening() async {
        guard let listenerID = runner.listenerID, let connection = try? runner.database.session.connection() else {
            return
        }
        await connection.notices.stopListening(listenerID)
    }

    /// Creates the subscription again, because the relay does not know it and would send no notices.
    ///
    /// This happens after a change of the user, and after the relay was restored from a backup.
    private func subscribeAgain() async {
        await runner.database.subscribeToChanges(
            as: runner.subscriptionID,
            notBefore: runner.schedule.retryNotBefore,
            time: runner.time,
            random: runner.random
        )
        // Changes in the meantime were not reported.
        handle(.noticed(nil))
    }

    private func noticeReceived(_ event: NoticeMultiplexer.Event) {
        switch event {
        case .opened(let subscriptions):
            handle(.channelOpened)
            let isSubscribed = subscriptions?.contains(runner.subscriptionID) ?? true
            if !isSubscribed { inBackground { await $0.subscribeAgain() } }
        case .lost: handle(.channelLost)
        case .accountReplaced: credentialsReplaced()
        case .changed(nil, _): handle(.noticed(nil))
        case .changed(let zone?, let token):
            let (isNews, isKnown) = updateFeed { ($0.noticed(zone, token: token), $0.zoneTokens[zone] != nil) }
            guard isNews else { return }
            if isKnown, runner.round?.covers(zone) == true {
                _ = advance(.noticed(zone))
            } else {
                // A new zone is first reported by the database's feed.
                handle(.noticed(isKnown ? zone : nil))
            }
        }
    }

    /// Reports changes to the other engines and mirrors on the same connection, because the relay does not.
    package func notifyOtherListeners(_ zones: Set<ZoneID>) async {
        guard !zones.isEmpty, let multiplexer = try? runner.database.session.connection().notices else { return }
        await multiplexer.changed(zones, in: runner.database.scope, by: runner.listenerID)
    }
}
