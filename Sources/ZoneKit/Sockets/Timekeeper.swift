package import SyncCore

/// The one door to time for the shells around `SyncCore`: the system's clock, or one that a test moves.
package struct Timekeeper: Sendable {
    package let now: @Sendable () -> Moment
    /// Throws only when the calling task is cancelled.
    package let sleep: @Sendable (_ until: Moment) async throws -> Void
    /// The test's world that all this is part of; `nil` outside of tests.
    package let surroundings: (any Surroundings)?

    package init<C: Clock<Duration>>(_ clock: C, surroundings: (any Surroundings)? = nil) {
        self.surroundings = surroundings
        let start = clock.now
        now = { Moment(sinceStart: start.duration(to: clock.now)) }
        sleep = { try await clock.sleep(until: start.advanced(by: $0.sinceStart), tolerance: .zero) }
    }

    /// Goes on while the machine sleeps, so that a poll that came due meanwhile runs when it wakes.
    package static let system = Timekeeper(ContinuousClock())

    /// Begins a task: the one door to tasks for the same shells, so that a test's world knows of each.
    @discardableResult package func start<Success: Sendable>(
        _ work: @escaping @Sendable () async -> Success
    ) -> Task<Success, Never> {
        Task(executorPreference: surroundings?.tasks, operation: work)
    }

    /// The same for work that may throw.
    @discardableResult package func start<Success: Sendable>(
        _ work: @escaping @Sendable () async throws -> Success
    ) -> Task<Success, any Error> {
        Task(executorPreference: surroundings?.tasks, operation: work)
    }

    /// Runs the application's own code, for which a test's world waits wherever it runs.
    func application<Result>(
        isolation: isolated (any Actor)? = #isolation,
        _ work: () async -> Result
    ) async -> Result {
        surroundings?.application(isAtWork: true)
        defer { surroundings?.application(isAtWork: false) }
        return await work()
    }
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
