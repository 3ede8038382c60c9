import Dispatch
import Synchronization

/// Threads beside those that tasks usually run on, for work that a program may wait for with a thread.
///
/// Programs made for CloudKit wait so, with a semaphore, for a completion handler or an operation, also in another one or in
/// a task; and `CKAsset.fileURL` waits in all of these. Were the work one of the common pool's tasks, the program would hang
/// once all threads of the pool wait. These are queues of their own, which get another thread where one waits.
enum OwnThreads {
    final class Lane: TaskExecutor {
        private let queue = DispatchQueue(label: "zonecast.work", attributes: .concurrent)

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }

    static let lane = Lane()

    /// The result of `work`; the calling thread waits for it.
    static func wait<Value: Sendable>(
        for work: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        let done = DispatchSemaphore(value: 0)
        let answer = Answer<Value>()
        Task(executorPreference: lane) {
            do {
                answer.give(.success(try await work()))
            } catch {
                answer.give(.failure(error))
            }
            done.signal()
        }
        done.wait()
        return try answer.take()
    }

    private final class Answer<Value: Sendable>: Sendable {
        private let result = Mutex<Result<Value, any Error>?>(nil)
        func give(_ value: Result<Value, any Error>) { result.withLock { $0 = value } }
        func take() throws -> Value {
            guard let value = result.withLock({ $0 }) else { throw CKError(.internalError) }
            return try value.get()
        }
    }
}
