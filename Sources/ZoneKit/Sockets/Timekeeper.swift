package import SyncCore

/// The one door to time for the shells around `SyncCore`: the system's clock, or one that a test moves.
package struct Timekeeper: Sendable {
    package let now: @Sendable () -> Moment
    /// Throws only when the calling task is cancelled.
    package let sleep: @Sendable (_ until: Moment) async throws -> Void

    package init<C: Clock<Duration>>(_ clock: C) {
        let start = clock.now
        now = { Moment(sinceStart: start.duration(to: clock.now)) }
        sleep = { try await clock.sleep(until: start.advanced(by: $0.sinceStart), tolerance: .zero) }
    }

    /// Goes on while the machine sleeps, so that a poll that came due meanwhile runs when it wakes.
    package static let system = Timekeeper(ContinuousClock())
}

/// The one door to chance for the same shells: the system's source, or one with a seed.
package struct Chance: RandomNumberGenerator, Sendable {
    private let draw: @Sendable () -> UInt64

    package init(draw: @escaping @Sendable () -> UInt64) { self.draw = draw }

    package static let system = Chance {
        var source = SystemRandomNumberGenerator()
        return source.next()
    }

    package mutating func next() -> UInt64 { draw() }
}
