import Dispatch
import Synchronization

/// Threads outside the cooperative pool, for work that a program may block on.
///
/// Programs written for CloudKit block a thread with a semaphore while they wait for a completion handler or an
/// operation, even inside another handler or a task, and `CKAsset.fileURL` blocks in all of these. If the work ran on
/// the cooperative pool, the program would deadlock as soon as all threads of the pool were blocked. A concurrent
/// dispatch queue adds a thread when one blocks.
enum BlockingThreads {
    final class Executor: TaskExecutor {
        private let queue = DispatchQueue(label: "zonecast.work", attributes: .concurrent)

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }

    static let executor = Executor()

    /// Runs `work`, blocks the calling thread until it has finished, and returns its result.
    static func wait<Value: Sendable>(
        for work: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        let done = DispatchSemaphore(value: 0)
        let box = ResultBox<Value>()
        Task(executorPreference: executor) {
            do {
                box.store(.success(try await work()))
            } catch {
                box.store(.failure(error))
            }
            done.signal()
        }
        done.wait()
        return try box.load()
    }

    private final class ResultBox<Value: Sendable>: Sendable {
        private let result = Mutex<Result<Value, any Error>?>(nil)
        func store(_ value: Result<Value, any Error>) { result.withLock { $0 = value } }
        func load() throws -> Value {
            guard let value = result.withLock({ $0 }) else { throw CKError(.internalError) }
            return try value.get()
        }
    }
}
