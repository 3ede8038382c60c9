import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Keeps one store in step with its database: the shell around `SyncSchedule`, `FetchRound` and `PublicPoll`.
///
/// Everything it learns goes into the store's file in one transaction with the token that covers it. It never waits for
/// the application. Fetching and sending go side by side, each one round at a time, and one exchange at a time with each
/// zone: a page read before a save of ours but written after it would bring an old version back.
actor MirrorSync {
    let file: StoreFile
    let link: MirrorLink
    let conditions: MirrorConditions
    let board: EventBoard
    let isPublic: Bool
    /// What of each record type of a public database is mirrored, where that is not all.
    let extents: [String: WireExtent]

    /// Another store of the container, for copies.
    let otherStore: @Sendable (StoreID) -> StoreFile?
    private let account: AccountGate
    let ear: NoticeEar

    private let fetchLane = Turnstile()
    let sendLane = Turnstile()
    let outboxLook = Turnstile()
    private var exchanges: [ZoneID: Turnstile] = [:]
    /// How many requests of ours have gone to each zone, or out of it: pages that were asked for before are too old.
    var sends: [ZoneID: Int] = [:]
    /// Zones that have ended and whose objects may turn up elsewhere, with the reason where they were somebody else's.
    var endings: [ZoneID: ShareChange.Loss] = [:]
    /// Some records have left one zone and are not seen in another yet.
    var awaitsRecords = false
    /// Walks through zones that run ahead of the writing, with the token from which the next page is to be taken.
    var aheads: [ZoneID: (token: SyncToken, walk: PagesAhead)] = [:]

    var chance: Chance
    var limits = BatchLimits()
    var feed = FeedState()
    var round: FetchRound?
    var poll: PublicPoll
    /// How many record types are being asked about on schedule, and who waits until none is.
    var walking = 0
    var walkWaiters: [CheckedContinuation<Void, Never>] = []
    /// Types of which was said that the relay cannot be asked for them, and those that it cannot tell of though they exist.
    var skipped: Set<String> = []
    var unpolled: Set<String> = []
    /// When the poll wants to be woken; the schedule's own alarm stands beside it.
    private var pollAlarm: Moment?
    private var scheduleAlarm: Moment?
    var schedule: SyncSchedule
    private var alarm = 0
    private var sleeper: Task<Void, Never>?
    private var background: [Int: Task<Void, Never>] = [:]
    private var lastTask = 0
    private(set) var isStopped = false
    /// How many rounds of any kind are under way.
    var working = 0
    var lastTrouble: CKError?
    var hasWarned = false
    /// New objects of which was said that no share is known for them.
    var homeless: Set<String> = []
    var spaceWatch: Task<Void, Never>?
    var waitWatch: Task<Void, Never>?
    /// When the database was asked for its zones, until all that it named then have been read.
    var importOwed: Date?
    /// Some type could not be asked about in the poll that is under way.
    var hasPollFailed = false
    var schemaWatch: Task<Void, Never>?
    private var keptHold: Double?
    var newsAsked: UInt64 = 0
    var newsSeen: UInt64 = 0
    /// For whom, and when, the rights in a public database were asked for last.
    var rightsSeen: (generation: Int, at: Date)?
    /// The objects whose change is on its way.
    var inFlight: Set<String> = []

    init(
        file: StoreFile,
        cloud: CloudOptions,
        conditions: MirrorConditions,
        board: EventBoard,
        otherStore: @escaping @Sendable (StoreID) -> StoreFile?,
        accountChanged: @escaping @Sendable (AccountGate.Change) async -> Void
    ) {
        self.otherStore = otherStore
        self.file = file
        self.conditions = conditions
        self.board = board
        link = MirrorLink(database: cloud.container.database(with: cloud.scope))
        account = AccountGate(file: file, link: link, changed: accountChanged)
        ear = NoticeEar(link: link, pool: file.pool, conditions: conditions)
        isPublic = cloud.scope == .public
        extents = cloud.scope == .public ? file.extents : [:]
        chance = conditions.chance
        var settings = conditions.schedule
        settings.isAutomatic = conditions.isAutomatic
        schedule = SyncSchedule(settings: settings)
        var pollSettings = PublicPoll.Settings()
        pollSettings.interval = min(max(cloud.pollInterval, conditions.shortestPoll), .seconds(86_400))
        poll = PublicPoll(types: file.mapping.recordTypes, settings: pollSettings)
        conditions.time.surroundings?.join(self)
    }

    // MARK: Life

    /// Reads what the last run left, and begins where the container is to work by itself.
    func start() async {
        do {
            try await load()
        } catch {
            await note(.setup, error: CKError(from: error))
            return
        }
        await tellOfExisting()
        guard conditions.isAutomatic, !isStopped else { return }
        beginPolls()
        await outboxChanged()
        tell(.started)
        if !isPublic { inBackground { await $0.listenForNotices() } }
    }

    private func load() async throws {
        if isPublic {
            let extents = extents
            try await file.pool.write { try PollMarks.follow($0, extents) }
        }
        let (token, zones, marks, held, heldFor) = try await file.pool.read { db in
            (
                try State.text(db, .databaseToken), try KnownZone.all(db), try PollMarks.load(db),
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
        if let held, held > conditions.wallClock().timeIntervalSince1970 {
            var settings = conditions.schedule
            settings.isAutomatic = conditions.isAutomatic
            // Never more than it was: the wall clock may have been ahead when it was noted.
            let wait = min(
                .seconds(held - conditions.wallClock().timeIntervalSince1970),
                heldFor.map { .seconds($0) } ?? SyncSchedule.longestUnknownHold
            )
            schedule = SyncSchedule(settings: settings, heldUntil: conditions.time.now() + wait)
        }
        // Space may have been made meanwhile, and what was waited for may have come.
        try await file.pool.write { db in
            try State.set(db, .quotaIsFull, nil)
            try OutboxRow.releaseZoneless(db)
            try OutboxRow.releaseWaiting(db)
            try OutboxRow.releaseTableless(db)
        }
    }

    private func unfetchedZones() async throws -> [ZoneID] {
        try await file.pool.read { db in
            try Row.fetchAll(db, sql: "SELECT name, owner FROM mirror_zone WHERE isUnfetched = 1 ORDER BY id")
                .map { ZoneID($0[0], owner: UserID($0[1])) }
        }
    }

    /// Ends everything; returns when nothing of it runs any more.
    func stop() async {
        isStopped = true
        alarm += 1
        sleeper?.cancel()
        spaceWatch?.cancel()
        waitWatch?.cancel()
        schemaWatch?.cancel()
        let running = background.values
        running.forEach { $0.cancel() }
        for task in running { await task.value }
        await ear.stop()
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

    /// Keeps a wait that the relay asked for where it survives a restart.
    func keepHold() async {
        holdPolls()
        let wait = schedule.heldUntil.map { ($0 - conditions.time.now()).inSeconds }
        let until = wait.map { conditions.wallClock().timeIntervalSince1970 + $0 }
        // The two clocks never agree to the last bit; only a real difference is worth a write.
        let isNews = until.map { abs($0 - (keptHold ?? 0)) > 1 } ?? (keptHold != nil)
        guard isNews else { return }
        keptHold = until
        try? await file.pool.write { db in
            try State.set(db, .heldUntil, until)
            try State.set(db, .heldFor, wait)
        }
    }

    func beginPolls() {
        guard isPublic, conditions.isAutomatic, !isStopped else { return }
        holdPolls()
        perform(poll.handle(.started, at: conditions.time.now(), using: &chance))
    }

    private func holdPolls() {
        guard isPublic, let until = schedule.heldUntil else { return }
        perform(poll.handle(.held(until: until), at: conditions.time.now(), using: &chance))
    }

    func tell(_ event: SyncSchedule.Event) {
        guard !isStopped else { return }
        countNews(event)
        for effect in schedule.handle(event, at: conditions.time.now(), using: &chance) {
            switch effect {
            case .fetch(let asksDatabase, let held):
                if isPublic {
                    // Nothing to fetch from a database without a feed; the poll looks after itself.
                    var outcome = FetchRound.Outcome()
                    outcome.sawDatabase = true
                    tell(.fetchFinished(outcome))
                } else {
                    inBackground { await $0.fetchOnSchedule(asksDatabase: asksDatabase, held: held) }
                }
            case .send:
                let held = schedule.zonesHeldFromSending(at: conditions.time.now())
                inBackground { await $0.sendOnSchedule(held: held) }
            case .wake(let moment):
                scheduleAlarm = moment
                wake()
            }
        }
    }

    func perform(_ effects: [PublicPoll.Effect]) {
        for effect in effects {
            switch effect {
            case .query(let type, let since):
                guard !isStopped else { break }
                pollBegins()
                walking += 1
                inBackground { await $0.walk(type, since) }
            case .wake(let moment):
                pollAlarm = moment
                wake()
            case .pollEnded:
                pollEnds()
                pollHasEnded()
            // The walk over the pages looks after the rest.
            case .nextPage, .apply, .ended: break
            }
        }
    }

    private func wake() {
        alarm += 1
        sleeper?.cancel()
        sleeper = nil
        let next = [scheduleAlarm, pollAlarm].compactMap { $0 }.min()
        guard let next, conditions.isAutomatic else { return }
        let (alarm, time) = (alarm, conditions.time)
        sleeper = time.start { [weak self] in
            guard (try? await time.sleep(next)) != nil else { return }
            await self?.rang(alarm)
        }
    }

    private func rang(_ alarm: Int) {
        guard alarm == self.alarm else { return }
        tell(.timerFired)
        if isPublic { perform(poll.handle(.timerFired, at: conditions.time.now(), using: &chance)) }
    }

    var heldUntil: Moment? { schedule.heldUntil }

    /// Something has happened on the relay that nobody has told of yet.
    func noticed() { tell(.noticed(nil)) }

    /// The container on whose behalf this works.
    nonisolated var container: CKContainer { CKContainer(sharing: link.database.session) }

    /// Finds out whose data these are before anything is sent or fetched, and again after the credentials have changed.
    func checkAccount() async throws(CKError) {
        do throws(CKError) {
            try await account.pass()
        } catch {
            lastTrouble = error
            throw error
        }
    }

    // MARK: Rounds

    /// One exchange with the relay about a zone at a time.
    func exchange(_ zone: ZoneID) -> Turnstile {
        if let known = exchanges[zone] { return known }
        let made = Turnstile()
        exchanges[zone] = made
        return made
    }

    /// Returns when all that was sent before now has been answered, and written down.
    func awaitExchanges() async {
        for exchange in Array(exchanges.values) {
            await exchange.enter()
            exchange.leave()
        }
    }

    func withFetchLane<Result: Sendable>(_ work: () async throws -> Result) async rethrows -> Result {
        await fetchLane.enter()
        working += 1
        defer {
            fetchLane.leave()
            working -= 1
        }
        return try await work()
    }

    func withSendLane<Result: Sendable>(_ work: () async throws -> Result) async rethrows -> Result {
        await sendLane.enter()
        working += 1
        defer {
            sendLane.leave()
            working -= 1
        }
        return try await work()
    }

    func advance(_ event: FetchRound.Event) -> [FetchRound.Effect] {
        round?.handle(event, state: &feed) ?? []
    }
}
