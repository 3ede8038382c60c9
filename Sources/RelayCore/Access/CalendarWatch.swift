import Records
import Synchronization

/// Decides whether the wall clock is trustworthy enough to delete data for good because of its age.
///
/// A clock that is set ahead by mistake makes everything look old at once, and deleted data does not return when the
/// clock is corrected. So after a forward jump nothing may be deleted for a day. Checks that only reject, such as the
/// expiry of a token, do not use this.
package final class CalendarWatch: Sendable {
    private struct Look {
        var now: Timestamp
        var uptime: Duration
        /// The uptime at which the clock last jumped forward.
        var leap: Duration?
    }

    /// Clock corrections up to this size are ignored.
    private static let tolerance = Duration.seconds(3_600)
    private static let patience = Duration.seconds(86_400)

    private let time: TimeSource
    private let look: Mutex<Look>

    package init(_ time: TimeSource) {
        self.time = time
        look = Mutex(Look(now: time.now(), uptime: time.uptime()))
    }

    /// Returns whether data may be deleted because of its age.
    ///
    /// Call it before each deletion, and at least every few hours: a jump is detected between two calls.
    package func isSteady() -> Bool {
        let (now, uptime) = (time.now(), time.uptime())
        return look.withLock { look in
            if (now - look.now) - (uptime - look.uptime) > Self.tolerance { look.leap = uptime }
            (look.now, look.uptime) = (now, uptime)
            return look.leap.map { uptime - $0 >= Self.patience } ?? true
        }
    }
}
