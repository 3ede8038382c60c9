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
    var runner: SyncRunner

    private weak var delegate: (any CKSyncEngineDelegate)?
    private weak var engine: CKSyncEngine?
    private let deliveryLock = AsyncLock()
    /// The tasks that run delegate code.
    ///
    /// A task that the delegate starts is not among them.
    private var delegateTasks: Set<Int> = []
    private var savedStamp: UInt64 = 0
    /// The number of record names from fetches in the state that was last delivered.
    private var savedListing = 0

    init(_ configuration: CKSyncEngine.Configuration, state: CKSyncEngine.State, conditions: SyncConditions) {
        self.state = state
        self.conditions = conditions
        database = configuration.database.repeatingRequests
        delegate = configuration.delegate
        runner = SyncRunner(
            of: database,
            conditions,
            isAutomatic: configuration.automaticallySync,
            subscriptionID: configuration.subscriptionID
        )
        runner.hold(for: state.read { $0.remainingDelay(at: conditions.wallClock()) })
    }

    // MARK: Lifecycle

    func start(for engine: CKSyncEngine) async {
        self.engine = engine
        guard runner.isAutomatic, !isStopped else { return }
        handle(.outboxChanged(isEmpty: !state.read(\.hasPending)))
        handle(.started)
        inBackground { await $0.listenForNotices() }
    }

    /// Sets the engine; a call of `fetchChanges` or `sendChanges` may precede `start`.
    func adopt(_ engine: CKSyncEngine) { self.engine = engine }

    func stop() async {
        _ = stopLoop()
        // Wait for the event that is being delivered.
        await deliveryLock.enter()
        deliveryLock.leave()
        await stopListening()
    }

    /// Called when the app has changed the pending changes.
    func stateChanged() async {
        handle(.outboxChanged(isEmpty: !state.read(\.hasPending)))
        inBackground { await $0.saveState() }
    }

    // MARK: Delivering events to the delegate

    /// Delivers an event, after all earlier events.
    ///
    /// With an `epoch`, does nothing if the user has changed since that epoch.
    func deliver(_ event: CKSyncEngine.Event, of epoch: Int? = nil) async {
        await deliveryLock.enter()
        defer { deliveryLock.leave() }
        guard !isStopped, let engine, let delegate, epoch == nil || epoch == runner.accountEpoch else { return }
        await application {
            await CKSyncEngine.State.$stateBeingDelivered.withValue(state) {
                await delegate.handleEvent(event, syncEngine: engine)
            }
        }
    }

    func tell(_ error: CKError, of lane: SyncRunner.Lane, isReported: Bool) async {
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
}

extension SyncDriver: SyncTarget {
    /// Stores a delay that the relay requested in the state, so that it survives a restart.
    func scheduleChanged() {
        guard let delay = runner.newRetryDelay(known: state.read(\.heldUntil)) else { return }
        state.update { contents in
            contents.heldUntil = delay.until
            contents.heldFor = delay.seconds
        }
        inBackground { await $0.saveState() }
    }

    func updateFeed<Result>(_ body: (inout FeedState) -> Result) -> Result { state.update { body(&$0.feed) } }

    nonisolated var databaseToken: @Sendable () -> SyncToken? {
        let state = state
        return { state.read(\.feed.databaseToken) }
    }

    /// After a reset of the user's key, or with the wrong one, only the user knows which it is, so nothing is deleted.
    nonisolated func syncFailure(of error: CKError) -> SyncFailure {
        error.reportsKeyReset ? SyncFailure(.refused) : error.syncFailure
    }

    func credentialsReplaced() { inBackground { await $0.recheckAccount() } }

    func pendingWork() -> [String] {
        guard runner.isAutomatic, !isStopped else { return [] }
        let name = "The engine of the \(database.scope.pathName) database"
        if let unfinished = runner.schedule.unfinished { return ["\(name) \(unfinished)."] }
        let generation = try? database.session.connection().credentials.current.generation
        if generation != runner.checkedGeneration, generation != runner.refusedGeneration {
            return ["\(name) has not checked which user is signed in."]
        }
        guard !runner.schedule.isChannelOpen, runner.hasMissedChanges else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}

/// Handles a change of the user.
extension SyncDriver {
    func userIsMissing(_ generation: Int) async throws {
        if let previous = state.read(\.user) { await accountChanged(from: previous, to: nil) }
        throw CKError(.notAuthenticated, "No user is signed in.")
    }

    func userIsKnown(_ name: String, _ generation: Int) async {
        let previous = state.read(\.user)
        if name != previous { await accountChanged(from: previous, to: name) }
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

    private func accountChanged(from previous: String?, to current: String?) async {
        state.update { contents in
            // Changes that were added before any sign-in belong to the first user who signs in; any other user starts
            // with an empty state.
            if previous != nil { contents = .init(stamp: contents.stamp, isShared: contents.isShared) }
            contents.user = current
        }
        if previous != nil {
            // A round in progress belongs to the previous user and must change nothing from now on.
            runner.accountEpoch += 1
            runner.round = nil
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

/// Requests that can be cancelled.
extension SyncDriver {
    /// Runs a request of a round in its own task, only as the user for whom the round was started.
    func cancellable<Result: Sendable>(
        _ lane: SyncRunner.Lane,
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard !isRoundCancelled(lane) else { throw CancellationError() }
        return try await cancellable(work)
    }

    /// Runs a request that belongs to no round in its own task.
    func cancellable<Result: Sendable>(
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let binding = try runner.checkedGeneration.map {
            AccountBinding(try database.session.connection(), generation: $0)
        }
        return try await cancellable(as: binding, work)
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
