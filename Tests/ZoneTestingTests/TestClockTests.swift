import Foundation
import Synchronization
import Testing
import ZoneTesting

/// The manually advanced clock.
@Suite(.timeLimit(.minutes(15))) struct TestClockTests {
    @Test func sleepersWakeInOrderOfTheirDeadlines() async throws {
        let clock = TestClock()
        let (woken, wake) = AsyncStream<Int>.makeStream()
        let sleepers = [3, 1, 2].map { seconds in
            Task {
                try await clock.sleep(for: .seconds(seconds))
                wake.yield(seconds)
            }
        }
        var wakeUps = woken.makeAsyncIterator()
        for seconds in 1...3 {
            while clock.nextDeadline?.offset != .seconds(seconds) { await Task.yield() }
            // The earliest sleeper may register before the others.
            while clock.sleeperCount < 4 - seconds { await Task.yield() }
            clock.advance(by: .seconds(1))
            #expect(await wakeUps.next() == seconds)
        }
        for sleeper in sleepers { try await sleeper.value }
        #expect(clock.nextDeadline == nil)
        #expect(clock.date == clock.start.addingTimeInterval(3))
    }

    @Test func aPastDeadlineReturnsAtOnce() async throws {
        let clock = TestClock()
        clock.advance(by: .seconds(5))
        try await clock.sleep(until: TestClock.Instant(offset: .seconds(5)), tolerance: nil)
    }

    @Test func aCancelledSleepEnds() async throws {
        let clock = TestClock()
        let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
        while clock.nextDeadline == nil { await Task.yield() }
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.nextDeadline == nil)

        let early = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await clock.sleep(for: .seconds(1))
        }
        await #expect(throws: CancellationError.self) { try await early.value }
    }

    @Test func theClockNeverGoesBack() {
        let clock = TestClock()
        clock.advance(by: .seconds(-1))
        #expect(clock.now.offset == .zero)
    }
}

/// The executor on which all work of a test environment runs, step by step.
struct DeterministicExecutorTests {
    /// No work of a sleeping party is lost, and other parties do not wait for it.
    @Test func aSleepingPartyContinuesWhenItWakes() {
        let executor = DeterministicExecutor { _ in 0 }
        let (sleeper, other) = (SimulatedProcess("sleeper", on: executor), SimulatedProcess("other", on: executor))
        let done = Done()
        Task(executorPreference: sleeper) { done.add("before") }
        executor.sleep(sleeper)
        Task(executorPreference: sleeper) { done.add("meanwhile") }
        Task(executorPreference: other) { done.add("other") }
        #expect(executor.runReady() && executor.isIdle)
        #expect(done.names == ["other"])
        executor.wake(sleeper)
        #expect(executor.runReady())
        #expect(done.names == ["other", "before", "meanwhile"])
        executor.wake(sleeper)
        #expect(executor.isIdle)
    }

    private final class Done: Sendable {
        private let kept = Mutex<[String]>([])
        func add(_ name: String) { kept.withLock { $0.append(name) } }
        var names: [String] { kept.withLock { $0 } }
    }
}
