/// A point on the caller's monotonic clock, counted from wherever that clock began.
///
/// Decisions take it as an argument and never ask for it, so a test moves it by hand. It means nothing in another
/// process: what has to survive a restart is kept as a `Timestamp`.
package struct Moment: Hashable, Comparable, Sendable {
    package var sinceStart: Duration

    package init(sinceStart: Duration) { self.sinceStart = sinceStart }

    package static let start = Moment(sinceStart: .zero)

    package static func < (a: Moment, b: Moment) -> Bool { a.sinceStart < b.sinceStart }
    package static func + (a: Moment, b: Duration) -> Moment { Moment(sinceStart: a.sinceStart + b) }
    package static func - (a: Moment, b: Moment) -> Duration { a.sinceStart - b.sinceStart }
}

/// The earlier of two deadlines, either of which may not be set.
func earlier(_ a: Moment?, _ b: Moment?) -> Moment? {
    guard let a, let b else { return a ?? b }
    return min(a, b)
}
