import Records
import Synchronization

/// Tells whether the calendar's clock may decide that something is old enough to be removed for good.
///
/// A clock that is put ahead by mistake makes all things old at once, and who puts it right a little later does not bring
/// them back. So after a leap ahead nothing is removed for a day; what goes by refusals, such as a token's end, does not ask.
package final class CalendarWatch: Sendable {
    private struct Look {
        var now: Timestamp
        var uptime: Duration
        /// When the clock last leapt ahead, by uptime.
        var leap: Duration?
    }

    /// Clocks that are put right by so much were right enough.
    private static let tolerance = Duration.seconds(3_600)
    private static let patience = Duration.seconds(86_400)

    private let time: TimeSource
    private let look: Mutex<Look>

    package init(_ time: TimeSource) {
        self.time = time
        look = Mutex(Look(now: time.now(), uptime: time.uptime()))
    }

    /// To be asked before each removal, and every few minutes or hours: a leap shows between two looks.
    package func isSteady() -> Bool {
        let (now, uptime) = (time.now(), time.uptime())
        return look.withLock { look in
            if (now - look.now) - (uptime - look.uptime) > Self.tolerance { look.leap = uptime }
            (look.now, look.uptime) = (now, uptime)
            return look.leap.map { uptime - $0 >= Self.patience } ?? true
        }
    }
}
