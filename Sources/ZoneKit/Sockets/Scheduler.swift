package import SyncCore

/// The source of time for the code around `SyncCore`: the system's clock, or a test's clock.
package struct Scheduler: Sendable {
    package let now: @Sendable () -> Instant
    /// Throws only if the calling task is cancelled.
    package let sleep: @Sendable (_ until: Instant) async throws -> Void
    /// The test environment; `nil` outside tests.
    package let testEnvironment: (any TestEnvironment)?

    package init<C: Clock<Duration>>(_ clock: C, testEnvironment: (any TestEnvironment)? = nil) {
        self.testEnvironment = testEnvironment
        let start = clock.now
        now = { Instant(sinceStart: start.duration(to: clock.now)) }
        sleep = { try await clock.sleep(until: start.advanced(by: $0.sinceStart), tolerance: .zero) }
    }

    /// Continues while the machine sleeps, so that a poll that became due runs when the machine wakes.
    package static let system = Scheduler(ContinuousClock())

    /// Starts a task.
    ///
    /// All tasks of the sync code start here, so that a test environment knows of each of them.
    @discardableResult package func start<Success: Sendable>(
        _ work: @escaping @Sendable () async -> Success
    ) -> Task<Success, Never> {
        Task(executorPreference: testEnvironment?.tasks, operation: work)
    }

    /// Starts a task that may throw.
    @discardableResult package func start<Success: Sendable>(
        _ work: @escaping @Sendable () async throws -> Success
    ) -> Task<Success, any Error> {
        Task(executorPreference: testEnvironment?.tasks, operation: work)
    }

    /// Runs the app's own code.
    ///
    /// A test environment waits for it, on whatever executor it runs.
    func application<Result>(
        isolation: isolated (any Actor)? = #isolation,
        _ work: () async -> Result
    ) async -> Result {
        testEnvironment?.application(isRunning: true)
        defer { testEnvironment?.application(isRunning: false) }
        return await work()
    }
}

/// The source of randomness for the same code: the system's generator, or a seeded one.
package struct RandomGenerator: RandomNumberGenerator, Sendable {
    private let draw: @Sendable () -> UInt64

    package init(draw: @escaping @Sendable () -> UInt64) { self.draw = draw }

    package static let system = RandomGenerator {
        var source = SystemRandomNumberGenerator()
        return source.next()
    }

    package mutating func next() -> UInt64 { draw() }
}

/// The interface between a simulated test environment and the engines, mirrors and pollers that run in it.
package protocol TestEnvironment: Sendable {
    /// The executor of their tasks.
    var tasks: any TaskExecutor { get }

    /// Registers one of them; the reference is weak.
    func join(_ one: any PendingWorkReporting)

    /// Reports that the app's own code has started, perhaps on another executor, or has returned.
    func application(isRunning: Bool)

    /// A counter that increases with every write that other devices have to learn of, in private and shared databases
    /// or in the public one.
    func changeCount(inPublic: Bool) -> UInt64
}

/// The part of a test environment's changes that an engine, mirror or poller has fetched.
///
/// A test waits until no change is missed. Outside tests nothing is counted.
package struct SeenChanges: Sendable {
    private let environment: (any TestEnvironment)?
    private let inPublic: Bool
    private var countAtStart: UInt64 = 0
    private var count: UInt64 = 0

    package init(in environment: (any TestEnvironment)?, inPublic: Bool) {
        self.environment = environment
        self.inPublic = inPublic
    }

    /// Whether there is a change that no successful fetch or poll has covered.
    package var isIncomplete: Bool { environment.map { count < $0.changeCount(inPublic: inPublic) } ?? false }

    /// Called when a fetch or poll begins, which will return all changes made until now.
    package mutating func began() {
        if let environment { countAtStart = environment.changeCount(inPublic: inPublic) }
    }

    /// Called when the fetch or poll that began last has returned everything.
    package mutating func succeeded() { count = countAtStart }

    /// Follows the fetches of a schedule.
    package mutating func handle(_ event: SyncSchedule.Event) {
        switch event {
        case .fetchBegan: began()
        case .fetchFinished(let outcome) where outcome.reachedDatabaseEnd && outcome.zoneFailures.isEmpty: succeeded()
        default: break
        }
    }
}

/// An object that works in the background and reports whether it has work left.
package protocol PendingWorkReporting: AnyObject, Sendable {
    /// Returns descriptions of the remaining work for the person who waits for it.
    ///
    /// An empty array means there is none.
    func pendingWork() async -> [String]
}
