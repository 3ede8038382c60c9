import Records
import SyncCore
import Synchronization
import Testing
import ZoneKit

@Suite struct SeenChangesTests {
    /// A test environment with counters only.
    private final class Environment: TestEnvironment {
        let tasks: any TaskExecutor = globalConcurrentExecutor
        private let changes = Mutex((private: UInt64(0), public: UInt64(0)))

        func join(_ one: any PendingWorkReporting) {}
        func application(isRunning: Bool) {}
        func changeCount(inPublic: Bool) -> UInt64 { changes.withLock { inPublic ? $0.public : $0.private } }
        func write() { changes.withLock { $0.private += 1 } }
    }

    private static var success: FetchRound.Outcome {
        var outcome = FetchRound.Outcome()
        outcome.reachedDatabaseEnd = true
        return outcome
    }

    @Test func onlyChangesBeforeTheStartOfASuccessfulFetchAreSeen() {
        let environment = Environment()
        var seen = SeenChanges(in: environment, inPublic: false)
        #expect(!seen.isIncomplete)
        environment.write()
        #expect(seen.isIncomplete)
        seen.handle(.fetchBegan)
        environment.write()
        seen.handle(.fetchFinished(Self.success))
        #expect(seen.isIncomplete, "the second change came after the start of the fetch")
        seen.handle(.fetchBegan)
        seen.handle(.fetchFinished(Self.success))
        #expect(!seen.isIncomplete)
    }

    @Test func aFailedFetchSeesNothing() {
        let environment = Environment()
        var seen = SeenChanges(in: environment, inPublic: false)
        environment.write()
        seen.handle(.fetchBegan)
        seen.handle(.fetchFinished(FetchRound.Outcome()))
        #expect(seen.isIncomplete)
        var partial = Self.success
        partial.zoneFailures[ZoneID("Notes")] = SyncFailure(.zoneBusy)
        seen.handle(.fetchFinished(partial))
        #expect(seen.isIncomplete)
    }

    @Test func thePublicDatabaseHasItsOwnCounterAndOutsideTestsNothingIsMissed() {
        let environment = Environment()
        environment.write()
        #expect(!SeenChanges(in: environment, inPublic: true).isIncomplete)
        #expect(!SeenChanges(in: nil, inPublic: false).isIncomplete)
    }
}
