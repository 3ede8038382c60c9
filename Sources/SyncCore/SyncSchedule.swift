package import Records

/// When to fetch and when to send: what follows from notices, the channel's ups and downs, edits, failures and the clock.
///
/// Notices are hints: they only say when to look. After every (re)connection the database is asked, notice or not, and
/// while there is no channel it is polled. Fetching and sending go their own ways; only a relay's `retryAfter` holds both.
/// See Sync.md, "When to fetch", "Sending" and "Retrying".
package struct SyncSchedule: Sendable {
    package struct Settings: Hashable, Sendable {
        /// The engine acts by itself, not only when called.
        package var isAutomatic = true
        /// The first edit goes at once; edits that follow within this time of the last send go together.
        package var coalescing: Duration = .milliseconds(50)
        /// Between two looks at the database while there is no notice channel; drawn anew within a fifth each time.
        package var pollInterval: Duration = .seconds(60)

        package init() {}
    }

    package enum Event: Sendable {
        case started
        /// The relay has answered our hello: notices will come from now on.
        case channelOpened
        case channelLost
        /// A zone has changed; `nil`: something in the database has.
        case noticed(ZoneID?)
        case outboxChanged(isEmpty: Bool)
        /// A round that the application asked for has begun; those asked for here are known.
        case fetchBegan
        case sendBegan
        case fetchFinished(FetchRound.Outcome)
        case sendFinished(SendOutcome)
        /// Something that is not scheduled here, a poll of the public database, met trouble.
        case met(Trouble)
        case accountChanged(isUsable: Bool)
        case timerFired
    }

    package enum Effect: Equatable, Sendable {
        /// `asksDatabase: false`: only the zones known to have changed.
        case fetch(asksDatabase: Bool, held: Set<ZoneID>)
        case send
        /// Replaces the wake-up asked for before; `nil`: none is needed.
        case wake(at: Moment?)
    }

    /// How a round of sending ended.
    package struct SendOutcome: Hashable, Sendable {
        /// What stopped it, and is tried again by itself.
        package var trouble: Trouble?
        /// Something was confirmed.
        package var madeProgress: Bool
        /// Something was refused for good, and so handed to the application.
        package var hadRefusals: Bool
        /// What single zones met that is tried again by itself, and holds no other.
        package var zoneTroubles: [ZoneID: Trouble] = [:]
        /// Whatever is left to send is in zones that asked for patience.
        package var leavesHeldOnly = false

        package init(trouble: Trouble? = nil, madeProgress: Bool = false, hadRefusals: Bool = false) {
            self.trouble = trouble
            self.madeProgress = madeProgress
            self.hadRefusals = hadRefusals
        }
    }

    /// One of the two ways, with its own patience.
    private struct Lane {
        var isBusy = false
        var backoff = Backoff.requests
        var notBefore: Moment?
        /// It waits because the network was gone: a channel that opens is proof to the contrary.
        var waitsForNetwork = false

        mutating func failed(_ trouble: Trouble, at now: Moment, using random: inout some RandomNumberGenerator) {
            // No failure to be patient about; only whoever ends rounds as they begin is not to be raced.
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
    /// The relay asked the whole database to wait until then.
    private var databaseHeldUntil: Moment?
    private var zoneLanes: [ZoneID: Lane] = [:]
    /// Of the zones to which nothing may be sent for now.
    private var sendZoneLanes: [ZoneID: Lane] = [:]
    /// All that is pending is in those, until the outbox changes.
    private var awaitsZones = false
    private var lastSendBegan: Moment?
    /// Refusals in a row without any success: an application that sends the same again must not spin.
    private var fruitlessSends = 0
    /// After a reconnection changes are looked at before ours are sent, so that conflicts are found here.
    private var fetchesBeforeSending = false
    private var pollAt: Moment?

    /// `heldUntil` is a `retryAfter` that was still running when the state was saved.
    package init(settings: Settings = Settings(), heldUntil: Moment? = nil) {
        self.settings = settings
        databaseHeldUntil = heldUntil
    }

    /// Of a wait that an older version kept by the wall clock alone so much is believed.
    package static let longestUnknownHold = Duration.seconds(600)

    /// Until when the relay asked the whole database to wait; to be kept across restarts.
    package var heldUntil: Moment? { databaseHeldUntil }

    /// The zones that asked for patience and still want it.
    package func heldZones(at now: Moment) -> Set<ZoneID> {
        Set(zoneLanes.filter { ($0.value.notBefore ?? now) > now }.keys)
    }

    /// The zones that asked for patience with what is sent to them, and still want it.
    package func zonesHeldFromSending(at now: Moment) -> Set<ZoneID> {
        Set(sendZoneLanes.filter { ($0.value.notBefore ?? now) > now }.keys)
    }

    /// What is under way, wanted or waiting, in words; `nil` when there is nothing but polls to come.
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

    // MARK: What happened

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
            // With a channel open nothing else would look again; the lane's patience bounds it.
            wantsDatabase = true
        } else {
            fetchLane.succeeded()
        }
        for zone in outcome.fetched { zoneLanes[zone] = nil }
        for (zone, trouble) in outcome.zoneTroubles where outcome.trouble == nil {
            // Of a zone that is gone the database's feed tells.
            guard trouble.kind != .zoneGone else { continue }
            zoneLanes[zone, default: Lane()].failed(trouble, at: now, using: &random)
            wantedZones.insert(zone)
        }
        if !isChannelOpen { schedulePoll(now, &random) }
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
        // Who was asked again and did not refuse has patience with us once more.
        sendZoneLanes = sendZoneLanes.filter { ($0.value.notBefore ?? now) > now }
        awaitsZones = outcome.leavesHeldOnly
        if let trouble = outcome.trouble {
            note(retryAfter: trouble, now)
            sendLane.failed(trouble, at: now, using: &random)
            return
        }
        fruitlessSends = outcome.madeProgress || !outcome.hadRefusals ? 0 : fruitlessSends + 1
        // The first try after a refusal is at once: the application has just merged.
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
        pollAt = now + settings.pollInterval.jittered(by: 0.2, using: &random)
    }

    // MARK: What to do now

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

    /// When the next fetch may begin; `nil` when none is wanted or one is under way.
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
