import Records
import RelayCore
import Synchronization
import Testing

/// When the calendar's clock may say what is old, and when not.
@Suite struct CalendarWatchTests {
    private final class Clocks: Sendable {
        private let state = Mutex((now: Timestamp(milliseconds: 1_800_000_000_000), uptime: Duration.zero))

        /// Time passes.
        func advance(_ duration: Duration) { state.withLock { $0 = ($0.now + duration, $0.uptime + duration) } }

        /// Somebody sets the calendar's clock.
        func leap(_ duration: Duration) { state.withLock { $0.now = $0.now + duration } }

        var source: TimeSource {
            TimeSource(now: { self.state.withLock { $0.now } }, uptime: { self.state.withLock { $0.uptime } })
        }
    }

    private let clocks = Clocks()

    @Test func timeThatPassesIsNoLeap() {
        let watch = CalendarWatch(clocks.source)
        for step in [1, 300, 86_400, 365 * 86_400] {
            clocks.advance(.seconds(step))
            #expect(watch.isSteady())
        }
    }

    @Test func aClockThatIsPutRightByALittleOrBackIsTrusted() {
        let watch = CalendarWatch(clocks.source)
        for leap in [-2, 2, 3_600, -3_600, -10 * 365 * 86_400] {
            clocks.leap(.seconds(leap))
            #expect(watch.isSteady())
        }
    }

    @Test func aLeapAheadIsWaitedOutForADay() {
        let watch = CalendarWatch(clocks.source)
        clocks.leap(.seconds(10 * 365 * 86_400))
        #expect(!watch.isSteady())
        clocks.advance(.seconds(86_399))
        #expect(!watch.isSteady())
        clocks.advance(.seconds(1))
        #expect(watch.isSteady())
    }
}
