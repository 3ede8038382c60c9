import Records
import SyncCore
import Testing

@Suite struct PublicPollTests {
    private var random = HighestRandom()
    private var poll = PublicPoll(types: ["Post"])

    private func seen(_ name: String, _ tag: String, _ seconds: Int64) -> PublicPoll.ListedRecord {
        PublicPoll.ListedRecord(recordName: name, changeTag: tag, modified: Timestamp(milliseconds: seconds * 1000))
    }

    @Test mutating func theFirstPollFetchesEverythingAndLaterOnesOverlapTheWatermark() {
        #expect(poll.handle(.started, at: at(0), using: &random).contains(.query(type: "Post", since: nil)))
        let first = poll.handle(
            .page(type: "Post", [seen("a", "1", 100), seen("b", "2", 200)], moreComing: false),
            at: at(1),
            using: &random
        )
        #expect(
            first == [
                .apply(type: "Post", positions: [0, 1]), .ended(type: "Post", nil), .pollEnded, .wake(at: at(1800)),
            ]
        )
        #expect(poll.handle(.timerFired, at: at(1799), using: &random) == [.wake(at: at(1800))])
        let second = poll.handle(.timerFired, at: at(1800), using: &random)
        #expect(second.contains(.query(type: "Post", since: Timestamp(milliseconds: 195_000))))
    }

    @Test mutating func knownVersionsAreNotAppliedAgainAndNewOnesAre() {
        _ = poll.handle(.started, at: at(0), using: &random)
        _ = poll.handle(.page(type: "Post", [seen("a", "1", 100)], moreComing: false), at: at(1), using: &random)
        _ = poll.handle(.pollNow, at: at(2), using: &random)
        let same = poll.handle(.page(type: "Post", [seen("a", "1", 100)], moreComing: false), at: at(3), using: &random)
        #expect(!same.contains { if case .apply = $0 { true } else { false } }, "no local write without changes")
        _ = poll.handle(.pollNow, at: at(4), using: &random)
        let changed = poll.handle(
            .page(type: "Post", [seen("a", "1", 100), seen("a", "2", 100)], moreComing: false),
            at: at(5),
            using: &random
        )
        #expect(changed.first == .apply(type: "Post", positions: [1]))
    }

    /// A relay may report any modification time.
    @Test(arguments: [Int64.min, .max]) mutating func extremeModificationTimesAreHandled(_ end: Int64) {
        let strange = PublicPoll.ListedRecord(recordName: "a", changeTag: "1", modified: Timestamp(milliseconds: end))
        _ = poll.handle(.started, at: at(0), using: &random)
        let page = poll.handle(.page(type: "Post", [strange], moreComing: false), at: at(1), using: &random)
        #expect(page.first == .apply(type: "Post", positions: [0]))
        let next = poll.handle(.pollNow, at: at(2), using: &random)
        let since = Timestamp(milliseconds: end == .min ? .min : .max - 5_000)
        #expect(next.contains(.query(type: "Post", since: since)))
    }

    @Test mutating func pagesAreFollowedAndTheMarksStaySmall() {
        _ = poll.handle(.started, at: at(0), using: &random)
        for page in 0..<100 {
            let rows = (0..<20).map { seen("r\(page)-\($0)", "t", Int64(page * 20 + $0)) }
            let effects = poll.handle(
                .page(type: "Post", rows, moreComing: page < 99),
                at: at(1),
                using: &random
            )
            #expect(effects.contains(.nextPage(type: "Post")) == (page < 99))
        }
        #expect((poll.marks["Post"]?.recent.count ?? 0) <= 11)
    }

    @Test mutating func aFailureIsRetriedSoonAndARefusalAtTheNextPoll() {
        _ = poll.handle(.started, at: at(0), using: &random)
        let network = poll.handle(.failed(type: "Post", SyncFailure(.network)), at: at(0), using: &random)
        guard case .wake(let soon?)? = network.last else {
            Issue.record("no retry")
            return
        }
        #expect(soon <= at(1))
        _ = poll.handle(.timerFired, at: at(1), using: &random)
        let refused = poll.handle(.failed(type: "Post", SyncFailure(.refused)), at: at(1), using: &random)
        #expect(refused.last == .wake(at: at(1801)))
    }

    @Test mutating func noPollStartsByItselfWhileTheRelayAsksToWait() {
        _ = poll.handle(.backingOff(until: at(60)), at: at(0), using: &random)
        #expect(poll.handle(.started, at: at(0), using: &random) == [.wake(at: at(60))])
        #expect(poll.handle(.timerFired, at: at(59), using: &random) == [.wake(at: at(60))])
        #expect(poll.handle(.timerFired, at: at(60), using: &random).contains(.query(type: "Post", since: nil)))
        _ = poll.handle(.page(type: "Post", [], moreComing: false), at: at(61), using: &random)
        // A later wake-up stays as scheduled; the application may poll at any time.
        #expect(poll.handle(.backingOff(until: at(120)), at: at(62), using: &random) == [.wake(at: at(1860))])
        #expect(poll.handle(.backingOff(until: at(4000)), at: at(62), using: &random) == [.wake(at: at(4000))])
        #expect(poll.handle(.pollNow, at: at(63), using: &random).contains(.query(type: "Post", since: nil)))
    }

    @Test mutating func aRequestDuringAPollStartsAnotherPoll() {
        _ = poll.handle(.started, at: at(0), using: &random)
        #expect(poll.handle(.pollNow, at: at(1), using: &random).isEmpty)
        let effects = poll.handle(.page(type: "Post", [], moreComing: false), at: at(2), using: &random)
        #expect(effects.contains(.query(type: "Post", since: nil)))
    }
}
