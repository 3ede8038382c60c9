/// A time in whole milliseconds since 1970-01-01 UTC, as on the wire.
package struct Timestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var milliseconds: Int64
    /// The original value in seconds since 2001-01-01 if it is more precise than a millisecond.
    ///
    /// Only returned to clients; comparisons and queries ignore it.
    package var exactSeconds: Double?

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package static func == (a: Timestamp, b: Timestamp) -> Bool { a.milliseconds == b.milliseconds }

    package func hash(into hasher: inout Hasher) { hasher.combine(milliseconds) }

    package static func < (a: Timestamp, b: Timestamp) -> Bool { a.milliseconds < b.milliseconds }

    /// Returns the time `duration` later, clamped to the range.
    package static func + (moment: Timestamp, duration: Duration) -> Timestamp {
        let (sum, overflow) = moment.milliseconds.addingReportingOverflow(duration.wholeMilliseconds)
        return Timestamp(milliseconds: overflow ? (duration < .zero ? .min : .max) : sum)
    }

    package static func - (later: Timestamp, earlier: Timestamp) -> Duration {
        let (difference, overflow) = later.milliseconds.subtractingReportingOverflow(earlier.milliseconds)
        return .milliseconds(overflow ? (later < earlier ? .min : .max) : difference)
    }

    package var description: String { "\(milliseconds) ms" }
}

extension Duration {
    /// Creates a wait of a number of seconds given by a peer, at most one year; `nil` if the number is not a valid
    /// duration.
    package init?(waitOf seconds: Double) {
        guard seconds >= 0 else { return nil }
        self = .milliseconds(Int64((min(seconds, 31_536_000) * 1000).rounded()))
    }

    /// The duration in milliseconds, rounded toward zero and clamped to the range.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (scaled, isFar) = seconds.multipliedReportingOverflow(by: 1000)
        let (whole, isTooFar) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return isFar || isTooFar ? (self < .zero ? .min : .max) : whole
    }

    package var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
