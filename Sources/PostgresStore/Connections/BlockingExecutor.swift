#if Postgres
    import Foundation

    /// Threads for tasks that block, as those that read from a database do.
    package final class BlockingExecutor: TaskExecutor {
        private let threads: BlockingThreads

        /// Starts the threads, which end with the executor.
        package init(name: String, threads: Int) {
            self.threads = BlockingThreads(name: name, count: threads)
        }

        package func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            threads.add { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }

        /// Starts more threads, for more that may block.
        func addThreads(_ count: Int) { threads.start(count) }
    }

    /// Threads for work that blocks.
    final class BlockingThreads: Sendable {
        private let name: String
        private let queue = Queue()

        /// Starts the threads, which end with this object.
        init(name: String, count: Int) {
            self.name = name
            start(count)
        }

        deinit { queue.close() }

        func start(_ count: Int) {
            let (name, queue) = (name, queue)
            for _ in 0..<count {
                Thread {
                    // A thread's name is visible to the system only if the thread sets it itself.
                    Thread.current.name = name
                    while let job = queue.next() { job() }
                }.start()
            }
        }

        func add(_ job: @escaping @Sendable () -> Void) { queue.add(job) }

        /// Calls `body` with each number below `count` at the same time, with 0 on the caller's thread.
        func concurrently(_ count: Int, _ body: (Int) -> Void) {
            guard count > 1 else { return (0..<count).forEach(body) }
            withoutActuallyEscaping(body) { body in
                let group = DispatchGroup()
                let shared = SharedBody(body)
                for place in 1..<count {
                    group.enter()
                    queue.add {
                        shared.call(place)
                        group.leave()
                    }
                }
                body(0)
                group.wait()
                shared.body = nil
            }
        }

        /// A function for several threads, which none of them keeps.
        // Unchecked: each thread calls it with another number, and the caller waits for all before it changes `body`.
        private final class SharedBody: @unchecked Sendable {
            var body: ((Int) -> Void)?

            init(_ body: @escaping (Int) -> Void) { self.body = body }

            /// Releases its reference to the function before it returns.
            @inline(never)
            func call(_ place: Int) { body?(place) }
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
