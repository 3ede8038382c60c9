package import Records

/// One round of fetching: the database's feed, then the feed of each changed zone to its end.
///
///     began -> [database pages] -> zones, several at a time, each page by page -> finished
///
/// The caller performs the effects, applies each page **before** it reports the page here, and stores the `FeedState`
/// in the same transaction as the data, so that a token never covers data that are not stored. See Sync.md, "Fetching".
package struct FetchRound: Sendable {
    package enum Event: Sendable {
        case began
        case databasePage(changed: [ZoneID], deleted: [ZoneID], token: SyncToken, moreComing: Bool)
        case databaseFailed(SyncFailure)
        /// With a `failure`, the relay could not return every record of the page.
        case zonePage(ZoneID, token: SyncToken, moreComing: Bool, failure: SyncFailure? = nil)
        case zoneFailed(ZoneID, SyncFailure)
        /// The token belongs to an earlier zone of this name.
        case zoneReplaced(ZoneID)
        /// A notice arrived during the round: fetch that zone (again).
        case noticed(ZoneID)
    }

    package enum Effect: Equatable, Sendable {
        case askDatabase(since: SyncToken?)
        /// The first request of this round for a zone follows.
        case zoneBegins(ZoneID)
        case askZone(ZoneID, since: SyncToken?)
        case zoneEnded(ZoneID, SyncFailure?)
        case finished(Outcome)
    }

    package struct Outcome: Equatable, Sendable {
        /// The failure that ended the whole round.
        package var syncFailure: SyncFailure?
        /// The failures of single zones.
        package var zoneFailures: [ZoneID: SyncFailure] = [:]
        package var fetched: Set<ZoneID> = []
        /// Whether the database's feed was read to its end.
        package var reachedDatabaseEnd = false

        package init() {}

        /// The zones that could not be fetched.
        ///
        /// A zone that is gone is not a failure: the database's feed has reported it.
        package var failedZones: Set<ZoneID> { Set(zoneFailures.filter { $0.value.kind != .zoneNotFound }.keys) }
    }

    /// The maximum number of zones that are fetched concurrently.
    static let maxConcurrentZones = 4
    /// How many times a page may repeat its token and still announce more.
    package static let maxRepeats = 3

    /// The progress in one feed, which detects a relay that violates the protocol.
    private struct Progress {
        var expiredOnce = false
        var repeats = 0
        /// A notice arrived during a request whose page may have been read before the change.
        var isStale = false
        /// Why a record is missing: the zone is then not complete, and its stored token stays before that page.
        var failure: SyncFailure?
        /// Whether the zone is asked for only because the scope names it.
        let isNamedOnly: Bool
        /// The position after that page.
        var tokenAfterFailure: SyncToken?

        init(isNamedOnly: Bool = false) { self.isNamedOnly = isNamedOnly }

        /// Starts again without a token because the token has expired.
        mutating func startOver() {
            expiredOnce = true
            (failure, tokenAfterFailure) = (nil, nil)
        }

        /// Returns `false` if too many pages in a row announce more without making progress.
        mutating func accepts(_ token: SyncToken, after old: SyncToken?, moreComing: Bool) -> Bool {
            repeats = moreComing && token == old ? repeats + 1 : 0
            return repeats < FetchRound.maxRepeats
        }
    }

    private let scope: ZoneScope
    private let prioritized: [ZoneID]
    private let backingOff: Set<ZoneID>
    private var needsDatabase: Bool
    private var isAskingDatabase = false
    private var database = Progress()
    private var inFlight: [ZoneID: Progress] = [:]
    /// Zones in flight that are listed from their beginning once the database's feed was read.
    private var replaced: Set<ZoneID> = []
    private var outcome = Outcome()
    /// Zones that were missing when they were fetched and then reported as changed: created again in between.
    private var recreated: Set<ZoneID> = []
    private var isFinished = false

    /// Creates a round.
    ///
    /// - Parameters:
    ///   - asksDatabase: `false` for a notice about a known zone, which is fetched directly.
    ///   - scope: The zones to fetch.
    ///   - prioritized: Zones to fetch before all others, in this order.
    ///   - backingOff: Zones that are backing off and wait for a later round.
    package init(asksDatabase: Bool, scope: ZoneScope = .all, prioritized: [ZoneID] = [], backingOff: Set<ZoneID> = [])
    {
        needsDatabase = asksDatabase
        self.scope = scope
        self.prioritized = prioritized
        self.backingOff = backingOff
    }

    package mutating func handle(_ event: Event, state: inout FeedState) -> [Effect] {
        var effects: [Effect] = []
        switch event {
        case .began: break
        case .databasePage(let changed, let deleted, let token, let moreComing):
            databasePage(changed, deleted, token, moreComing, &state)
        case .databaseFailed(let syncFailure): databaseFailed(syncFailure, &state)
        case .zonePage(let zone, let token, let moreComing, let failure):
            effects += zonePage(zone, token, moreComing, failure, &state)
        case .zoneFailed(let zone, let syncFailure): effects += zoneFailed(zone, syncFailure, &state)
        case .zoneReplaced(let zone): effects += zoneReplaced(zone, &state)
        case .noticed(let zone):
            // A zone being fetched requests another page; any other zone is started when the next response arrives.
            inFlight[zone]?.isStale = true
            return []
        }
        return effects + next(&state)
    }

    /// Returns whether this round will fetch the zone, so that a notice about it needs no further round.
    package func covers(_ zone: ZoneID) -> Bool {
        !isFinished && outcome.syncFailure == nil && outcome.zoneFailures[zone] == nil && !backingOff.contains(zone)
            && scope.contains(zone)
    }

    // MARK: The database's feed

    private mutating func databasePage(
        _ changed: [ZoneID],
        _ deleted: [ZoneID],
        _ token: SyncToken,
        _ moreComing: Bool,
        _ state: inout FeedState
    ) {
        isAskingDatabase = false
        deleted.forEach { state.deletionReported($0) }
        for zone in changed {
            state.changed(zone)
            // Only once per round, because a faulty relay could alternate between the two forever.
            if outcome.zoneFailures[zone]?.kind == .zoneNotFound, recreated.insert(zone).inserted {
                outcome.zoneFailures[zone] = nil
            }
        }
        let isSound = database.accepts(token, after: state.databaseToken, moreComing: moreComing)
        state.databaseToken = token
        guard isSound else {
            outcome.syncFailure = SyncFailure(.protocolViolation)
            return
        }
        guard !moreComing else { return }
        state.listingEnded()
        guard state.databaseToken != nil else { return }
        needsDatabase = false
        outcome.reachedDatabaseEnd = true
    }

    private mutating func databaseFailed(_ syncFailure: SyncFailure, _ state: inout FeedState) {
        isAskingDatabase = false
        guard syncFailure.kind == .tokenExpired else {
            outcome.syncFailure = syncFailure
            return
        }
        state.databaseToken = nil
        // Twice in a row would be a loop.
        if database.expiredOnce { outcome.syncFailure = syncFailure }
        database.expiredOnce = true
    }

    // MARK: Zone feeds

    private mutating func zonePage(
        _ zone: ZoneID,
        _ token: SyncToken,
        _ moreComing: Bool,
        _ failure: SyncFailure?,
        _ state: inout FeedState
    ) -> [Effect] {
        guard var progress = inFlight[zone] else { return [] }
        let requested = progress.tokenAfterFailure ?? state.zoneTokens[zone]
        let isSound = progress.accepts(token, after: requested, moreComing: moreComing)
        progress.failure = progress.failure ?? failure
        // A token covers everything before it. A missing record does not delay the records after it, but the stored
        // token stays before it, so that the next fetch of the zone requests it again with everything after it.
        if progress.failure == nil { state.zoneTokens[zone] = token } else { progress.tokenAfterFailure = token }
        guard isSound else { return end(zone, SyncFailure(.protocolViolation)) }
        if moreComing || progress.isStale {
            progress.isStale = progress.isStale && moreComing
            inFlight[zone] = progress
            return outcome.syncFailure == nil ? [.askZone(zone, since: token)] : end(zone, progress.failure)
        }
        if let failure = progress.failure { return end(zone, failure) }
        state.fetched(zone)
        outcome.fetched.insert(zone)
        return end(zone, nil)
    }

    private mutating func zoneFailed(_ zone: ZoneID, _ syncFailure: SyncFailure, _ state: inout FeedState) -> [Effect] {
        guard let progress = inFlight[zone] else { return [] }
        switch syncFailure.kind {
        case .tokenExpired where !progress.expiredOnce:
            state.zoneTokens[zone] = nil
            inFlight[zone]?.startOver()
            return [.askZone(zone, since: nil)]
        case .tokenExpired:
            state.zoneTokens[zone] = nil
        case .zoneNotFound where progress.isNamedOnly: break
        case .zoneNotFound:
            state.zoneFoundMissing(zone)
            // Only the database's feed tells what happened to the zone, even if it was read before the zone was
            // deleted. At most once per zone, since a round does not fetch a missing zone again.
            needsDatabase = true
        case .network, .busy, .account, .cancelled:
            // The other zones would fail in the same way.
            outcome.syncFailure = outcome.syncFailure ?? syncFailure
        case .zoneBusy, .limitExceeded, .protocolViolation, .refused: break
        }
        return end(zone, syncFailure)
    }

    /// Waits for the database's feed before the new zone is listed.
    ///
    /// Other zones may have ended together with the former one, as when a user's data are erased. If the client still
    /// had their records, it would take new ones of the same names for others than these.
    private mutating func zoneReplaced(_ zone: ZoneID, _ state: inout FeedState) -> [Effect] {
        guard inFlight[zone]?.expiredOnce == false else {
            return zoneFailed(zone, SyncFailure(.tokenExpired), &state)
        }
        state.zoneTokens[zone] = nil
        inFlight[zone]?.startOver()
        replaced.insert(zone)
        needsDatabase = true
        return []
    }

    private mutating func end(_ zone: ZoneID, _ syncFailure: SyncFailure?) -> [Effect] {
        inFlight[zone] = nil
        if let syncFailure { outcome.zoneFailures[zone] = syncFailure }
        return [.zoneEnded(zone, syncFailure)]
    }

    // MARK: Effects

    private mutating func next(_ state: inout FeedState) -> [Effect] {
        guard !isFinished, !isAskingDatabase else { return [] }
        if let failure = outcome.syncFailure {
            let ended = takeReplaced().flatMap { end($0, failure) }
            return ended + (inFlight.isEmpty ? finish() : [])
        }
        if needsDatabase {
            guard inFlight.keys.allSatisfy(replaced.contains) else { return [] }
            isAskingDatabase = true
            if state.databaseToken == nil { state.listingBegan() }
            return [.askDatabase(since: state.databaseToken)]
        }
        let effects = takeReplaced().map { Effect.askZone($0, since: nil) } + beginZones(state)
        return inFlight.isEmpty ? finish() : effects
    }

    private mutating func takeReplaced() -> [ZoneID] {
        defer { replaced = [] }
        return replaced.sorted { ($0.owner.recordName, $0.zoneName) < ($1.owner.recordName, $1.zoneName) }
    }

    private mutating func finish() -> [Effect] {
        isFinished = true
        return [.finished(outcome)]
    }

    private mutating func beginZones(_ state: FeedState) -> [Effect] {
        var effects: [Effect] = []
        let named = namedOnly(state)
        let waiting = prioritized.filter(state.unfetched.contains) + state.unfetched + named
        for zone in waiting where inFlight.count < Self.maxConcurrentZones {
            guard inFlight[zone] == nil, outcome.zoneFailures[zone] == nil, !backingOff.contains(zone),
                scope.contains(zone)
            else { continue }
            inFlight[zone] = Progress(isNamedOnly: named.contains(zone))
            effects += [.zoneBegins(zone), .askZone(zone, since: state.zoneTokens[zone])]
        }
        return effects
    }

    /// Returns the zones that the scope names and the database's complete feed does not name.
    ///
    /// Such a zone is asked for so that the caller learns that it does not exist. The default zone has no feed.
    private func namedOnly(_ state: FeedState) -> [ZoneID] {
        guard outcome.reachedDatabaseEnd, case .only(let zones) = scope else { return [] }
        return
            zones
            .filter { !$0.isDefault && state.zoneTokens[$0] == nil && !state.unfetched.contains($0) }
            .sorted { ($0.owner.recordName, $0.zoneName) < ($1.owner.recordName, $1.zoneName) }
    }
}
