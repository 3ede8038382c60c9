import Foundation
import Records
import SyncCore
import Wire

/// Performs the effects that `SyncCore` decides on, and delivers events to the delegate, one at a time.
///
/// Fetching and sending run concurrently, each one round at a time. The state contains everything a round has received
/// before the next event is delivered, and the event with the data always precedes the state that covers them.
actor SyncDriver {
    let link: any Link<CKRecord, CKRecordZone>
    let state: CKSyncEngine.State
    let database: CKDatabase
    let conditions: SyncConditions
    let subscriptionID: String
    private let isAutomatic: Bool

    private weak var delegate: (any CKSyncEngineDelegate)?
    private weak var engine: CKSyncEngine?
    private let delivery = Turnstile()
    private let fetchLane = Turnstile()
    let sendLane = Turnstile()
    let accountCheck = Turnstile()
    private var exchanges: [ZoneID: Turnstile] = [:]
    /// Locks the requests that create and delete zones.
    let zonesExchange = Turnstile()

    var chance: Chance
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
    private var alarm = 0
    private var sleeper: Task<Void, Never>?
    private var background: [Int: Task<Void, Never>] = [:]
    /// The cancel functions of the running requests.
    var requests: [Int: @Sendable () -> Void] = [:]
    /// The number of calls of `cancelOperations`.
    var cancellations = 0
    /// The value of `cancellations` when the running round was requested.
    var cancellationsBeforeRound: [Lane: Int] = [:]
    var lastTask = 0
    /// The tasks that run delegate code.
    ///
    /// A task that the delegate starts is not among them.
    private var delegateTasks: Set<Int> = []
    /// The ID of this engine's listener at the notice station.
    var listening: UUID?
    private(set) var isStopped = false
    private var savedStamp: UInt64 = 0
    /// The number of record names from fetches in the state that was last delivered.
    private var savedListing = 0
    /// For simulated test environments: the news counters at the start of the last fetch and at its success.
    private var newsAsked: UInt64 = 0
    private var newsSeen: UInt64 = 0

    init(
        _ configuration: CKSyncEngine.Configuration,
        link: any Link<CKRecord, CKRecordZone>,
        state: CKSyncEngine.State,
        conditions: SyncConditions
    ) {
        self.link = link
        self.state = state
        self.conditions = conditions
        database = configuration.database
        delegate = configuration.delegate
        isAutomatic = configuration.automaticallySync
        subscriptionID = configuration.subscriptionID ?? configuration.database.changesSubscriptionID
        chance = conditions.chance
        var settings = conditions.schedule
        settings.isAutomatic = configuration.automaticallySync
        let wait = state.read { $0.hold(at: conditions.wallClock()) }
        schedule = SyncSchedule(
            settings: settings,
            heldUntil: wait > 0 ? conditions.time.now() + .seconds(wait) : nil
        )
    }

    // MARK: Lifecycle

    func start(for engine: CKSyncEngine) async {
        self.engine = engine
        guard isAutomatic, !isStopped else { return }
        tell(.outboxChanged(isEmpty: !state.read(\.hasPending)))
        tell(.started)
        inBackground { await $0.listenForNotices() }
    }

    /// Sets the engine; a call of `fetchChanges` or `sendChanges` may precede `start`.
    func adopt(_ engine: CKSyncEngine) { self.engine = engine }

    func stop() async {
        isStopped = true
        alarm += 1
        sleeper?.cancel()
        background.values.forEach { $0.cancel() }
        // Wait for the event that is being delivered.
        await delivery.enter()
        delivery.leave()
        if let listening, let station = try? database.session.connection().notices {
            await station.stopListening(listening)
        }
    }

    /// Called when the app has changed the pending changes.
    func stateChanged() async {
        tell(.outboxChanged(isEmpty: !state.read(\.hasPending)))
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
        await delivery.enter()
        defer { delivery.leave() }
        guard !isStopped, let engine, let delegate, epoch == nil || epoch == accountEpoch else { return }
        await application {
            await CKSyncEngine.State.$beingTold.withValue(state) {
                await delegate.handleEvent(event, syncEngine: engine)
            }
        }
    }

    /// Delivers the state to the app if it has changed since the last time.
    func saveState() async {
        await delivery.enter()
        defer { delivery.leave() }
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
    func saveStateOfPage() async {
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

    func tell(_ event: SyncSchedule.Event) {
        guard !isStopped else { return }
        countNews(event)
        for effect in schedule.handle(event, at: conditions.time.now(), using: &chance) {
            switch effect {
            case .fetch(let asksDatabase, let held):
                inBackground { await $0.fetchOnSchedule(asksDatabase: asksDatabase, held: held) }
            case .send:
                let held = schedule.zonesHeldFromSending(at: conditions.time.now())
                inBackground { await $0.sendOnSchedule(held: held) }
            case .wake(let moment): wake(at: moment)
            }
        }
        if noteHold() { inBackground { await $0.saveState() } }
    }

    private func countNews(_ event: SyncSchedule.Event) {
        guard let surroundings = conditions.time.surroundings else { return }
        switch event {
        case .fetchBegan: newsAsked = surroundings.newsCount(ofPublic: false)
        case .fetchFinished(let outcome) where outcome.sawDatabase && outcome.zoneTroubles.isEmpty: newsSeen = newsAsked
        default: break
        }
    }

    /// Stores a delay that the relay requested in the state, so that it survives a restart.
    ///
    /// Returns `false` if the state already contains it.
    private func noteHold() -> Bool {
        let until = schedule.heldUntil.map { moment in
            conditions.wallClock().addingTimeInterval((moment - conditions.time.now()).inSeconds)
        }
        // The two clocks never agree exactly, so ignore small differences.
        let known = state.read(\.heldUntil)
        let drift = until.flatMap { until in known.map { abs(until.timeIntervalSince($0)) } }
        guard (drift ?? 0) > 1 || (until == nil) != (known == nil) else { return false }
        let wait = schedule.heldUntil.map { ($0 - conditions.time.now()).inSeconds }
        state.update { contents in
            contents.heldUntil = until
            contents.heldFor = wait
        }
        return true
    }

    private func wake(at moment: Moment?) {
        alarm += 1
        sleeper?.cancel()
        sleeper = nil
        guard let moment else { return }
        let (alarm, time) = (alarm, conditions.time)
        sleeper = time.start { [weak self] in
            guard (try? await time.sleep(moment)) != nil else { return }
            await self?.alarmRang(alarm)
        }
    }

    private func alarmRang(_ alarm: Int) {
        if alarm == self.alarm { tell(.timerFired) }
    }

    // MARK: Rounds

    /// Returns the lock that allows one exchange with the relay about a zone at a time, including its event.
    ///
    /// A page that was read after a save of this device but delivered before its confirmation would look like a
    /// conflict with that save. A page that was read before the save but delivered after it would restore an old
    /// version. Neither would be corrected later, since the relay sends no notice about the device's own changes.
    func exchange(_ zone: ZoneID) -> Turnstile {
        if let known = exchanges[zone] { return known }
        let made = Turnstile()
        exchanges[zone] = made
        return made
    }

    /// Returns when all requests sent so far have been answered and their events delivered.
    func awaitExchanges() async {
        for exchange in Array(exchanges.values) + [zonesExchange] {
            await exchange.enter()
            exchange.leave()
        }
    }

    func withFetchLane<Result: Sendable>(_ work: () async throws -> Result) async rethrows -> Result {
        let cancellations = cancellations
        await fetchLane.enter()
        defer { fetchLane.leave() }
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

extension SyncDriver: Settling {
    func unsettled() -> [String] {
        guard isAutomatic, !isStopped else { return [] }
        let name = "The engine of the \(database.scope.pathName) database"
        if let unfinished = schedule.unfinished { return ["\(name) \(unfinished)."] }
        let generation = try? database.session.connection().credentials.current.generation
        if generation != checkedAccount, generation != refusedAccount {
            return ["\(name) has not checked which user is signed in."]
        }
        guard !schedule.isChannelOpen, let world = conditions.time.surroundings,
            newsSeen < world.newsCount(ofPublic: false)
        else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}
