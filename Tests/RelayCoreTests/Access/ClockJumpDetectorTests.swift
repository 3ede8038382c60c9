import Records
import RelayCore
import Synchronization
import Testing

/// When the calendar clock is trusted for expiring old data.
@Suite struct ClockJumpDetectorTests {
    private final class Clocks: Sendable {
        private let state = Mutex((now: Timestamp(milliseconds: 1_800_000_000_000), uptime: Duration.zero))

        /// Lets time pass.
        func advance(_ duration: Duration) { state.withLock { $0 = ($0.now + duration, $0.uptime + duration) } }

        /// Sets the calendar clock.
        func leap(_ duration: Duration) { state.withLock { $0.now = $0.now + duration } }

        var source: TimeSource {
            TimeSource(now: { self.state.withLock { $0.now } }, uptime: { self.state.withLock { $0.uptime } })
        }
    }

    private let clocks = Clocks()

    @Test func passingTimeIsTrusted() {
        let watch = ClockJumpDetector(clocks.source)
        for step in [1, 300, 86_400, 365 * 86_400] {
            clocks.advance(.seconds(step))
            #expect(watch.isReliable())
        }
    }

    @Test func aSmallOrBackwardCorrectionIsTrusted() {
        let watch = ClockJumpDetector(clocks.source)
        for leap in [-2, 2, 3_600, -3_600, -10 * 365 * 86_400] {
            clocks.leap(.seconds(leap))
            #expect(watch.isReliable())
        }
    }

    @Test func aLeapAheadIsTrustedAfterADay() {
        let watch = ClockJumpDetector(clocks.source)
        clocks.leap(.seconds(10 * 365 * 86_400))
        #expect(!watch.isReliable())
        clocks.advance(.seconds(86_399))
        #expect(!watch.isReliable())
        clocks.advance(.seconds(1))
        #expect(watch.isReliable())
    }
}
