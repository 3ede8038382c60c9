import Dispatch
import Synchronization

/// Lets a thread wait for work that needs none of the threads that tasks usually run on.
///
/// `CKAsset.fileURL` is asked for in tasks too. Waiting there for a task of the common pool would hang the program once all
/// threads of the pool wait; so the work runs on queues of its own.
enum DownloadThread {
    final class Lane: TaskExecutor {
        private let queue = DispatchQueue(label: "zonecast.assets", attributes: .concurrent)

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
