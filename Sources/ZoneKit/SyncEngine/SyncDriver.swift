import Foundation
import Records
import SyncCore
import Wire

/// The engine's shell: performs what `SyncCore` decides, and tells the delegate, one event at a time.
///
/// Fetching and sending go on side by side, each one round at a time. Everything a round has learned is in the state
/// before the next event, and the event with the data always comes before the state that covers them.
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
    /// Of the requests that make and delete zones.
    let zonesExchange = Turnstile()

    var chance: Chance
    var limits = BatchLimits()
    private var schedule: SyncSchedule
    var round: FetchRound?
    /// The generation of the credentials that were found to belong to the state's user.
    var checkedAccount: Int?
    /// The generation of those that the relay did not take.
    var refusedAccount: Int?
    /// How often the state has been given to another user: what was begun for an earlier one is not told any more.
    var accountEpoch = 0
    private var alarm = 0
    private var sleeper: Task<Void, Never>?
    private var background: [Int: Task<Void, Never>] = [:]
    /// What ends each of the requests that are under way.
    var requests: [Int: @Sendable () -> Void] = [:]
    /// How often all operations were cancelled.
    var cancellations = 0
    /// How often that was when the round was asked for that goes on now.
    var cancellationsBeforeRound: [Lane: Int] = [:]
    var lastTask = 0
    /// The tasks in which the delegate is at work; one that it starts is another.
    private var delegateTasks: Set<Int> = []
    /// The number of this engine at the notice station, once it listens.
    var listening: UUID?
    private(set) var isStopped = false
    private var savedStamp: UInt64 = 0
    /// How many names of what was fetched were told with the state.
    private var savedListing = 0
    /// How much news there was in a test's world when the last look at the database began, and when it was known to be whole.
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

    // MARK: Life

    func start(for engine: CKSyncEngine) async {
        self.engine = engine
        guard isAutomatic, !isStopped else { return }
        tell(.outboxChanged(isEmpty: !state.read(\.hasPending)))
        tell(.started)
        inBackground { await $0.listenForNotices() }
    }

    /// A call by hand may come before `start` has.
    func adopt(_ engine: CKSyncEngine) { self.engine = engine }

    func stop() async {
        isStopped = true
        alarm += 1
        sleeper?.cancel()
        background.values.forEach { $0.cancel() }
        // Whoever is being told something now is waited for.
        await delivery.enter()
        delivery.leave()
        if let listening, let station = try? database.session.connection().notices {
            await station.stopListening(listening)
        }
    }

    /// The application has changed what is pending.
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

    // MARK: Telling the delegate

    /// Tells the delegate, when what came before has been told.
    ///
    /// With an `epoch`, nothing is told once the state is another user's than it was then.
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

    /// Tells the state, if it differs from what was told last.
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

    /// Tells the state after a page; amid long listings not after each one.
    ///
    /// The state names all that a listing has seen: told with each page, it would cost the square of the listing. What is
    /// told again after a start in between is at most an eighth of it.
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

    /// Runs the delegate's own code.
    private func application<Answer>(_ work: () async -> Answer) async -> Answer {
        let task = Self.currentTask
        delegateTasks.insert(task)
        defer { delegateTasks.remove(task) }
        return await conditions.time.application { await work() }
    }

    private static var currentTask: Int { withUnsafeCurrentTask { $0?.hashValue ?? 0 } }

    /// Throws to the delegate, which would wait for the engine that waits for it.
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

    /// Puts a wait that the relay asked for into the state, where it survives a restart once the application is told.
    ///
    /// `false`: it is there already.
    private func noteHold() -> Bool {
        let until = schedule.heldUntil.map { moment in
            conditions.wallClock().addingTimeInterval((moment - conditions.time.now()).inSeconds)
        }
        // The two clocks never agree to the last bit; only a real difference is worth keeping.
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

    /// One exchange with the relay about a zone at a time, its event included.
    ///
    /// A page that was read after a save of ours but told before its confirmation would look like a conflict with that
    /// save, and one read before it but told after would bring an old version back; neither would be set right, since the
    /// relay sends no notice about our own changes.
    func exchange(_ zone: ZoneID) -> Turnstile {
        if let known = exchanges[zone] { return known }
        let made = Turnstile()
        exchanges[zone] = made
        return made
    }

    /// Returns when all that was sent before now has been answered, and told.
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
            return ["\(name) has not found out who has signed in."]
        }
        guard !schedule.isChannelOpen, let world = conditions.time.surroundings,
            newsSeen < world.newsCount(ofPublic: false)
        else { return [] }
        return ["\(name) has no notice connection, and has not polled since the last change."]
    }
}
