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
    package var round: FetchRound?
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
        seenChanges = SeenChanges(in: conditions.time.testEnvironment, inPublic: database.databaseScope == .public)
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

    /// Called when a poll of a public database begins, and when it has returned everything.
    package mutating func pollBegan() { seenChanges.began() }
    package mutating func pollSucceeded() { seenChanges.succeeded() }

    /// Whether there is a change that no successful fetch or poll has covered; `false` outside tests.
    package var hasMissedChanges: Bool { seenChanges.isIncomplete }
}

/// What a round of fetching has done so far.
package protocol FetchRoundProgress {
    /// The errors by zone; the key `nil` stands for the database.
    var errors: [ZoneID?: CKError] { get set }
}

/// An answer to a request of a fetch round.
private enum Arrival<ZoneAnswer: Sendable>: Sendable {
    case database(Result<DatabasePage, CKError>)
    case zone(ZoneID, ZoneAnswer)
}

extension CKError {
    /// Returns how to retry after a failed import, such as one caused by a full disk or a cancelled task.
    ///
    /// The relay did not report this failure, so the page is fetched again without waiting for the next notice.
    package func ofImport(_ kind: SyncFailure.Kind) -> SyncFailure {
        syncFailure.isRetriedAutomatically ? syncFailure : SyncFailure(kind)
    }
}

/// What a round of sending has done so far.
package protocol SendRoundProgress {
    var outcome: SyncSchedule.SendOutcome { get set }
    /// The error that ended the round.
    var error: CKError? { get set }
    /// Busy zones; nothing more is sent to them in this round.
    var busyZones: Set<ZoneID> { get set }
    /// The error of the first busy zone.
    var busy: CKError? { get set }
    /// The zones in which something was saved or deleted.
    var changedZones: Set<ZoneID> { get }
}

extension SendRoundProgress {
    /// Adds an error after which the loop retries: a busy zone blocks only itself; any other error ends the round.
    package mutating func retryLater(_ error: CKError, in zone: ZoneID? = nil) {
        guard let zone, error.syncFailure.kind == .zoneBusy else { return self.error = self.error ?? error }
        busyZones.insert(zone)
        outcome.zoneFailures[zone] = error.syncFailure
        busy = busy ?? error
    }
}

/// What a sync loop drives: the delegate of an engine, or a mirrored store.
package protocol SyncTarget: PendingWorkReporting, Actor {
    /// An answer to a request for a page of a zone's feed.
    associatedtype ZoneAnswer: Sendable
    /// What a fetch round has done so far.
    associatedtype FetchProgress: FetchRoundProgress
    /// What a round of sending has done so far.
    associatedtype SendProgress: SendRoundProgress

    var runner: SyncRunner { get set }

    /// Called if the credentials of this generation identify no user.
    ///
    /// Returns if requests without a user are allowed.
    func userIsMissing(_ generation: Int) async throws

    /// Called with the signed-in user's record name, and the generation of the credentials.
    func userIsKnown(_ name: String, _ generation: Int) async throws

    /// Called when the relay rejects the user's credentials.
    func userIsRefused() async throws

    /// Called when the account could not be checked.
    func accountCheckFailed(_ error: CKError) async

    /// Fetches all changes except those of the zones in `backingOff`.
    func fetchChanges(asksDatabase: Bool, backingOff: Set<ZoneID>) async throws

    /// Sends all changes except those of the zones in `backingOff`.
    func sendChanges(backingOff: Set<ZoneID>) async throws

    /// Sends what `sendRound` was called for, and stores and reports the results.
    func send(_ progress: inout SendProgress) async

    /// Called when the schedule knows the end of a round.
    func sendEnded(_ progress: SendProgress) async

    /// Requests a page of the database's feed.
    func databasePage(since token: SyncToken?) async throws -> DatabasePage

    /// Returns the zones that a full listing of the database must contain, besides those with a token.
    func knownZones() async -> Set<ZoneID>

    /// Applies a page of the database's feed with its token.
    ///
    /// `returned` are zones that were missing at the last request and exist again.
    func apply(_ page: DatabasePage, returned: Set<ZoneID>, _ progress: inout FetchProgress) async throws

    /// Requests a page of a zone's feed, with the zone's lock held.
    func zonePage(_ zone: ZoneID, since token: SyncToken?) async -> ZoneAnswer

    /// Applies a page of a zone with its token, with the zone's lock held, and then tells the round.
    func apply(_ answer: ZoneAnswer, of zone: ZoneID, _ progress: inout FetchProgress) async -> [FetchRound.Effect]

    /// Called when an answer has been applied.
    func answerApplied() async

    func zoneBegins(_ zone: ZoneID, _ progress: FetchProgress) async
    /// Called before the first page of a zone is requested that lists the zone from its beginning.
    func listingBegins(_ zone: ZoneID)
    func zoneEnded(_ zone: ZoneID, _ failure: SyncFailure?, _ progress: FetchProgress) async

    /// Returns whether a round still works for the current user.
    func isCurrent(_ progress: FetchProgress) -> Bool

    /// Reads and changes the state of the feeds.
    func updateFeed<Result>(_ body: (inout FeedState) -> Result) -> Result

    /// Returns the token for the hello of the notice connection.
    nonisolated var databaseToken: @Sendable () -> SyncToken? { get }

    /// Called after the schedule has handled an event.
    func scheduleChanged()

    /// Called at the time of `pollWake`.
    func pollIsDue()

    /// Called when requests are made as another user from now on.
    func credentialsReplaced()

    /// Returns how to retry after an error.
    nonisolated func syncFailure(of error: CKError) -> SyncFailure

    /// Tells the app why automatic work has failed.
    ///
    /// If `isReported`, a round has failed, which has reported its end itself.
    func tell(_ error: CKError, of lane: SyncRunner.Lane, isReported: Bool) async
}

extension SyncTarget {
    package func scheduleChanged() {}
    package func pollIsDue() {}
    package func zoneBegins(_ zone: ZoneID, _ progress: FetchProgress) async {}
    package func listingBegins(_ zone: ZoneID) {}
    package func zoneEnded(_ zone: ZoneID, _ failure: SyncFailure?, _ progress: FetchProgress) async {}
    package func isCurrent(_ progress: FetchProgress) -> Bool { true }
    package func answerApplied() async {}
    package func userIsRefused() async throws {}
    package func accountCheckFailed(_ error: CKError) async {}
    package nonisolated func syncFailure(of error: CKError) -> SyncFailure { error.syncFailure }

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
        let epoch: Int
        do {
            try await checkAccount()
            epoch = runner.accountEpoch
        } catch {
            let error = CKError(from: error)
            var outcome = FetchRound.Outcome()
            outcome.syncFailure = syncFailure(of: error)
            handle(.fetchFinished(outcome))
            return await report(error, of: .fetching)
        }
        do {
            try await fetchChanges(asksDatabase: asksDatabase, backingOff: backingOff)
            runner.failures.succeeded()
        } catch {
            if epoch == runner.accountEpoch { await report(CKError(from: error), of: .fetching, isReported: true) }
        }
    }

    package func sendOnSchedule(backingOff: Set<ZoneID>) async {
        let epoch: Int
        do {
            try await checkAccount()
            epoch = runner.accountEpoch
        } catch {
            let error = CKError(from: error)
            handle(.sendFinished(.init(syncFailure: syncFailure(of: error))))
            return await report(error, of: .sending)
        }
        do {
            try await sendChanges(backingOff: backingOff)
            runner.failures.succeeded()
        } catch {
            if epoch == runner.accountEpoch { await report(CKError(from: error), of: .sending, isReported: true) }
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
    package func inLane<Result: Sendable>(
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

    // MARK: Fetch rounds

    /// Runs one round of fetching, and returns its outcome when all answers have been applied.
    package func run(_ round: FetchRound, _ progress: inout FetchProgress) async -> FetchRound.Outcome {
        var outcome = FetchRound.Outcome()
        runner.round = round
        await withTaskGroup(of: Arrival<ZoneAnswer>.self) { group in
            var effects = advance(.began)
            while true {
                for effect in effects where isCurrent(progress) {
                    switch effect {
                    case .askDatabase(let token): group.addTask { .database(await self.askDatabase(since: token)) }
                    case .zoneBegins(let zone): await zoneBegins(zone, progress)
                    case .askZone(let zone, let token):
                        if token == nil { listingBegins(zone) }
                        group.addTask { .zone(zone, await self.ask(zone, since: token)) }
                    case .zoneEnded(let zone, let failure): await zoneEnded(zone, failure, progress)
                    case .finished(let end): outcome = end
                    }
                }
                guard let arrival = await group.next() else { break }
                effects = await apply(arrival, &progress)
                await answerApplied()
            }
        }
        runner.round = nil
        return outcome
    }

    private func askDatabase(since token: SyncToken?) async -> Result<DatabasePage, CKError> {
        do {
            return .success(try await databasePage(since: token))
        } catch {
            return .failure(CKError(from: error))
        }
    }

    /// Acquires the zone's lock, which is released when the answer has been applied.
    private func ask(_ zone: ZoneID, since token: SyncToken?) async -> ZoneAnswer {
        await lock(of: zone).enter()
        return await zonePage(zone, since: token)
    }

    private func apply(_ arrival: Arrival<ZoneAnswer>, _ progress: inout FetchProgress) async -> [FetchRound.Effect] {
        defer {
            if case .zone(let zone, _) = arrival { lock(of: zone).leave() }
        }
        guard isCurrent(progress) else { return [] }
        switch arrival {
        case .database(.success(var page)):
            let changed = page.changed
            let returned = updateFeed { $0.vanished.intersection(changed) }
            await addMissingDeletions(&page)
            do {
                try await apply(page, returned: returned, &progress)
            } catch {
                let error = CKError(from: error)
                progress.errors[nil] = error
                return advance(.databaseFailed(error.ofImport(.busy)))
            }
            return advance(
                .databasePage(
                    changed: page.changed,
                    deleted: page.deleted.map(\.zone),
                    token: page.token,
                    moreComing: page.moreComing
                )
            )
        case .database(.failure(let error)):
            progress.errors[nil] = error
            return advance(.databaseFailed(error.syncFailure))
        case .zone(let zone, let answer): return await apply(answer, of: zone, &progress)
        }
    }

    /// Adds the deletions that a full listing omits, and waits for running requests about deleted zones.
    private func addMissingDeletions(_ page: inout DatabasePage) async {
        var known: Set<ZoneID> = []
        if !page.moreComing, updateFeed({ $0.listing != nil }) {
            await awaitZoneLocks()
            known = await knownZones()
        }
        let (changed, moreComing) = (page.changed, page.moreComing)
        let missing = updateFeed { $0.missing(after: changed, moreComing: moreComing, besides: known) }
        page.deleted += missing.filter { !page.deleted.map(\.zone).contains($0) }.map { ($0, .deleted) }
        for (zone, _) in page.deleted {
            // The answer to a request that was sent before the deletion would bring the zone's records back.
            await lock(of: zone).enter()
            lock(of: zone).leave()
        }
    }

    package func advance(_ event: FetchRound.Event) -> [FetchRound.Effect] {
        guard var round = runner.round else { return [] }
        defer { runner.round = round }
        return updateFeed { round.handle(event, state: &$0) }
    }

    // MARK: Rounds of sending

    /// Runs one round of sending; the caller is in the lane.
    package func sendRound(_ progress: inout SendProgress) async {
        handle(.sendBegan)
        await send(&progress)
        progress.outcome.syncFailure = progress.error?.syncFailure
        handle(.sendFinished(progress.outcome))
        await sendEnded(progress)
        await notifyOtherListeners(progress.changedZones)
    }

    /// Sends one zone's changes in as many requests as the limits require.
    ///
    /// Ends when the user changes. `send` returns the changes to send again at once, perhaps in smaller requests; `nil`
    /// ends the zone's part in the round.
    package func sendRequests<Item: Sendable>(
        _ requests: [[Item]],
        split: (BatchLimits, [Item]) -> [[Item]],
        _ send: ([Item]) async throws -> [Item]?
    ) async rethrows {
        let epoch = runner.accountEpoch
        var waiting = requests[...]
        while epoch == runner.accountEpoch, let request = waiting.popFirst() {
            guard let rest = try await send(request) else { return }
            if !rest.isEmpty { waiting = split(runner.limits, rest + waiting.joined())[...] }
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
