/// How long to wait after the nth failure in a row: doubling up to a cap, the wait drawn evenly below it (full jitter).
package struct Backoff: Hashable, Sendable {
    /// The ceiling of the first wait.
    package var first: Duration
    /// No ceiling is above this.
    package var cap: Duration
    /// Failures since the last success.
    package private(set) var failures = 0

    package init(first: Duration, cap: Duration) {
        self.first = first
        self.cap = cap
    }

    /// Requests: 1 s doubling to 5 min.
    ///
    /// See Sync.md, "Retrying".
    package static let requests = Backoff(first: .seconds(1), cap: .seconds(300))
    /// The notice socket: 0.5 s doubling to 60 s.
    ///
    /// See Notices.md, "Back-off".
    package static let socket = Backoff(first: .milliseconds(500), cap: .seconds(60))

    /// The most that the next wait can be.
    package var ceiling: Duration {
        // 2^20 half seconds is beyond every cap, and shifting further would overflow.
        let doubled = first * (1 << min(failures, 20))
        return min(doubled, cap)
    }

    /// Counts a failure and draws the wait before the next try.
    package mutating func failed(using random: inout some RandomNumberGenerator) -> Duration {
        let wait = ceiling * Double.random(in: 0...1, using: &random)
        failures += 1
        return wait
    }

    package mutating func succeeded() { failures = 0 }
}

extension Duration {
    /// This length, longer or shorter by up to `share` of it, so that many clients do not ask in step.
    func jittered(by share: Double, using random: inout some RandomNumberGenerator) -> Duration {
        self * Double.random(in: (1 - share)...(1 + share), using: &random)
    }
}
