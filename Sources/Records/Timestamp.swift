/// A moment as the wire counts it: whole milliseconds since 1970-01-01 UTC.
package struct Timestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var milliseconds: Int64
    /// The moment as a program had it, in seconds since the start of 2001, where that is finer than a millisecond.
    ///
    /// Only for giving it back: neither comparisons nor queries look at it.
    package var exactSeconds: Double?

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package static func == (a: Timestamp, b: Timestamp) -> Bool { a.milliseconds == b.milliseconds }

    package func hash(into hasher: inout Hasher) { hasher.combine(milliseconds) }

    package static func < (a: Timestamp, b: Timestamp) -> Bool { a.milliseconds < b.milliseconds }

    /// The moment `duration` later, held at the ends of the range instead of overflowing.
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
    /// A wait of so many seconds as somebody else names it: a year at the most; `nil` for what is no length of time.
    package init?(waitOf seconds: Double) {
        guard seconds >= 0 else { return nil }
        self = .milliseconds(Int64((min(seconds, 31_536_000) * 1000).rounded()))
    }

    /// Without what is less than a millisecond, held at the ends of the range.
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
