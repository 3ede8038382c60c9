package import Records

/// One walk through a database's feed: which zones changed, then each zone's pages to the end.
///
///     began -> [database pages] -> zones, several at a time, each page by page -> finished
///
/// The caller performs the effects, applies each page **before** it reports the page here, and keeps the `FeedState` in
/// the same transaction as the data: so a token never covers data that are not stored. See Sync.md, "Fetching".
package struct FetchRound: Sendable {
    package enum Event: Sendable {
        case began
        case databasePage(changed: [ZoneID], deleted: [ZoneID], token: SyncToken, moreComing: Bool)
        case databaseFailed(Trouble)
        /// With a `failure`, the relay could not give every record of the page.
        case zonePage(ZoneID, token: SyncToken, moreComing: Bool, failure: Trouble? = nil)
        case zoneFailed(ZoneID, Trouble)
        /// A notice came in while the round was under way: fetch that zone (again).
        case noticed(ZoneID)
    }

    package enum Effect: Equatable, Sendable {
        case askDatabase(since: SyncToken?)
        /// The first request for a zone in this round follows.
        case zoneBegins(ZoneID)
        case askZone(ZoneID, since: SyncToken?)
        case zoneEnded(ZoneID, Trouble?)
        case finished(Outcome)
    }

    package struct Outcome: Equatable, Sendable {
        /// What stopped the whole round.
        package var trouble: Trouble?
        /// What stopped single zones.
        package var zoneTroubles: [ZoneID: Trouble] = [:]
        package var fetched: Set<ZoneID> = []
        /// The database was asked to the end.
        package var sawDatabase = false

        package init() {}
    }

    /// At most this many zones are asked at a time.
    static let parallel = 4
    /// A page that repeats its token and promises more is believed this often.
    package static let maxRepeats = 3

    /// A feed being followed: for the relay that contradicts itself.
    private struct Progress {
        var expiredOnce = false
        var repeats = 0
        /// A notice came while a page was under way, which may have been read before the change.
        var isStale = false
        /// Why a record did not come: the zone is not done then, and what is known of it ends before that page.
        var failure: Trouble?
        /// Where the next page begins after that one.
        var beyond: SyncToken?

        /// The token is no longer served: all comes again.
        mutating func startsOver() {
            expiredOnce = true
            (failure, beyond) = (nil, nil)
        }

        /// Counts pages that promise more and do not move.
        ///
        /// `false`: enough of that.
        mutating func accepts(_ token: SyncToken, after old: SyncToken?, moreComing: Bool) -> Bool {
            repeats = moreComing && token == old ? repeats + 1 : 0
            return repeats < FetchRound.maxRepeats
        }
    }

    private let scope: ZoneScope
    private let prioritized: [ZoneID]
    private let held: Set<ZoneID>
    private var needsDatabase: Bool
    private var isAskingDatabase = false
    private var database = Progress()
    private var inFlight: [ZoneID: Progress] = [:]
    private var outcome = Outcome()
    /// Zones that were gone when they were asked for, and then changed: made anew in between.
    private var returned: Set<ZoneID> = []
    private var isFinished = false

    /// A round to come.
    ///
    /// `asksDatabase` is `false` for a notice about a known zone, which goes to that zone directly. `prioritized` zones are
    /// asked before all others, in their order. `held` ones asked for patience and wait for a later round.
    package init(asksDatabase: Bool, scope: ZoneScope = .all, prioritized: [ZoneID] = [], held: Set<ZoneID> = []) {
        needsDatabase = asksDatabase
        self.scope = scope
        self.prioritized = prioritized
        self.held = held
    }

    package mutating func handle(_ event: Event, state: inout FeedState) -> [Effect] {
        var effects: [Effect] = []
        switch event {
        case .began: break
        case .databasePage(let changed, let deleted, let token, let moreComing):
            databasePage(changed, deleted, token, moreComing, &state)
        case .databaseFailed(let trouble): databaseFailed(trouble, &state)
        case .zonePage(let zone, let token, let moreComing, let failure):
            effects += zonePage(zone, token, moreComing, failure, &state)
        case .zoneFailed(let zone, let trouble): effects += zoneFailed(zone, trouble, &state)
        case .noticed(let zone):
            // The zone's next page asks once more; what is not under way is picked up when some answer comes in.
            inFlight[zone]?.isStale = true
            return []
        }
        return effects + next(&state)
    }

    /// A notice about this zone needs no round of its own: this one will see to it.
    package func covers(_ zone: ZoneID) -> Bool {
        !isFinished && outcome.trouble == nil && outcome.zoneTroubles[zone] == nil && !held.contains(zone)
            && scope.contains(zone)
    }

    // MARK: The database

    private mutating func databasePage(
        _ changed: [ZoneID],
        _ deleted: [ZoneID],
        _ token: SyncToken,
        _ moreComing: Bool,
        _ state: inout FeedState
    ) {
        isAskingDatabase = false
        deleted.forEach { state.toldOfLoss($0) }
        for zone in changed {
            state.changed(zone)
            // Once in a round: a relay may say both for ever.
            if outcome.zoneTroubles[zone]?.kind == .zoneGone, returned.insert(zone).inserted {
                outcome.zoneTroubles[zone] = nil
            }
        }
        let isSound = database.accepts(token, after: state.databaseToken, moreComing: moreComing)
        state.databaseToken = token
        guard isSound else {
            outcome.trouble = Trouble(.protocolBroken)
            return
        }
        guard !moreComing else { return }
        state.listingEnds()
        guard state.databaseToken != nil else { return }
        needsDatabase = false
        outcome.sawDatabase = true
    }

    private mutating func databaseFailed(_ trouble: Trouble, _ state: inout FeedState) {
        isAskingDatabase = false
        guard trouble.kind == .tokenExpired else {
            outcome.trouble = trouble
            return
        }
        state.databaseToken = nil
        // Twice in a row would be a loop.
        if database.expiredOnce { outcome.trouble = trouble }
        database.expiredOnce = true
    }

    // MARK: Zones

    private mutating func zonePage(
        _ zone: ZoneID,
        _ token: SyncToken,
        _ moreComing: Bool,
        _ failure: Trouble?,
        _ state: inout FeedState
    ) -> [Effect] {
        guard var progress = inFlight[zone] else { return [] }
        let asked = progress.beyond ?? state.zoneTokens[zone]
        let isSound = progress.accepts(token, after: asked, moreComing: moreComing)
        progress.failure = progress.failure ?? failure
        // A token says that all before it is here. One record that does not come holds back no other; it is asked for again,
        // with what came after it, when the zone is.
        if progress.failure == nil { state.zoneTokens[zone] = token } else { progress.beyond = token }
        guard isSound else { return end(zone, Trouble(.protocolBroken)) }
        if moreComing || progress.isStale {
            progress.isStale = progress.isStale && moreComing
            inFlight[zone] = progress
            return outcome.trouble == nil ? [.askZone(zone, since: token)] : end(zone, progress.failure)
        }
        if let failure = progress.failure { return end(zone, failure) }
        state.fetched(zone)
        outcome.fetched.insert(zone)
        return end(zone, nil)
    }

    private mutating func zoneFailed(_ zone: ZoneID, _ trouble: Trouble, _ state: inout FeedState) -> [Effect] {
        guard let progress = inFlight[zone] else { return [] }
        switch trouble.kind {
        case .tokenExpired where !progress.expiredOnce:
            state.zoneTokens[zone] = nil
            inFlight[zone]?.startsOver()
            return [.askZone(zone, since: nil)]
        case .tokenExpired:
            state.zoneTokens[zone] = nil
        case .zoneGone:
            state.foundGone(zone)
            // Only the database's feed says what became of it, also where it was asked before: the zone went since. Once for
            // each zone at the most, since none is asked for again in a round that did not find it.
            needsDatabase = true
        case .network, .busy, .account, .cancelled:
            // The other zones would meet the same.
            outcome.trouble = outcome.trouble ?? trouble
        case .zoneBusy, .limitExceeded, .protocolBroken, .refused: break
        }
        return end(zone, trouble)
    }

    private mutating func end(_ zone: ZoneID, _ trouble: Trouble?) -> [Effect] {
        inFlight[zone] = nil
        if let trouble { outcome.zoneTroubles[zone] = trouble }
        return [.zoneEnded(zone, trouble)]
    }

    // MARK: What to do now

    private mutating func next(_ state: inout FeedState) -> [Effect] {
        guard !isFinished, !isAskingDatabase else { return [] }
        var effects: [Effect] = []
        if outcome.trouble == nil {
            if needsDatabase, inFlight.isEmpty {
                isAskingDatabase = true
                if state.databaseToken == nil { state.listingBegins() }
                return [.askDatabase(since: state.databaseToken)]
            } else if !needsDatabase {
                effects = beginZones(state)
            }
        }
        if inFlight.isEmpty, effects.isEmpty, outcome.trouble != nil || !needsDatabase {
            isFinished = true
            effects.append(.finished(outcome))
        }
        return effects
    }

    private mutating func beginZones(_ state: FeedState) -> [Effect] {
        var effects: [Effect] = []
        let waiting = prioritized.filter(state.unfetched.contains) + state.unfetched
        for zone in waiting where inFlight.count < Self.parallel {
            guard inFlight[zone] == nil, outcome.zoneTroubles[zone] == nil, !held.contains(zone), scope.contains(zone)
            else { continue }
            inFlight[zone] = Progress()
            effects += [.zoneBegins(zone), .askZone(zone, since: state.zoneTokens[zone])]
        }
        return effects
    }
}
