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
        case operationFailed(SyncFailure)
        case accountChanged(isUsable: Bool)
        case timerFired
    }

    package enum Effect: Equatable, Sendable {
        /// If `asksDatabase` is `false`, fetch only the zones that are known to have changed.
        case fetch(asksDatabase: Bool, backingOff: Set<ZoneID>)
        case send
        /// Replaces the previous wake-up; `nil` cancels it.
        case wake(at: Instant?)
    }

    /// The result of a round of sending.
    package struct SendOutcome: Hashable, Sendable {
        /// The failure that ended the round; it is retried automatically.
        package var syncFailure: SyncFailure?
        /// Whether the relay confirmed something.
        package var madeProgress: Bool
        /// Whether something was rejected permanently and reported to the application.
        package var hadRejections: Bool
        /// Failures of single zones that are retried automatically and do not delay other zones.
        package var zoneFailures: [ZoneID: SyncFailure] = [:]
        /// Whether everything that is left to send is in zones that are backing off.
        package var onlyZonesBackingOffRemain = false

        package init(syncFailure: SyncFailure? = nil, madeProgress: Bool = false, hadRejections: Bool = false) {
            self.syncFailure = syncFailure
            self.madeProgress = madeProgress
            self.hadRejections = hadRejections
        }
    }

    /// The back-off state of fetching or sending, or of one zone.
    private struct BackoffState {
        var isBusy = false
        var backoff = Backoff.requests
        var notBefore: Instant?
        /// Whether it waits because the network was unreachable: a connection that opens ends the wait.
        var waitsForNetwork = false

        mutating func failed(
            _ syncFailure: SyncFailure,
            at now: Instant,
            using random: inout some RandomNumberGenerator
        ) {
            // Not a failure, so no back-off; the delay only prevents a tight loop if rounds are cancelled as they
            // begin.
            if syncFailure.kind == .cancelled { return notBefore = max(notBefore ?? now, now + Backoff.requests.first) }
            let wait = syncFailure.retryAfter ?? backoff.failed(using: &random)
            notBefore = now + wait
            waitsForNetwork = syncFailure.kind == .network && syncFailure.retryAfter == nil
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
    private var fetchState = BackoffState()
    private var sendState = BackoffState()
    /// The time until which the relay asked the whole database to wait.
    private var databaseNotBefore: Instant?
    private var zoneFetchStates: [ZoneID: BackoffState] = [:]
    /// The back-off of the zones to which nothing can be sent now.
    private var zoneSendStates: [ZoneID: BackoffState] = [:]
    /// Whether everything pending is in those zones, until the outbox changes.
    private var waitsForZones = false
    private var lastSendBegan: Instant?
    /// The number of consecutive rounds with rejections and no success: an application that resends the same data must
    /// not cause a loop.
    private var sendsWithoutProgress = 0
    /// After a reconnection, changes are fetched before local changes are sent, so that conflicts are found locally.
    private var fetchesBeforeSending = false
    private var pollAt: Instant?

    /// - Parameters:
    ///   - settings: The settings.
    ///   - retryNotBefore: The end of a `retryAfter` that was still running when the state was saved.
    package init(settings: Settings = Settings(), retryNotBefore: Instant? = nil) {
        self.settings = settings
        databaseNotBefore = retryNotBefore
    }

    /// The time until which the relay asked the whole database to wait; to be saved across restarts.
    package var retryNotBefore: Instant? { databaseNotBefore }

    /// Returns the zones whose fetches are backing off.
    package func zonesBackingOff(at now: Instant) -> Set<ZoneID> {
        Set(zoneFetchStates.filter { ($0.value.notBefore ?? now) > now }.keys)
    }

    /// Returns the zones to which sending is backing off.
    package func zonesBackingOffFromSending(at now: Instant) -> Set<ZoneID> {
        Set(zoneSendStates.filter { ($0.value.notBefore ?? now) > now }.keys)
    }

    /// A description of the work in progress or pending; `nil` if only polls are scheduled.
    package var unfinished: String? {
        guard isStarted, settings.isAutomatic, isAccountUsable else { return nil }
        if fetchState.isBusy { return "is fetching" }
        if sendState.isBusy { return "is sending" }
        if hasPending { return "has changes to send" }
        return wantsDatabase || !wantedZones.isEmpty ? "has changes to fetch" : nil
    }

    package mutating func handle(
        _ event: Event,
        at now: Instant,
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
            waitsForZones = false
        case .fetchBegan: fetchState.isBusy = true
        case .sendBegan:
            sendState.isBusy = true
            lastSendBegan = now
        case .fetchFinished(let outcome): fetchFinished(outcome, now, &random)
        case .sendFinished(let outcome): sendFinished(outcome, now, &random)
        case .operationFailed(let syncFailure): note(retryAfter: syncFailure, now)
        case .accountChanged(let isUsable):
            isAccountUsable = isUsable
            if isUsable {
                wantsDatabase = true
                fetchState.succeeded()
                sendState.succeeded()
            }
        case .timerFired: timerFired(now)
        }
        return nextEffects(now)
    }

    // MARK: Events

    private mutating func channelOpened() {
        isChannelOpen = true
        pollAt = nil
        wantsDatabase = true
        fetchesBeforeSending = hasPending && !sendState.isBusy
        fetchState.networkReturned()
        sendState.networkReturned()
    }

    private mutating func fetchFinished(
        _ outcome: FetchRound.Outcome,
        _ now: Instant,
        _ random: inout some RandomNumberGenerator
    ) {
        fetchState.isBusy = false
        fetchesBeforeSending = false
        if let syncFailure = outcome.syncFailure {
            note(retryAfter: syncFailure, now)
            fetchState.failed(syncFailure, at: now, using: &random)
            // With an open connection nothing else would trigger another fetch; the back-off limits the rate.
            wantsDatabase = true
        } else {
            fetchState.succeeded()
        }
        for zone in outcome.fetched { zoneFetchStates[zone] = nil }
        for (zone, syncFailure) in outcome.zoneFailures where outcome.syncFailure == nil {
            // The database's feed reports zones that are gone.
            guard syncFailure.kind != .zoneNotFound else { continue }
            zoneFetchStates[zone, default: BackoffState()].failed(syncFailure, at: now, using: &random)
            wantedZones.insert(zone)
        }
        // A fetch of single zones does not delay the next poll of the database.
        if !isChannelOpen || outcome.reachedDatabaseEnd || pollAt == nil { schedulePoll(now, &random) }
    }

    private mutating func sendFinished(
        _ outcome: SendOutcome,
        _ now: Instant,
        _ random: inout some RandomNumberGenerator
    ) {
        sendState.isBusy = false
        for (zone, syncFailure) in outcome.zoneFailures {
            zoneSendStates[zone, default: BackoffState()].failed(syncFailure, at: now, using: &random)
        }
        // A successful request ends the back-off.
        zoneSendStates = zoneSendStates.filter { ($0.value.notBefore ?? now) > now }
        waitsForZones = outcome.onlyZonesBackingOffRemain
        if let syncFailure = outcome.syncFailure {
            note(retryAfter: syncFailure, now)
            sendState.failed(syncFailure, at: now, using: &random)
            return
        }
        sendsWithoutProgress = outcome.madeProgress || !outcome.hadRejections ? 0 : sendsWithoutProgress + 1
        // The first retry after a rejection is immediate, because the application has just merged.
        if sendsWithoutProgress > 1 {
            sendState.failed(SyncFailure(.refused), at: now, using: &random)
        } else if sendsWithoutProgress == 0 {
            sendState.succeeded()
        }
    }

    private mutating func note(retryAfter syncFailure: SyncFailure, _ now: Instant) {
        guard let wait = syncFailure.retryAfter, syncFailure.kind != .zoneBusy else { return }
        databaseNotBefore = max(databaseNotBefore ?? now, now + wait)
    }

    private mutating func timerFired(_ now: Instant) {
        if let pollAt, pollAt <= now {
            self.pollAt = nil
            wantsDatabase = true
        }
        if let until = databaseNotBefore, until <= now { databaseNotBefore = nil }
    }

    private mutating func schedulePoll(_ now: Instant, _ random: inout some RandomNumberGenerator) {
        let interval = isChannelOpen ? settings.safetyInterval : settings.pollInterval
        pollAt = interval.map { now + $0.jittered(by: 0.2, using: &random) }
    }

    // MARK: Effects

    private mutating func nextEffects(_ now: Instant) -> [Effect] {
        guard isStarted, settings.isAutomatic, isAccountUsable else { return [.wake(at: nil)] }
        var effects: [Effect] = []
        if let due = fetchDue(now), due <= now {
            let backingOff = zonesBackingOff(at: now)
            effects.append(.fetch(asksDatabase: wantsDatabase, backingOff: backingOff))
            fetchState.isBusy = true
            wantsDatabase = false
            wantedZones.formIntersection(backingOff)
        }
        if let due = sendDue(now), due <= now {
            effects.append(.send)
            sendState.isBusy = true
            lastSendBegan = now
        }
        let next = earlier(pollAt, earlier(fetchDue(now), sendDue(now)))
        return effects + [.wake(at: next)]
    }

    /// Returns when the next fetch may begin; `nil` if none is wanted or one is in progress.
    private func fetchDue(_ now: Instant) -> Instant? {
        guard !fetchState.isBusy else { return nil }
        let zonesDue = wantedZones.map { zoneFetchStates[$0]?.notBefore ?? now }.min()
        guard let wanted = wantsDatabase ? now : zonesDue else { return nil }
        return max(wanted, fetchState.notBefore ?? now, databaseNotBefore ?? now)
    }

    private func sendDue(_ now: Instant) -> Instant? {
        guard hasPending, !sendState.isBusy, !fetchesBeforeSending else { return nil }
        let coalesced = lastSendBegan.map { $0 + settings.coalescing } ?? now
        let zonesDue = waitsForZones ? zoneSendStates.values.compactMap(\.notBefore).min() : nil
        return max(coalesced, zonesDue ?? now, sendState.notBefore ?? now, databaseNotBefore ?? now)
    }
}
