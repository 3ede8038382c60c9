import Records
import SyncCore
import Testing

@Suite struct FetchRoundTests {
    private let t1 = SyncToken("1")
    private let t2 = SyncToken("2")
    private let t3 = SyncToken("3")

    @Test func aRoundFetchesTheDatabaseAndThenItsZones() {
        var state = FeedState()
        var round = FetchRound(asksDatabase: true)
        #expect(round.handle(.began, state: &state) == [.askDatabase(since: nil)])
        #expect(
            round.handle(.databasePage(changed: [notes], deleted: [], token: t1, moreComing: false), state: &state)
                == [.zoneBegins(notes), .askZone(notes, since: nil)]
        )
        #expect(state.unfetched == [notes])
        #expect(
            round.handle(.zonePage(notes, token: t1, moreComing: true), state: &state) == [.askZone(notes, since: t1)]
        )
        var outcome = FetchRound.Outcome()
        outcome.fetched = [notes]
        outcome.reachedDatabaseEnd = true
        #expect(
            round.handle(.zonePage(notes, token: t2, moreComing: false), state: &state)
                == [.zoneEnded(notes, nil), .finished(outcome)]
        )
        #expect(state == FeedState(databaseToken: t1, zoneTokens: [notes: t2]))
    }

    @Test func aDeletedZoneIsForgotten() {
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: true)
        _ = round.handle(.began, state: &state)
        _ = round.handle(.databasePage(changed: [], deleted: [notes], token: t2, moreComing: false), state: &state)
        #expect(state == FeedState(databaseToken: t2))
    }

    @Test func aNoticeOfAKnownZoneFetchesTheZoneDirectly() {
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1])
        let known = state.noticed(notes, token: t1)
        let new = state.noticed(notes, token: t2)
        #expect(!known, "the token is known already")
        #expect(new)
        var round = FetchRound(asksDatabase: false)
        #expect(round.handle(.began, state: &state) == [.zoneBegins(notes), .askZone(notes, since: t1)])
    }

    /// Otherwise records of the zone that the current round has fetched would be reported as deleted with the earlier
    /// zone of this name.
    @Test func aNoticeOfAnUnknownZoneWaitsForTheDatabasesFeed() {
        var state = FeedState(databaseToken: t1, vanished: [notes])
        let new = state.noticed(notes, token: t2)
        #expect(new && state.unfetched.isEmpty)
        var round = FetchRound(asksDatabase: false)
        #expect(round.handle(.began, state: &state) == [.finished(FetchRound.Outcome())])
        let missing = state.missing(after: [notes], moreComing: false)
        round = FetchRound(asksDatabase: true)
        _ = round.handle(.began, state: &state)
        let page = FetchRound.Event.databasePage(changed: [notes], deleted: [], token: t2, moreComing: false)
        #expect(round.handle(page, state: &state) == [.zoneBegins(notes), .askZone(notes, since: nil)])
        #expect(missing.isEmpty && state.vanished.isEmpty)
    }

    /// No token covers the record that could not be fetched; records after it are still fetched.
    @Test func aRecordThatCannotBeFetchedKeepsTheZonesToken() {
        var state = FeedState(zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        let refused = SyncFailure(.refused)
        #expect(
            round.handle(.zonePage(notes, token: t2, moreComing: true, failure: refused), state: &state)
                == [.askZone(notes, since: t2)]
        )
        #expect(state.zoneTokens[notes] == t1)
        let last = round.handle(.zonePage(notes, token: t3, moreComing: false), state: &state)
        #expect(last.first == .zoneEnded(notes, refused))
        #expect(state.zoneTokens[notes] == t1 && state.unfetched == [notes])
    }

    @Test func aNoticeDuringAFetchRepeatsTheFetch() {
        var state = FeedState(zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        #expect(round.handle(.noticed(notes), state: &state).isEmpty)
        #expect(
            round.handle(.zonePage(notes, token: t2, moreComing: false), state: &state) == [.askZone(notes, since: t2)]
        )
        let last = round.handle(.zonePage(notes, token: t2, moreComing: false), state: &state)
        #expect(last.first == .zoneEnded(notes, nil))
    }

    @Test func anExpiredTokenCausesOneFullFetchPerRound() {
        var state = FeedState(zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        let expired = SyncFailure(.tokenExpired)
        #expect(round.handle(.zoneFailed(notes, expired), state: &state) == [.askZone(notes, since: nil)])
        #expect(round.handle(.zoneFailed(notes, expired), state: &state).first == .zoneEnded(notes, expired))
        #expect(state.zoneTokens[notes] == nil)
        #expect(state.unfetched == [notes], "a later round tries again")
    }

    @Test func anExpiredDatabaseTokenTwiceEndsTheRound() {
        var state = FeedState(databaseToken: t1)
        var round = FetchRound(asksDatabase: true)
        _ = round.handle(.began, state: &state)
        let expired = SyncFailure(.tokenExpired)
        #expect(round.handle(.databaseFailed(expired), state: &state) == [.askDatabase(since: nil)])
        var outcome = FetchRound.Outcome()
        outcome.syncFailure = expired
        #expect(round.handle(.databaseFailed(expired), state: &state) == [.finished(outcome)])
    }

    @Test func aFeedWhoseTokenDoesNotAdvanceIsAbandoned() {
        var state = FeedState(zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        var asked = 0
        var effects = round.handle(.zonePage(notes, token: t1, moreComing: true), state: &state)
        while case .askZone = effects.first, asked < 100 {
            asked += 1
            effects = round.handle(.zonePage(notes, token: t1, moreComing: true), state: &state)
        }
        #expect(asked == 2, "three repeats in all")
        #expect(effects.first == .zoneEnded(notes, SyncFailure(.protocolViolation)))
    }

    @Test func aMissingZoneCausesADatabaseFetch() {
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        let gone = SyncFailure(.zoneNotFound)
        #expect(
            round.handle(.zoneFailed(notes, gone), state: &state) == [.zoneEnded(notes, gone), .askDatabase(since: t1)]
        )
    }

    @Test func aZoneDeletedDuringTheRoundCausesADatabaseFetch() {
        var state = FeedState()
        var round = FetchRound(asksDatabase: true)
        _ = round.handle(.began, state: &state)
        _ = round.handle(.databasePage(changed: [notes], deleted: [], token: t1, moreComing: false), state: &state)
        _ = round.handle(.zonePage(notes, token: t1, moreComing: true), state: &state)
        let gone = SyncFailure(.zoneNotFound)
        #expect(
            round.handle(.zoneFailed(notes, gone), state: &state) == [.zoneEnded(notes, gone), .askDatabase(since: t1)]
        )
        let end = round.handle(
            .databasePage(changed: [], deleted: [notes], token: t2, moreComing: false),
            state: &state
        )
        #expect(end.count == 1)
        #expect(state == FeedState(databaseToken: t2))
    }

    /// Zones that ended together with the former zone are gone before the new zone is listed.
    @Test func aReplacedZoneIsListedAfterTheDatabasesFeed() {
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1, work: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        #expect(round.handle(.zoneReplaced(notes), state: &state) == [.askDatabase(since: t1)])
        let page = FetchRound.Event.databasePage(changed: [notes], deleted: [work], token: t2, moreComing: false)
        #expect(round.handle(page, state: &state) == [.askZone(notes, since: nil)])
        #expect(state.zoneTokens == [:])
        let end = round.handle(.zonePage(notes, token: t3, moreComing: false), state: &state)
        #expect(end.first == .zoneEnded(notes, nil) && end.count == 2)
        #expect(state == FeedState(databaseToken: t2, zoneTokens: [notes: t3]))
    }

    @Test func aReplacedZoneWaitsForTheOtherZonesInProgress() {
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1, work: t1], unfetched: [notes, work])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        #expect(round.handle(.zoneReplaced(notes), state: &state).isEmpty)
        #expect(
            round.handle(.zonePage(work, token: t2, moreComing: false), state: &state)
                == [.zoneEnded(work, nil), .askDatabase(since: t1)]
        )
        // Without the feed, nothing is listed in this round.
        let failure = SyncFailure(.network)
        let end = round.handle(.databaseFailed(failure), state: &state)
        #expect(end.first == .zoneEnded(notes, failure) && end.count == 2)
        #expect(state.zoneTokens[notes] == nil && state.unfetched == [notes], "a later round tries again")
    }

    /// A relay that keeps replacing the zone cannot keep the round going.
    @Test func aZoneReplacedTwiceFailsInThatRound() {
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        _ = round.handle(.zoneReplaced(notes), state: &state)
        _ = round.handle(.databasePage(changed: [notes], deleted: [], token: t2, moreComing: false), state: &state)
        let end = round.handle(.zoneReplaced(notes), state: &state)
        #expect(end.first == .zoneEnded(notes, SyncFailure(.tokenExpired)) && end.count == 2)
    }

    /// The notices of the new zone came while it was missing, and no other follows.
    @Test func aZoneRecreatedMeanwhileIsFetchedInTheSameRound() {
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1], unfetched: [notes])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        _ = round.handle(.zoneFailed(notes, SyncFailure(.zoneNotFound)), state: &state)
        let back = round.handle(
            .databasePage(changed: [notes], deleted: [], token: t2, moreComing: false),
            state: &state
        )
        #expect(back.contains(.zoneBegins(notes)))
        // If a relay keeps contradicting itself, the round ends.
        _ = round.handle(.zoneFailed(notes, SyncFailure(.zoneNotFound)), state: &state)
        let end = round.handle(
            .databasePage(changed: [notes], deleted: [], token: t3, moreComing: false),
            state: &state
        )
        #expect(end.count == 1 && !end.contains(.zoneBegins(notes)))
    }

    @Test func aZoneWrittenDuringADatabaseFetchCausesAnotherOne() {
        var state = FeedState()
        var round = FetchRound(asksDatabase: true)
        _ = round.handle(.began, state: &state)
        state.wrote(work)
        #expect(state.missing(after: [], moreComing: false, besides: [notes, work]) == [notes])
        let again = round.handle(.databasePage(changed: [], deleted: [], token: t1, moreComing: false), state: &state)
        #expect(again == [.askDatabase(since: nil)])
        #expect(state.missing(after: [], moreComing: false, besides: [work]) == [work])
        _ = round.handle(.databasePage(changed: [], deleted: [work], token: t2, moreComing: false), state: &state)
        #expect(state == FeedState(databaseToken: t2))
    }

    @Test func aNetworkFailureEndsTheRoundAndKeepsItsZonesPending() {
        var state = FeedState(zoneTokens: [notes: t1, work: t1], unfetched: [notes, work])
        var round = FetchRound(asksDatabase: false)
        _ = round.handle(.began, state: &state)
        let first = round.handle(.zoneFailed(notes, SyncFailure(.network)), state: &state)
        #expect(first == [.zoneEnded(notes, SyncFailure(.network))], "the other response is still pending")
        let last = round.handle(.zonePage(work, token: t2, moreComing: true), state: &state)
        #expect(last.count == 2)
        #expect(state.unfetched == [notes, work])
        #expect(state.zoneTokens[work] == t2)
    }

    @Test func fourZonesAreFetchedAtATimePrioritizedFirstAndHeldNotAtAll() {
        let zones = (0..<7).map { ZoneID("Z\($0)") }
        var state = FeedState(unfetched: zones)
        var round = FetchRound(
            asksDatabase: false,
            scope: .allExcluding([zones[1]]),
            prioritized: [zones[6]],
            backingOff: [zones[0]]
        )
        let begun = round.handle(.began, state: &state).compactMap { effect -> ZoneID? in
            if case .zoneBegins(let zone) = effect { zone } else { nil }
        }
        #expect(begun == [zones[6], zones[2], zones[3], zones[4]])
    }

    private func askedInScope(_ scope: [ZoneID], state: inout FeedState) -> (FetchRound, [FetchRound.Effect]) {
        var round = FetchRound(asksDatabase: true, scope: .only(Set(scope)))
        _ = round.handle(.began, state: &state)
        let effects = round.handle(
            .databasePage(changed: [], deleted: [], token: t2, moreComing: false),
            state: &state
        )
        return (round, effects)
    }

    @Test("a zone that is in the scope and not in the feed is requested, and its absence is reported once")
    func namedAndMissing() {
        let missing = SyncFailure(.zoneNotFound)
        var state = FeedState(databaseToken: t1, zoneTokens: [notes: t1])
        let (asked, effects) = askedInScope([notes, work, ZoneID(ZoneID.defaultName)], state: &state)
        var round = asked
        #expect(effects == [.zoneBegins(work), .askZone(work, since: nil)], "a known zone has not changed")
        var outcome = FetchRound.Outcome()
        outcome.reachedDatabaseEnd = true
        outcome.zoneFailures = [work: missing]
        #expect(
            round.handle(.zoneFailed(work, missing), state: &state)
                == [.zoneEnded(work, missing), .finished(outcome)]
        )
        #expect(state == FeedState(databaseToken: t2, zoneTokens: [notes: t1]), "the missing zone leaves no state")
    }

    @Test("a zone that is in the scope and not in the feed is fetched if it exists")
    func namedAndThere() {
        var state = FeedState(databaseToken: t1)
        var (round, _) = askedInScope([work], state: &state)
        let end = round.handle(.zonePage(work, token: t3, moreComing: false), state: &state)
        #expect(end.first == .zoneEnded(work, nil) && end.count == 2)
        #expect(state.zoneTokens == [work: t3])
        // Without the database's feed the existing zones are unknown.
        var direct = FetchRound(asksDatabase: false, scope: .only([notes]))
        #expect(direct.handle(.began, state: &state) == [.finished(FetchRound.Outcome())])
    }

    @Test func aNoticeDuringADatabaseFetchSendsNoSecondRequest() {
        var state = FeedState()
        var round = FetchRound(asksDatabase: true)
        _ = round.handle(.began, state: &state)
        #expect(round.handle(.noticed(notes), state: &state).isEmpty)
    }
}
