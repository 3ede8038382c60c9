import Synchronization
import Testing
import ZoneTesting

/// The executor on which all work of a test environment runs, step by step.
struct StageTests {
    /// No work of a sleeping party is lost, and other parties do not wait for it.
    @Test func aSleepingPartyContinuesWhenItWakes() {
        let stage = Stage { _ in 0 }
        let (sleeper, other) = (Party("sleeper", on: stage), Party("other", on: stage))
        let done = Done()
        Task(executorPreference: sleeper) { done.add("before") }
        stage.sleep(sleeper)
        Task(executorPreference: sleeper) { done.add("meanwhile") }
        Task(executorPreference: other) { done.add("other") }
        #expect(stage.workOff() && stage.isAtRest)
        #expect(done.names == ["other"])
        stage.wake(sleeper)
        #expect(stage.workOff())
        #expect(done.names == ["other", "before", "meanwhile"])
        stage.wake(sleeper)
        #expect(stage.isAtRest)
    }

    private final class Done: Sendable {
        private let kept = Mutex<[String]>([])
        func add(_ name: String) { kept.withLock { $0.append(name) } }
        var names: [String] { kept.withLock { $0 } }
    }
}
