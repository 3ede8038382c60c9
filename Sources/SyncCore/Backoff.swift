/// Exponential back-off with full jitter: each wait is drawn uniformly between 0 and a ceiling that doubles up to a
/// cap.
package struct Backoff: Hashable, Sendable {
    /// The ceiling of the first wait.
    package var first: Duration
    /// The maximum ceiling.
    package var cap: Duration
    /// The number of failures since the last success.
    package private(set) var failures = 0

    package init(first: Duration, cap: Duration) {
        self.first = first
        self.cap = cap
    }

    /// Requests: from 1 s to 5 min.
    ///
    /// See Sync.md, "Retrying".
    package static let requests = Backoff(first: .seconds(1), cap: .seconds(300))
    /// The notice connection: from 0.5 s to 60 s.
    ///
    /// See Notices.md, "Back-off".
    package static let socket = Backoff(first: .milliseconds(500), cap: .seconds(60))

    /// The maximum of the next wait.
    package var ceiling: Duration {
        // 2^20 half seconds exceed every cap, and a larger shift would overflow.
        let doubled = first * (1 << min(failures, 20))
        return min(doubled, cap)
    }

    /// Counts a failure and draws the wait before the next attempt.
    package mutating func failed(using random: inout some RandomNumberGenerator) -> Duration {
        let wait = ceiling * Double.random(in: 0...1, using: &random)
        failures += 1
        return wait
    }

    package mutating func succeeded() { failures = 0 }
}

extension Duration {
    /// Returns this duration, varied randomly by up to `share` of it, so that clients do not act in lockstep.
    func jittered(by share: Double, using random: inout some RandomNumberGenerator) -> Duration {
        self * Double.random(in: (1 - share)...(1 + share), using: &random)
    }
}

/// An instant on a monotonic clock with an arbitrary origin.
///
/// State machines take it as an argument, so that tests control the time. It has no meaning in another process: times
/// that must survive a restart are stored as a `Timestamp`.
package struct Instant: Hashable, Comparable, Sendable {
    package var sinceStart: Duration

    package init(sinceStart: Duration) { self.sinceStart = sinceStart }

    package static let start = Instant(sinceStart: .zero)

    package static func < (a: Instant, b: Instant) -> Bool { a.sinceStart < b.sinceStart }
    package static func + (a: Instant, b: Duration) -> Instant { Instant(sinceStart: a.sinceStart + b) }
    package static func - (a: Instant, b: Instant) -> Duration { a.sinceStart - b.sinceStart }
}

/// Returns the earlier of two deadlines; `nil` means no deadline.
func earlier(_ a: Instant?, _ b: Instant?) -> Instant? {
    guard let a, let b else { return a ?? b }
    return min(a, b)
}
