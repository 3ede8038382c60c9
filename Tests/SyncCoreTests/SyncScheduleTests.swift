import Records
import SyncCore
import Testing

@Suite struct SyncScheduleTests {
    private static func begun(_ settings: SyncSchedule.Settings = .init()) -> SyncSchedule {
        var random = HighestRandom()
        var schedule = SyncSchedule(settings: settings)
        _ = schedule.handle(.started, at: at(0), using: &random)
        _ = schedule.handle(.channelOpened, at: at(0), using: &random)
        _ = schedule.handle(.fetchFinished(.init()), at: at(0), using: &random)
        _ = schedule.handle(.fetchFinished(.init()), at: at(0), using: &random)
        return schedule
    }

    private static func failed(_ syncFailure: SyncFailure) -> FetchRound.Outcome {
        var outcome = FetchRound.Outcome()
        outcome.syncFailure = syncFailure
        return outcome
    }

    private var random = HighestRandom()

    @Test mutating func theDatabaseIsFetchedAtTheStartAndAfterEveryReconnection() {
        var schedule = SyncSchedule()
        let first = schedule.handle(.started, at: at(0), using: &random)
        #expect(first.first == .fetch(asksDatabase: true, backingOff: []))
        #expect(schedule.handle(.channelOpened, at: at(0.1), using: &random) == [.wake(at: nil)])
        let again = schedule.handle(.fetchFinished(.init()), at: at(0.2), using: &random)
        #expect(again == [.fetch(asksDatabase: true, backingOff: []), .wake(at: nil)])
    }

    @Test mutating func aNoticeFetchesItsZoneOnly() {
        var schedule = Self.begun()
        #expect(
            schedule.handle(.noticed(notes), at: at(1), using: &random).first
                == .fetch(asksDatabase: false, backingOff: [])
        )
        #expect(schedule.handle(.noticed(work), at: at(1), using: &random) == [.wake(at: nil)], "one round at a time")
        #expect(
            schedule.handle(.fetchFinished(.init()), at: at(2), using: &random).first
                == .fetch(asksDatabase: false, backingOff: [])
        )
    }

    @Test mutating func theFirstEditIsSentAtOnceAndTheNextOnesWithin50Milliseconds() {
        var schedule = Self.begun()
        #expect(
            schedule.handle(.outboxChanged(isEmpty: false), at: at(1), using: &random) == [.send, .wake(at: nil)]
        )
        _ = schedule.handle(.outboxChanged(isEmpty: true), at: at(1.01), using: &random)
        _ = schedule.handle(.sendFinished(.init(madeProgress: true)), at: at(1.01), using: &random)
        #expect(
            schedule.handle(.outboxChanged(isEmpty: false), at: at(1.02), using: &random) == [.wake(at: at(1.05))]
        )
        #expect(schedule.handle(.timerFired, at: at(1.05), using: &random) == [.send, .wake(at: nil)])
    }

    @Test mutating func withoutAChannelPollsHaveJitter() {
        var schedule = Self.begun()
        let lost = schedule.handle(.channelLost, at: at(10), using: &random)
        guard case .wake(let poll?)? = lost.last else {
            Issue.record("no poll was scheduled: \(lost)")
            return
        }
        #expect(poll - at(10) > .seconds(47) && poll - at(10) < .seconds(73))
        #expect(
            schedule.handle(.timerFired, at: poll, using: &random).first == .fetch(asksDatabase: true, backingOff: [])
        )
        let next = schedule.handle(.fetchFinished(.init()), at: poll, using: &random)
        guard case .wake(let later?)? = next.last else {
            Issue.record("no second poll: \(next)")
            return
        }
        #expect(later - poll > .seconds(47))
    }

    @Test("with a channel polls are rare and have jitter, and a database fetch postpones the next one")
    mutating func withAChannelPollsAreRare() {
        var schedule = SyncSchedule(settings: .engine)
        _ = schedule.handle(.started, at: at(0), using: &random)
        _ = schedule.handle(.channelOpened, at: at(0), using: &random)
        var seen = FetchRound.Outcome()
        seen.reachedDatabaseEnd = true
        func alarm(_ effects: [SyncSchedule.Effect]) -> Instant? {
            if case .wake(let moment)? = effects.last { moment } else { nil }
        }
        _ = schedule.handle(.fetchFinished(seen), at: at(1), using: &random)
        let first = alarm(schedule.handle(.fetchFinished(seen), at: at(2), using: &random))
        #expect(first.map { $0 - at(2) >= .seconds(480) && $0 - at(2) <= .seconds(720) } == true)
        // Neither a round for one zone nor a failure postpones the poll.
        _ = schedule.handle(.noticed(notes), at: at(100), using: &random)
        #expect(alarm(schedule.handle(.fetchFinished(.init()), at: at(101), using: &random)) == first)
        let due = first ?? at(0)
        #expect(
            schedule.handle(.timerFired, at: due, using: &random).first == .fetch(asksDatabase: true, backingOff: [])
        )
        let next = alarm(schedule.handle(.fetchFinished(seen), at: due, using: &random))
        #expect(next.map { $0 - due >= .seconds(480) && $0 - due <= .seconds(720) } == true)
        // Without the channel the short interval applies, whatever was scheduled.
        let lost = alarm(schedule.handle(.channelLost, at: due, using: &random))
        #expect(lost.map { $0 - due < .seconds(73) } == true)
    }

    @Test mutating func repeatedFailuresDoubleTheBackOffAndAreRetried() {
        var schedule = Self.begun()
        var now = at(5)
        _ = schedule.handle(.noticed(nil), at: now, using: &random)
        for expected in [1.0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let effects = schedule.handle(.fetchFinished(Self.failed(SyncFailure(.network))), at: now, using: &random)
            guard case .wake(let retry?)? = effects.last else {
                Issue.record("nothing scheduled after a failure")
                return
            }
            #expect(abs((retry - now).inSeconds - expected) < 0.001)
            now = retry
            #expect(
                schedule.handle(.timerFired, at: now, using: &random).first
                    == .fetch(asksDatabase: true, backingOff: [])
            )
        }
    }

    /// Applications cancel rounds, for example when a view disappears; that says nothing about the relay.
    @Test mutating func cancelledRoundsAreNotFailures() {
        var schedule = Self.begun()
        for _ in 0..<20 {
            _ = schedule.handle(.fetchBegan, at: at(5), using: &random)
            _ = schedule.handle(.fetchFinished(Self.failed(SyncFailure(.cancelled))), at: at(5), using: &random)
            _ = schedule.handle(.sendBegan, at: at(5), using: &random)
            _ = schedule.handle(.sendFinished(.init(syncFailure: SyncFailure(.cancelled))), at: at(5), using: &random)
        }
        #expect(schedule.handle(.noticed(notes), at: at(5.5), using: &random) == [.wake(at: at(6))])
        let later = schedule.handle(.outboxChanged(isEmpty: false), at: at(6), using: &random)
        #expect(later == [.fetch(asksDatabase: true, backingOff: []), .send, .wake(at: nil)])
    }

    @Test mutating func retryAfterAppliesExactlyToFetchesAndSends() {
        var schedule = Self.begun()
        _ = schedule.handle(.noticed(nil), at: at(5), using: &random)
        let patience = Self.failed(SyncFailure(.busy, retryAfter: .seconds(7200)))
        #expect(
            schedule.handle(.fetchFinished(patience), at: at(5), using: &random) == [.wake(at: at(7205))]
        )
        #expect(
            schedule.handle(.outboxChanged(isEmpty: false), at: at(6), using: &random) == [.wake(at: at(7205))]
        )
        #expect(
            schedule.handle(.channelOpened, at: at(7), using: &random) == [.wake(at: at(7205))],
            "a reconnection does not end the wait"
        )
        let effects = schedule.handle(.timerFired, at: at(7205), using: &random)
        #expect(effects.first == .fetch(asksDatabase: true, backingOff: []))
    }

    @Test mutating func aReconnectionEndsTheNetworkBackOffAndFetchesBeforeSending() {
        var schedule = Self.begun()
        _ = schedule.handle(.outboxChanged(isEmpty: false), at: at(1), using: &random)
        _ = schedule.handle(.channelLost, at: at(1), using: &random)
        for second in 1...9 {
            _ = schedule.handle(
                .sendFinished(.init(syncFailure: SyncFailure(.network))),
                at: at(Double(second)),
                using: &random
            )
        }
        let opened = schedule.handle(.channelOpened, at: at(10), using: &random)
        #expect(opened == [.fetch(asksDatabase: true, backingOff: []), .wake(at: nil)])
        let fetched = schedule.handle(.fetchFinished(.init()), at: at(10.1), using: &random)
        #expect(fetched == [.send, .wake(at: nil)])
    }

    @Test mutating func aBusyZoneDoesNotDelayFetchesOfOthers() {
        var schedule = Self.begun()
        _ = schedule.handle(.noticed(notes), at: at(1), using: &random)
        var outcome = FetchRound.Outcome()
        outcome.zoneFailures[notes] = SyncFailure(.zoneBusy, retryAfter: .seconds(30))
        #expect(schedule.handle(.fetchFinished(outcome), at: at(1), using: &random) == [.wake(at: at(31))])
        #expect(
            schedule.handle(.noticed(work), at: at(2), using: &random).first
                == .fetch(asksDatabase: false, backingOff: [notes])
        )
    }

    @Test mutating func aBusyZoneDoesNotDelaySendsToOthers() {
        var schedule = Self.begun()
        _ = schedule.handle(.outboxChanged(isEmpty: false), at: at(1), using: &random)
        var busy = SyncSchedule.SendOutcome()
        busy.zoneFailures[notes] = SyncFailure(.zoneBusy, retryAfter: .seconds(600))
        busy.onlyZonesBackingOffRemain = true
        #expect(schedule.handle(.sendFinished(busy), at: at(1), using: &random) == [.wake(at: at(601))])
        let edited = schedule.handle(.outboxChanged(isEmpty: false), at: at(2), using: &random)
        #expect(edited == [.send, .wake(at: nil)])
        #expect(schedule.zonesBackingOffFromSending(at: at(2)) == [notes])
        var rest = SyncSchedule.SendOutcome(madeProgress: true)
        rest.onlyZonesBackingOffRemain = true
        #expect(schedule.handle(.sendFinished(rest), at: at(3), using: &random) == [.wake(at: at(601))])
        #expect(schedule.handle(.timerFired, at: at(601), using: &random) == [.send, .wake(at: nil)])
        #expect(schedule.zonesBackingOffFromSending(at: at(601)).isEmpty)
    }

    @Test mutating func repeatedRefusalsBackOff() {
        var schedule = Self.begun()
        let refused = SyncSchedule.SendOutcome(hadRejections: true)
        _ = schedule.handle(.outboxChanged(isEmpty: false), at: at(1), using: &random)
        #expect(schedule.handle(.sendFinished(refused), at: at(2), using: &random).first == .send, "after a merge")
        let second = schedule.handle(.sendFinished(refused), at: at(3), using: &random)
        guard case .wake(let retry?)? = second.first else {
            Issue.record("sent again at once: \(second)")
            return
        }
        #expect(retry > at(3.5))
    }

    /// With a channel no poll would fetch again, so the announced changes would wait for the next notice.
    @Test mutating func aRefusedFetchIsRetriedWhileTheChannelIsOpen() {
        var schedule = Self.begun()
        _ = schedule.handle(.noticed(nil), at: at(1), using: &random)
        let refused = schedule.handle(.fetchFinished(Self.failed(SyncFailure(.refused))), at: at(1), using: &random)
        guard case .wake(let retry?)? = refused.last else {
            Issue.record("nothing scheduled: \(refused)")
            return
        }
        #expect(retry > at(1) && retry <= at(301))
        #expect(
            schedule.handle(.timerFired, at: retry, using: &random).first == .fetch(asksDatabase: true, backingOff: [])
        )
    }

    @Test(arguments: [SyncFailure.Kind.refused, .limitExceeded])
    mutating func aRefusedZoneIsRetried(_ kind: SyncFailure.Kind) {
        var schedule = Self.begun()
        _ = schedule.handle(.noticed(notes), at: at(1), using: &random)
        var now = at(1)
        for _ in 0..<12 {
            var outcome = FetchRound.Outcome()
            outcome.zoneFailures[notes] = SyncFailure(kind)
            let effects = schedule.handle(.fetchFinished(outcome), at: now, using: &random)
            guard case .wake(let retry?)? = effects.last else {
                Issue.record("nothing scheduled: \(effects)")
                return
            }
            #expect(retry > now && retry <= now + .seconds(300))
            now = retry
            let again = schedule.handle(.timerFired, at: now, using: &random)
            #expect(again.first == .fetch(asksDatabase: false, backingOff: []))
        }
    }

    @Test mutating func withoutAutomaticSyncNothingIsScheduled() {
        var settings = SyncSchedule.Settings()
        settings.isAutomatic = false
        var schedule = SyncSchedule(settings: settings)
        for event in [
            SyncSchedule.Event.started, .channelOpened, .noticed(nil), .outboxChanged(isEmpty: false), .timerFired,
        ] {
            #expect(schedule.handle(event, at: at(1), using: &random) == [.wake(at: nil)])
        }
    }

    @Test mutating func syncPausesWithoutAnAccountAndResumesWithOne() {
        var schedule = Self.begun()
        _ = schedule.handle(.accountChanged(isUsable: false), at: at(1), using: &random)
        #expect(schedule.handle(.outboxChanged(isEmpty: false), at: at(2), using: &random) == [.wake(at: nil)])
        let back = schedule.handle(.accountChanged(isUsable: true), at: at(3), using: &random)
        #expect(back.contains(.send) && back.contains(.fetch(asksDatabase: true, backingOff: [])))
    }
}
