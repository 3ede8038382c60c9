package import Records

/// Decides when to fetch and when to send, based on notices, the notice connection, edits, failures and time.
///
/// Notices are hints: they only trigger a fetch. The database is fetched after every connection, with or without a
/// notice, and polled: often without a connection, seldom with one. Fetching and sending are independent; only a relay's
/// `retryAfter` delays both. See Sync.md, "When to fetch", "Sending" and "Retrying".
package struct SyncSchedule: Sendable {
    package struct Settings: Hashable, Sendable {
        /// Whether the engine fetches and sends by itself, not only when called.
        package var isAutomatic = true
        /// The first edit is sent at once; edits within this time after the start of a send are sent together.
        package var coalescing: Duration = .milliseconds(50)
        /// The time between two polls without a notice connection; each time varied by up to 20 %.
        package var pollInterval: Duration = .seconds(60)
        /// The time between two polls with a notice connection, each time varied by up to 20 %; `nil`: none.
        ///
        /// A relay or a proxy may lose notices while the connection stays open.
        package var safetyInterval: Duration?

        package init() {}

        /// The settings of mirrors and engines: with every notice lost they see a change within 12 minutes.
        package static var engine: Settings {
            var settings = Settings()
            settings.safetyInterval = .seconds(600)
            return settings
        }
    }

    package enum Event: Sendable {
        case started
        /// The relay has answered the hello: notices will arrive.
        case channelOpened
        case channelLost
        /// A zone has changed; `nil`: something in the database has.
        case noticed(ZoneID?)
        case outboxChanged(isEmpty: Bool)
        /// A fetch that the application requested has begun; those requested by an effect are known.
        case fetchBegan
        case sendBegan
        case fetchFinished(FetchRound.Outcome)
        case sendFinished(SendOutcome)
        /// An operation that is not scheduled here, such as a poll of the public database, has failed.
        case met(Trouble)
        case accountChanged(isUsable: Bool)
        case timerFired
    }

    package enum Effect: Equatable, Sendable {
        /// If `asksDatabase` is `false`, fetch only the zones that are known to have changed.
        case fetch(asksDatabase: Bool, held: Set<ZoneID>)
        case send
        /// Replaces the previous wake-up; `nil` cancels it.
        case wake(at: Moment?)
    }

    /// The result of a round of sending.
    package struct SendOutcome: Hashable, Sendable {
        /// The failure that ended the round; it is retried automatically.
        package var trouble: Trouble?
        /// Whether the relay confirmed something.
        package var madeProgress: Bool
        /// Whether something was rejected permanently and reported to the application.
        package var hadRefusals: Bool
        /// Failures of single zones that are retried automatically and do not delay other zones.
        package var zoneTroubles: [ZoneID: Trouble] = [:]
        /// Whether everything that is left to send is in zones that are backing off.
        package var leavesHeldOnly = false

        package init(trouble: Trouble? = nil, madeProgress: Bool = false, hadRefusals: Bool = false) {
            self.trouble = trouble
            self.madeProgress = madeProgress
            self.hadRefusals = hadRefusals
        }
    }

    /// The back-off state of fetching or sending, or of one zone.
    private struct Lane {
        var isBusy = false
        var backoff = Backoff.requests
        var notBefore: Moment?
        /// Whether it waits because the network was unreachable: a connection that opens ends the wait.
        var waitsForNetwork = false

        mutating func failed(_ trouble: Trouble, at now: Moment, using random: inout some RandomNumberGenerator) {
            // Not a failure, so no back-off; the delay only prevents a tight loop if rounds are cancelled as they
            // begin.
            if trouble.kind == .cancelled { return notBefore = max(notBefore ?? now, now + Backoff.requests.first) }
            let wait = trouble.retryAfter ?? backoff.failed(using: &random)
            notBefore = now + wait
            waitsForNetwork = trouble.kind == .network && trouble.retryAfter == nil
        }

        mutating func succeeded() {
            backoff.succeeded()
            notBefore = nil
            waitsForNetwork = false
        }

        mutating func networkReturned() {
            if waitsForNetwork { succeeded() }
        }
    }

    private let settings: Settings
    private var isStarted = false
    package private(set) var isChannelOpen = false
    private var isAccountUsable = true
    private var wantsDatabase = false
    private var wantedZones: Set<ZoneID> = []
    private var hasPending = false
    private var fetchLane = Lane()
    private var sendLane = Lane()
    /// The time until which the relay asked the whole database to wait.
    private var databaseHeldUntil: Moment?
    private var zoneLanes: [ZoneID: Lane] = [:]
    /// The back-off of the zones to which nothing can be sent now.
    private var sendZoneLanes: [ZoneID: Lane] = [:]
    /// Whether everything pending is in those zones, until the outbox changes.
    private var awaitsZones = false
    private var lastSendBegan: Moment?
    /// The number of consecutive rounds with rejections and no success: an application that resends the same data must
    /// not cause a loop.
    private var fruitlessSends = 0
    /// After a reconnection, changes are fetched before local changes are sent, so that conflicts are found locally.
    private var fetchesBeforeSending = false
    private var pollAt: Moment?

    /// - Parameters:
    ///   - settings: The settings.
    ///   - heldUntil: The end of a `retryAfter` that was still running when the state was saved.
    package init(settings: Settings = Settings(), heldUntil: Moment? = nil) {
        self.settings = settings
        databaseHeldUntil = heldUntil
    }

    /// The time until which the relay asked the whole database to wait; to be saved across restarts.
    package var heldUntil: Moment? { databaseHeldUntil }

    /// Returns the zones whose fetches are backing off.
    package func heldZones(at now: Moment) -> Set<ZoneID> {
        Set(zoneLanes.filter { ($0.value.notBefore ?? now) > now }.keys)
    }

    /// Returns the zones to which sending is backing off.
    package func zonesHeldFromSending(at now: Moment) -> Set<ZoneID> {
        Set(sendZoneLanes.filter { ($0.value.notBefore ?? now) > now }.keys)
    }

    /// A description of the work in progress or pending; `nil` if only polls are scheduled.
    package var unfinished: String? {
        guard isStarted, settings.isAutomatic, isAccountUsable else { return nil }
        if fetchLane.isBusy { return "is fetching" }
        if sendLane.isBusy { return "is sending" }
        if hasPending { return "has changes to send" }
        return wantsDatabase || !wantedZones.isEmpty ? "has changes to fetch" : nil
    }

    package mutating func handle(
        _ event: Event,
        at now: Moment,
        using random: inout some RandomNumberGenerator
    ) -> [Effect] {
        switch event {
        case .started:
            isStarted = true
            wantsDatabase = true
            if !isChannelOpen { schedulePoll(now, &random) }
        case .channelOpened: channelOpened()
        case .channelLost:
            // The safety poll is due too late now.
            if isChannelOpen { pollAt = nil }
            isChannelOpen = false
            if pollAt == nil { schedulePoll(now, &random) }
        case .noticed(let zone?): wantedZones.insert(zone)
        case .noticed(nil): wantsDatabase = true
        case .outboxChanged(let isEmpty):
            hasPending = !isEmpty
            awaitsZones = false
        case .fetchBegan: fetchLane.isBusy = true
        case .sendBegan:
            sendLane.isBusy = true
            lastSendBegan = now
        case .fetchFinished(let outcome): fetchFinished(outcome, now, &random)
        case .sendFinished(let outcome): sendFinished(outcome, now, &random)
        case .met(let trouble): note(retryAfter: trouble, now)
        case .accountChanged(let isUsable):
            isAccountUsable = isUsable
            if isUsable {
                wantsDatabase = true
                fetchLane.succeeded()
                sendLane.succeeded()
            }
        case .timerFired: timerFired(now)
        }
        return act(now)
    }

    // MARK: Events

    private mutating func channelOpened() {
        isChannelOpen = true
        pollAt = nil
        wantsDatabase = true
        fetchesBeforeSending = hasPending && !sendLane.isBusy
        fetchLane.networkReturned()
        sendLane.networkReturned()
    }

    private mutating func fetchFinished(
        _ outcome: FetchRound.Outcome,
        _ now: Moment,
        _ random: inout some RandomNumberGenerator
    ) {
        fetchLane.isBusy = false
        fetchesBeforeSending = false
        if let trouble = outcome.trouble {
            note(retryAfter: trouble, now)
            fetchLane.failed(trouble, at: now, using: &random)
            // With an open connection nothing else would trigger another fetch; the back-off limits the rate.
            wantsDatabase = true
        } else {
            fetchLane.succeeded()
        }
        for zone in outcome.fetched { zoneLanes[zone] = nil }
        for (zone, trouble) in outcome.zoneTroubles where outcome.trouble == nil {
            // The database's feed reports zones that are gone.
            guard trouble.kind != .zoneGone else { continue }
            zoneLanes[zone, default: Lane()].failed(trouble, at: now, using: &random)
            wantedZones.insert(zone)
        }
        // A fetch of single zones does not delay the next poll of the database.
        if !isChannelOpen || outcome.sawDatabase || pollAt == nil { schedulePoll(now, &random) }
    }

    private mutating func sendFinished(
        _ outcome: SendOutcome,
        _ now: Moment,
        _ random: inout some RandomNumberGenerator
    ) {
        sendLane.isBusy = false
        for (zone, trouble) in outcome.zoneTroubles {
            sendZoneLanes[zone, default: Lane()].failed(trouble, at: now, using: &random)
        }
        // A successful request ends the back-off.
        sendZoneLanes = sendZoneLanes.filter { ($0.value.notBefore ?? now) > now }
        awaitsZones = outcome.leavesHeldOnly
        if let trouble = outcome.trouble {
            note(retryAfter: trouble, now)
            sendLane.failed(trouble, at: now, using: &random)
            return
        }
        fruitlessSends = outcome.madeProgress || !outcome.hadRefusals ? 0 : fruitlessSends + 1
        // The first retry after a rejection is immediate, because the application has just merged.
        if fruitlessSends > 1 {
            sendLane.failed(Trouble(.refused), at: now, using: &random)
        } else if fruitlessSends == 0 {
            sendLane.succeeded()
        }
    }

    private mutating func note(retryAfter trouble: Trouble, _ now: Moment) {
        guard let wait = trouble.retryAfter, trouble.kind != .zoneBusy else { return }
        databaseHeldUntil = max(databaseHeldUntil ?? now, now + wait)
    }

    private mutating func timerFired(_ now: Moment) {
        if let pollAt, pollAt <= now {
            self.pollAt = nil
            wantsDatabase = true
        }
        if let until = databaseHeldUntil, until <= now { databaseHeldUntil = nil }
    }

    private mutating func schedulePoll(_ now: Moment, _ random: inout some RandomNumberGenerator) {
        let interval = isChannelOpen ? settings.safetyInterval : settings.pollInterval
        pollAt = interval.map { now + $0.jittered(by: 0.2, using: &random) }
    }

    // MARK: Effects

    private mutating func act(_ now: Moment) -> [Effect] {
        guard isStarted, settings.isAutomatic, isAccountUsable else { return [.wake(at: nil)] }
        var effects: [Effect] = []
        if let due = fetchDue(now), due <= now {
            let held = heldZones(at: now)
            effects.append(.fetch(asksDatabase: wantsDatabase, held: held))
            fetchLane.isBusy = true
            wantsDatabase = false
            wantedZones.formIntersection(held)
        }
        if let due = sendDue(now), due <= now {
            effects.append(.send)
            sendLane.isBusy = true
            lastSendBegan = now
        }
        let next = earlier(pollAt, earlier(fetchDue(now), sendDue(now)))
        return effects + [.wake(at: next)]
    }

    /// Returns when the next fetch may begin; `nil` if none is wanted or one is in progress.
    private func fetchDue(_ now: Moment) -> Moment? {
        guard !fetchLane.isBusy else { return nil }
        let zonesDue = wantedZones.map { zoneLanes[$0]?.notBefore ?? now }.min()
        guard let wanted = wantsDatabase ? now : zonesDue else { return nil }
        return max(wanted, fetchLane.notBefore ?? now, databaseHeldUntil ?? now)
    }

    private func sendDue(_ now: Moment) -> Moment? {
        guard hasPending, !sendLane.isBusy, !fetchesBeforeSending else { return nil }
        let settled = lastSendBegan.map { $0 + settings.coalescing } ?? now
        let zonesDue = awaitsZones ? sendZoneLanes.values.compactMap(\.notBefore).min() : nil
        return max(settled, zonesDue ?? now, sendLane.notBefore ?? now, databaseHeldUntil ?? now)
    }
}
