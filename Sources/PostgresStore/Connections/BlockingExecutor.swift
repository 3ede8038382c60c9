#if Postgres
    import Foundation

    /// Threads for tasks that block, as those that read from a database do.
    package final class BlockingExecutor: TaskExecutor {
        private let queue: Queue

        /// Starts the threads, which end with the executor.
        package init(name: String, threads: Int) {
            let queue = Queue()
            self.queue = queue
            for _ in 0..<threads {
                Thread {
                    // A thread's name is visible to the system only if the thread sets it itself.
                    Thread.current.name = name
                    while let job = queue.next() { job() }
                }.start()
            }
        }

        deinit { queue.close() }

        package func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.add { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }

        // Unchecked: all mutable state is guarded by `condition`, which is a lock.
        private final class Queue: @unchecked Sendable {
            private let condition = NSCondition()
            private var new: [@Sendable () -> Void] = []
            /// The oldest jobs, the very oldest at the end.
            private var old: [@Sendable () -> Void] = []
            private var isClosed = false

            func add(_ job: @escaping @Sendable () -> Void) {
                condition.withLock {
                    new.append(job)
                    condition.signal()
                }
            }

            /// Waits for a job; `nil` at the end.
            func next() -> (@Sendable () -> Void)? {
                condition.lock()
                defer { condition.unlock() }
                while new.isEmpty, old.isEmpty, !isClosed { condition.wait() }
                if old.isEmpty {
                    old = new.reversed()
                    new = []
                }
                return old.popLast()
            }

            func close() {
                condition.withLock {
                    isClosed = true
                    condition.broadcast()
                }
            }
        }
    }
#endif
