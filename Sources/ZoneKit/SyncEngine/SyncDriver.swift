import Foundation
import Records
import SyncCore
import Wire

/// Performs the effects that `SyncCore` decides on, and delivers events to the delegate, one at a time.
///
/// Fetching and sending run concurrently, each one round at a time. The state contains everything a round has received
/// before the next event is delivered, and the event with the data always precedes the state that covers them.
actor SyncDriver {
    let state: CKSyncEngine.State
    let database: CKDatabase
    let conditions: SyncConditions
    let subscriptionID: String
    private let isAutomatic: Bool

    private weak var delegate: (any CKSyncEngineDelegate)?
    private weak var engine: CKSyncEngine?
    private let deliveryLock = AsyncLock()
    private let fetchLock = AsyncLock()
    let sendLock = AsyncLock()
    let accountLock = AsyncLock()
    private var zoneLocks: [ZoneID: AsyncLock] = [:]
    /// Locks the requests that create and delete zones.
    let zoneListLock = AsyncLock()

    var random: RandomGenerator
    var limits = BatchLimits()
    private var schedule: SyncSchedule
    var round: FetchRound?
    /// The generation of the credentials for which the user was checked.
    var checkedAccount: Int?
    /// The generation of the credentials that the relay rejected.
    var refusedAccount: Int?
    /// Increases with each change of the user.
    ///
    /// Results of work that began in an earlier epoch are discarded.
    var accountEpoch = 0
    private var timerID = 0
    private var timerTask: Task<Void, Never>?
    private var background: [Int: Task<Void, Never>] = [:]
    /// The cancel functions of the running requests.
    var requests: [Int: @Sendable () -> Void] = [:]
    /// The number of calls of `cancelOperations`.
    var cancellations = 0
    /// The value of `cancellations` when the running round was requested.
    var cancellationsBeforeRound: [Direction: Int] = [:]
    var lastTask = 0
    /// The tasks that run delegate code.
    ///
    /// A task that the delegate starts is not among them.
    private var delegateTasks: Set<Int> = []
    /// The ID of this engine's listener at the notice multiplexer.
    var listenerID: UUID?
    private(set) var isStopped = false
    private var savedStamp: UInt64 = 0
    /// The number of record names from fetches in the state that was last delivered.
    private var savedListing = 0
    private var seenChanges: SeenChanges
    private let failures: FailureLog

    init(
        _ configuration: CKSyncEngine.Configuration,
        state: CKSyncEngine.State,
        conditions: SyncConditions
    ) {
        self.state = state
        self.conditions = conditions
        database = configuration.database.repeatingRequests
        delegate = configuration.delegate
        failures = FailureLog(of: configuration.database, conditions.log)
        isAutomatic = configuration.automaticallySync
        subscriptionID = configuration.subscriptionID ?? configuration.database.changesSubscriptionID
        random = conditions.random
        seenChanges = SeenChanges(in: conditions.time.testEnvironment, inPublic: false)
        var settings = conditions.schedule
        settings.isAutomatic = configuration.automaticallySync
        let wait = state.read { $0.remainingDelay(at: conditions.wallClock()) }
        schedule = SyncSchedule(
            settings: settings,
            retryNotBefore: wait > 0 ? conditions.time.now() + .seconds(wait) : nil
        )
    }

    // MARK: Lifecycle

    func start(for engine: CKSyncEngine) async {
        self.engine = engine
        guard isAutomatic, !isStopped else { return }
        handle(.outboxChanged(isEmpty: !state.read(\.hasPending)))
        handle(.started)
        inBackground { await $0.listenForNotices() }
    }

    /// Sets the engine; a call of `fetchChanges` or `sendChanges` may precede `start`.
    func adopt(_ engine: CKSyncEngine) { self.engine = engine }

    func stop() async {
        isStopped = true
        timerID += 1
        timerTask?.cancel()
        background.values.forEach { $0.cancel() }
        // Wait for the event that is being delivered.
        await deliveryLock.enter()
        deliveryLock.leave()
        if let listenerID, let multiplexer = try? database.session.connection().notices {
            await multiplexer.stopListening(listenerID)
        }
    }

    /// Called when the app has changed the pending changes.
    func stateChanged() async {
        handle(.outboxChanged(isEmpty: !state.read(\.hasPending)))
        inBackground { await $0.saveState() }
    }

    func inBackground(_ work: @escaping @Sendable (SyncDriver) async -> Void) {
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

    // MARK: Delivering events to the delegate

    /// Delivers an event, after all earlier events.
    ///
    /// With an `epoch`, does nothing if the user has changed since that epoch.
    func deliver(_ event: CKSyncEngine.Event, of epoch: Int? = nil) async {
        await deliveryLock.enter()
        defer { deliveryLock.leave() }
        guard !isStopped, let engine, let delegate, epoch == nil || epoch == accountEpoch else { return }
        await application {
            await CKSyncEngine.State.$stateBeingDelivered.withValue(state) {
                await delegate.handleEvent(event, syncEngine: engine)
            }
        }
    }

    /// Reports the end of automatic work to the log and to the delegate.
    ///
    /// Work that ended because the user has changed since `epoch` is no failure.
    func report(_ error: CKError?, of epoch: Int) async {
        guard let error else { return failures.succeeded() }
        guard epoch == accountEpoch, failures.failed(error) else { return }
        await deliveryLock.enter()
        defer { deliveryLock.leave() }
        guard !isStopped, let engine, let delegate else { return }
        await application { await delegate.handleFailure(error, syncEngine: engine) }
    }

    /// Delivers the state to the app if it has changed since the last time.
    func saveState() async {
        await deliveryLock.enter()
        defer { deliveryLock.leave() }
        guard !isStopped, state.read(\.stamp) != savedStamp, let engine, let delegate else { return }
        let (serialization, stamp, listed) = state.read {
            (CKSyncEngine.State.Serialization($0), $0.stamp, $0.listedCount)
        }
        (savedStamp, savedListing) = (stamp, listed)
        await application {
            await delegate.handleEvent(.stateUpdate(.init(stateSerialization: serialization)), syncEngine: engine)
        }
    }

    /// Delivers the state after a page; during a long listing not after every page.
    ///
    /// The state contains all record names of the listing, so delivering it with every page would cost quadratic time.
    /// After a restart at most an eighth of the listing is delivered again.
    func saveStateAfterPage() async {
        let growth = state.read(\.listedCount) - savedListing
        if growth <= 0 || growth * 8 >= savedListing { await saveState() }
    }

    func ask<Answer>(
        _ question: (any CKSyncEngineDelegate, CKSyncEngine) async -> Answer?
    ) async -> Answer? {
        guard !isStopped, let engine, let delegate else { return nil }
        return await application { await question(delegate, engine) }
    }

    /// Runs code of the delegate.
    private func application<Answer>(_ work: () async -> Answer) async -> Answer {
        let task = Self.currentTask
        delegateTasks.insert(task)
        defer { delegateTasks.remove(task) }
        return await conditions.time.application { await work() }
    }

    private static var currentTask: Int { withUnsafeCurrentTask { $0?.hashValue ?? 0 } }

    /// Throws if called by the delegate, because the engine and the delegate would wait for each other.
    func requireOutsideOfDelegate(_ call: String) throws(CKError) {
        guard !delegateTasks.contains(Self.currentTask) else {
            throw CKError(
                .invalidArguments,
                "The engine waits for its delegate, so the delegate cannot wait for \(call). Start a task for it."
            )
        }
    }

    // MARK: Schedule

    func handle(_ event: SyncSchedule.Event) {
        guard !isStopped else { return }
        seenChanges.handle(event)
        for effect in schedule.handle(event, at: conditions.time.now(), using: &random) {
            switch effect {
            case .fetch(let asksDatabase, let backingOff):
                inBackground { await $0.fetchOnSchedule(asksDatabase: asksDatabase, backingOff: backingOff) }
            case .send:
                let backingOff = schedule.zonesBackingOffFromSending(at: conditions.time.now())
                inBackground { await $0.sendOnSchedule(backingOff: backingOff) }
            case .wake(let instant): wake(at: instant)
            }
        }
        if storeRetryDelay() { inBackground { await $0.saveState() } }
    }

    /// Stores a delay that the relay requested in the state, so that it survives a restart.
    ///
    /// Returns `false` if the state already contains it.
    private func storeRetryDelay() -> Bool {
        let until = schedule.retryNotBefore.map { instant in
            conditions.wallClock().addingTimeInterval((instant - conditions.time.now()).inSeconds)
        }
        // The two clocks never agree exactly, so ignore small differences.
        let known = state.read(\.heldUntil)
        let drift = until.flatMap { until in known.map { abs(until.timeIntervalSince($0)) } }
        guard (drift ?? 0) > 1 || (until == nil) != (known == nil) else { return false }
        let wait = schedule.retryNotBefore.map { ($0 - conditions.time.now()).inSeconds }
        state.update { contents in
            contents.heldUntil = until
            contents.heldFor = wait
        }
        return true
    }

    private func wake(at instant: Instant?) {
        timerID += 1
        timerTask?.cancel()
        timerTask = nil
        guard let instant else { return }
        let (timerID, time) = (timerID, conditions.time)
        timerTask = time.start { [weak self] in
            guard (try? await time.sleep(instant)) != nil else { return }
            await self?.timerDidFire(timerID)
        }
    }

    private func timerDidFire(_ timerID: Int) {
        if timerID == self.timerID { handle(.timerFired) }
    }

    // MARK: Rounds

    /// Returns the lock that allows one exchange with the relay about a zone at a time, including its event.
    ///
    /// A page that was read after a save of this device but delivered before its confirmation would look like a
    /// conflict with that save. A page that was read before the save but delivered after it would restore an old
    /// version. Neither would be corrected later, since the relay sends no notice about the device's own changes.
    func zoneLock(_ zone: ZoneID) -> AsyncLock {
        if let known = zoneLocks[zone] { return known }
        let made = AsyncLock()
        zoneLocks[zone] = made
        return made
    }

    /// Returns when all requests sent so far have been answered and their events delivered.
    func awaitZoneLocks() async {
        for zoneLock in Array(zoneLocks.values) + [zoneListLock] {
            await zoneLock.enter()
            zoneLock.leave()
        }
    }

    func withFetchLock<Result: Sendable>(_ work: () async throws -> Result) async rethrows -> Result {
        let cancellations = cancellations
        await fetchLock.enter()
        defer { fetchLock.leave() }
        cancellationsBeforeRound[.fetching] = cancellations
        return try await work()
    }

    func begin(_ round: FetchRound) -> [FetchRound.Effect] {
        self.round = round
        return advance(.began)
    }

    func advance(_ event: FetchRound.Event) -> [FetchRound.Effect] {
        guard var round else { return [] }
        defer { self.round = round }
        return state.update { round.handle(event, state: &$0.feed) }
    }

    func endRound() { round = nil }
}

extension SyncDriver: PendingWorkReporting {
    func pendingWork() -> [String] {
        guard isAutomatic, !isStopped else { return [] }
        let name = "The engine of the \(database.scope.pathName) database"
        if let unfinished = schedule.unfinished { return ["\(name) \(unfinished)."] }
        let generation = try? database.session.connection().credentials.current.generation
        if generation != checkedAccount, generation != refusedAccount {
            return ["\(name) has not checked which user is signed in."]
        }
        guard !schedule.isChannelOpen, seenChanges.isIncomplete else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}

/// Checks the user before each fetch and send, and handles a change of the user.
extension SyncDriver {
    /// Checks which user is signed in, before each fetch and send and after a change of the credentials.
    func checkAccount() async throws {
        await accountLock.enter()
        defer { accountLock.leave() }
        let connection = try database.session.connection()
        let generation = connection.credentials.current.generation
        guard checkedAccount != generation else { return }
        let previous = state.read(\.user)
        guard connection.credentials.identifiesUser else {
            // This is known without a request, so the app is informed even without a network.
            refusedAccount = generation
            if previous != nil { await accountChanged(from: previous, to: nil) }
            throw CKError(.notAuthenticated, "No user is signed in.")
        }
        do {
            // Ask as the current sign-in, even if a round of the previous user has led to this call.
            let name = try await AccountBinding.$current.withValue(nil) { try await database.client.callerName() }
            if name != previous { await accountChanged(from: previous, to: name) }
            // Set last, so that work still running for the previous user is not mistaken for the new user's.
            checkedAccount = generation
            await connection.notices.accountIsUsable(generation: generation)
        } catch {
            // An expired or rejected sign-in does not identify another user; the user's data stay pending.
            if CKError(from: error).code == .notAuthenticated { refusedAccount = generation }
            throw error
        }
    }

    /// Checks which user is signed in and continues for that user.
    ///
    /// If the check fails for a temporary reason, the next round repeats it. If no user is signed in or the relay
    /// rejects the credentials, the schedule waits for another sign-in.
    func recheckAccount() async {
        do {
            try await checkAccount()
            handle(.accountChanged(isUsable: true))
        } catch {
            handle(.accountChanged(isUsable: CKError(from: error).code != .notAuthenticated))
        }
    }

    /// Throws if the user has changed since a round began, so that an abandoned round does not report success.
    func requireSameUser(since epoch: Int) throws(CKError) {
        guard epoch == accountEpoch else {
            throw CKError(.accountTemporarilyUnavailable, "Another user has signed in since this operation began.")
        }
    }

    private func accountChanged(from previous: String?, to current: String?) async {
        state.update { contents in
            // Changes that were added before any sign-in belong to the first user who signs in; any other user starts
            // with an empty state.
            if previous != nil { contents = .init(stamp: contents.stamp, isShared: contents.isShared) }
            contents.user = current
        }
        if previous != nil {
            // A round in progress belongs to the previous user and must change nothing from now on.
            accountEpoch += 1
            round = nil
        }
        let before = previous.map { CKRecord.ID(recordName: $0) }
        let now = current.map { CKRecord.ID(recordName: $0) }
        switch (before, now) {
        case (nil, let now?): await deliver(.accountChange(.init(changeType: .signIn(currentUser: now))))
        case (let before?, nil): await deliver(.accountChange(.init(changeType: .signOut(previousUser: before))))
        case (let before?, let now?):
            await deliver(.accountChange(.init(changeType: .switchAccounts(previousUser: before, currentUser: now))))
        case (nil, nil): break
        }
        await saveState()
    }
}

/// Cancellation of rounds.
extension SyncDriver {
    /// Fetching and sending run concurrently; each of them runs one round at a time.
    enum Direction { case fetching, sending }

    /// Cancels the running rounds and those that wait.
    ///
    /// A round that is waiting for its delegate ends before its next request.
    func cancelOperations() {
        cancellations += 1
        requests.values.forEach { $0() }
    }

    /// Returns whether the current round of this kind was cancelled.
    func isRoundCancelled(_ direction: Direction) -> Bool { cancellationsBeforeRound[direction] != cancellations }

    /// Runs a request of a round in its own task, so that `cancelOperations` can cancel it.
    ///
    /// The request is sent only as the user for whom the round was started.
    func cancellable<Result: Sendable>(
        _ direction: Direction,
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard !isRoundCancelled(direction) else { throw CancellationError() }
        return try await cancellable(work)
    }

    /// Runs a request that belongs to no round in its own task.
    func cancellable<Result: Sendable>(
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        lastTask += 1
        let id = lastTask
        let binding = try checkedAccount.map { AccountBinding(try database.session.connection(), generation: $0) }
        let task: Task<Result, any Error> = conditions.time.start {
            try await AccountBinding.$current.withValue(binding) { try await work() }
        }
        requests[id] = { task.cancel() }
        defer { requests[id] = nil }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}

/// Receiving notices, and reporting changes to the other engines on the same connection.
extension SyncDriver {
    func listenForNotices() async {
        guard let connection = await database.session.connectionOnceConfigured(), !isStopped else { return }
        let (database, state, conditions, subscriptionID) = (database, state, conditions, subscriptionID)
        listenerID = await connection.notices.listen(
            to: database.scope,
            over: connection,
            time: conditions.time,
            random: conditions.random,
            databaseToken: { state.read(\.feed.databaseToken) },
            deliver: { [weak self] in await self?.noticeReceived($0) },
            after: {
                await database.subscribeToChanges(as: subscriptionID, time: conditions.time, random: conditions.random)
            }
        )
        if isStopped, let listenerID { await connection.notices.stopListening(listenerID) }
    }

    /// Creates the subscription again, because the relay does not know it and would send no notices.
    ///
    /// This happens after a change of the user, and after the relay was restored from a backup.
    private func subscribeAgain() async {
        await database.subscribeToChanges(as: subscriptionID, time: conditions.time, random: conditions.random)
        // Changes in the meantime were not reported.
        handle(.noticed(nil))
    }

    private func noticeReceived(_ event: NoticeMultiplexer.Event) {
        switch event {
        case .opened(let subscriptions):
            handle(.channelOpened)
            let isSubscribed = subscriptions?.contains(subscriptionID) ?? true
            if !isSubscribed { inBackground { await $0.subscribeAgain() } }
        case .lost: handle(.channelLost)
        case .accountReplaced: inBackground { await $0.recheckAccount() }
        case .changed(nil, _): handle(.noticed(nil))
        case .changed(let zone?, let token):
            let (isNews, isKnown) = state.update { contents in
                (contents.feed.noticed(zone, token: token), contents.feed.zoneTokens[zone] != nil)
            }
            guard isNews else { return }
            if isKnown, let round, round.covers(zone) {
                _ = state.update { self.round?.handle(.noticed(zone), state: &$0.feed) }
            } else {
                // An unknown zone must first appear in the database's feed, which reports it to the app.
                handle(.noticed(isKnown ? zone : nil))
            }
        }
    }

    /// Reports changes of this engine to the other engines on the same connection, because the relay does not.
    func notifyOtherEngines(_ zones: Set<ZoneID>) async {
        guard !zones.isEmpty, let multiplexer = try? database.session.connection().notices else { return }
        await multiplexer.changed(zones, in: database.scope, by: listenerID)
    }
}

// Where planted faults take effect in this module. See `PlantedFault`.

extension AccountBinding {
    /// Whether work that started for one sign-in is prevented from continuing as another user.
    static var isEnforced: Bool { !PlantedFault.sentForAnother.isPlanted }
}

extension SyncDriver {
    /// Called before the app receives a page.
    ///
    /// Does nothing unless a fault is planted.
    func beforeDelivery(of page: ZonePage<CKRecord>, in zone: ZoneID) async {
        guard PlantedFault.tokenBeforeData.isPlanted else { return }
        state.update { $0.feed.zoneTokens[zone] = page.token }
        await saveState()
    }
}
