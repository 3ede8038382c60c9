package import Records
import Synchronization

/// The two clocks of the relay, passed in so that tests can control them.
package struct TimeSource: Sendable {
    /// The wall clock, which may jump; used only for values that are shown and for expiry dates.
    package let now: @Sendable () -> Timestamp
    /// The monotonic clock, measured from a fixed moment; used for rates and intervals.
    package let uptime: @Sendable () -> Duration

    package init(now: @escaping @Sendable () -> Timestamp, uptime: @escaping @Sendable () -> Duration) {
        self.now = now
        self.uptime = uptime
    }
}

/// The source of secure random bytes, passed in so that tests can repeat a run.
package struct RandomSource: Sendable {
    /// Returns `count` random bytes suitable for secrets.
    package let bytes: @Sendable (_ count: Int) -> [UInt8]

    package init(bytes: @escaping @Sendable (_ count: Int) -> [UInt8]) { self.bytes = bytes }

    /// Returns `byteCount` random bytes as lower-case hex digits.
    package func hex(byteCount: Int) -> String { Hex.encode(bytes(byteCount)) }
}

/// Lower-case hexadecimal encoding, used for tokens, key identifiers and user record names.
package enum Hex {
    private static let digits = Array("0123456789abcdef".utf8)

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns whether `text` is exactly `count` lower-case hex digits.
    package static func isDigits(_ text: String, count: Int) -> Bool {
        text.utf8.count == count && text.utf8.allSatisfy { $0.isASCIIDigit || (0x61...0x66).contains($0) }
    }
}

/// Decides whether the wall clock is trustworthy enough to delete data for good because of its age.
///
/// A clock that is set ahead by mistake makes everything look old at once, and deleted data does not return when the
/// clock is corrected. So after a forward jump nothing may be deleted for a day. Checks that only reject, such as the
/// expiry of a token, do not use this.
package final class ClockJumpDetector: Sendable {
    private struct Reading {
        var now: Timestamp
        var uptime: Duration
        /// The uptime at which the clock last jumped forward.
        var jumpedAt: Duration?
    }

    /// Clock corrections up to this size are ignored.
    private static let tolerance = Duration.seconds(3_600)
    private static let waitAfterJump = Duration.seconds(86_400)

    private let time: TimeSource
    private let lastReading: Mutex<Reading>

    package init(_ time: TimeSource) {
        self.time = time
        lastReading = Mutex(Reading(now: time.now(), uptime: time.uptime()))
    }

    /// Returns whether data may be deleted because of its age.
    ///
    /// Call it before each deletion, and at least every few hours: a jump is detected between two calls.
    package func isReliable() -> Bool {
        let (now, uptime) = (time.now(), time.uptime())
        return lastReading.withLock { lastReading in
            if (now - lastReading.now) - (uptime - lastReading.uptime) > Self.tolerance {
                lastReading.jumpedAt = uptime
            }
            (lastReading.now, lastReading.uptime) = (now, uptime)
            return lastReading.jumpedAt.map { uptime - $0 >= Self.waitAfterJump } ?? true
        }
    }
}
