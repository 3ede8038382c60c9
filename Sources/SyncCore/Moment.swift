/// An instant on a monotonic clock with an arbitrary origin.
///
/// State machines take it as an argument, so that tests control the time. It has no meaning in another process: times
/// that must survive a restart are stored as a `Timestamp`.
package struct Moment: Hashable, Comparable, Sendable {
    package var sinceStart: Duration

    package init(sinceStart: Duration) { self.sinceStart = sinceStart }

    package static let start = Moment(sinceStart: .zero)

    package static func < (a: Moment, b: Moment) -> Bool { a.sinceStart < b.sinceStart }
    package static func + (a: Moment, b: Duration) -> Moment { Moment(sinceStart: a.sinceStart + b) }
    package static func - (a: Moment, b: Moment) -> Duration { a.sinceStart - b.sinceStart }
}

/// Returns the earlier of two deadlines; `nil` means no deadline.
func earlier(_ a: Moment?, _ b: Moment?) -> Moment? {
    guard let a, let b else { return a ?? b }
    return min(a, b)
}
