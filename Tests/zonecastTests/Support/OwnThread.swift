import Foundation
import Testing

/// Runs tests that wait for processes on threads of their own.
///
/// On the shared pool, which has one thread per processor,
/// they would block all other tests.
struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadPerJob()) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    /// Runs the suite or test on its own threads, which it may block.
    static var ownThread: Self { OwnThread() }
}

private final class ThreadPerJob: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        Thread.detachNewThread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
