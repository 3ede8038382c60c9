import Dispatch
import Synchronization

/// A deterministic executor for everything in a test's world: runs one item at a time, in the order of arrival or as
/// `choose` decides.
///
/// Normally it runs items on a queue of its own as they arrive. A stage with `choose` runs them only in `runReady()`, on
/// the caller's thread; then nothing else in the process influences the order.
package final class DeterministicExecutor: Sendable {
    private enum Item {
        case job(UnownedJob, SimulatedProcess)
        case call(SerialQueue)

        var process: ObjectIdentifier {
            switch self {
            case .job(_, let process): ObjectIdentifier(process)
            case .call(let serialQueue): ObjectIdentifier(serialQueue.process)
            }
        }
    }

    private struct State {
        var ready: [Item] = []
        /// The items of parties that are asleep, until they wake.
        var suspended: [ObjectIdentifier: [Item]] = [:]
        var isWorking = false
        var waiters: [CheckedContinuation<Void, Never>] = []
        var applications = 0
        /// The number of items that were run, and of those that came from a thread other than the one running them.
        var count: UInt64 = 0
        var offThreadItems: UInt64 = 0
    }

    private let state = Mutex(State())
    private let queue: DispatchQueue?
    /// Chooses the next of this many items; `nil` means in the order of arrival.
    private let choose: (@Sendable (Int) -> Int)?
    private let worker = Mutex<UInt?>(nil)

    /// Creates a stage that runs items as they arrive.
    package init() {
        // On the shared threads: hundreds of worlds with a thread each would starve all other work.
        queue = DispatchQueue(label: "zonecast.stage", target: .global())
        choose = nil
    }

    /// Creates a stage that runs items only in `runReady()`, in an order that `choose` decides.
    package init(choose: @escaping @Sendable (Int) -> Int) {
        queue = nil
        self.choose = choose
    }

    /// The number of items that have been run.
    package var count: UInt64 { state.withLock { $0.count } }

    /// The number of items from other threads, whose place in the order is not deterministic.
    package var offThreadItems: UInt64 { state.withLock { $0.offThreadItems } }

    func add(_ job: UnownedJob, of process: SimulatedProcess) { add(.job(job, process)) }
    func add(_ serialQueue: SerialQueue) { add(.call(serialQueue)) }

    private func add(_ item: Item) {
        let isStray = queue == nil && worker.withLock { $0 != nil && $0 != Self.thread }
        let begins = state.withLock { state in
            if !state.suspended.isEmpty, state.suspended[item.process]?.append(item) != nil { return false }
            state.ready.append(item)
            if isStray { state.offThreadItems += 1 }
            guard queue != nil, !state.isWorking else { return false }
            state.isWorking = true
            return true
        }
        if begins { queue?.async { self.work() } }
    }

    private func work() {
        while let item = next() { perform(item) }
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>]? in
            // Something may have arrived since the last check.
            guard state.ready.isEmpty else { return nil }
            state.isWorking = false
            defer { state.waiters = [] }
            return state.waiters
        }
        guard let waiters else { return work() }
        waiters.forEach { $0.resume() }
    }

    private func next() -> Item? {
        state.withLock { state in
            guard !state.ready.isEmpty else { return nil }
            state.count += 1
            guard let choose else { return state.ready.removeFirst() }
            // The last item fills the gap: the order of the waiting items has no meaning.
            let index = choose(state.ready.count)
            state.ready.swapAt(index, state.ready.count - 1)
            return state.ready.removeLast()
        }
    }

    private func perform(_ item: Item) {
        switch item {
        case .job(let job, let process):
            // A crashed process does nothing more; its tasks never resume, as after the end of a process.
            guard !process.hasEnded else { return }
            job.runSynchronously(on: process.asUnownedTaskExecutor())
        case .call(let serialQueue): serialQueue.performNext()
        }
    }

    /// Runs what is ready, and what becomes ready meanwhile, on this thread.
    ///
    /// - Returns: `false` if more than `limit` items were ready.
    package func runReady(limit: Int = .max) -> Bool {
        worker.withLock { $0 = Self.thread }
        var done = 0
        while done < limit, let item = next() {
            perform(item)
            done += 1
        }
        return done < limit
    }

    private static var thread: UInt { UInt(bitPattern: CurrentThread.id) }

    /// Whether no item is ready.
    package var isIdle: Bool { state.withLock { $0.ready.isEmpty } }

    /// Waits until no item is ready and no code of the application is running.
    ///
    /// The application may wait for something that never happens, so the wait for it ends after `patience`. Time alone
    /// means little on a busy machine: the caller must also have been scheduled `turns` times, so that the
    /// application's tasks have been scheduled too.
    package func idle(patience: Duration = .seconds(5), turns: Int = 5_000) async {
        let end = ContinuousClock.now + patience
        var turn = 0
        while true {
            await withCheckedContinuation { waiter in
                let isIdle = state.withLock { state in
                    guard state.isWorking || (queue != nil && !state.ready.isEmpty) else { return true }
                    state.waiters.append(waiter)
                    return false
                }
                if isIdle { waiter.resume() }
            }
            let isAlone = state.withLock { $0.applications <= 0 }
            if isAlone || (turn >= turns && ContinuousClock.now > end) { return }
            turn += 1
            // The application may be on the main actor, for example, which does not report when it is done.
            try? await Task.sleep(for: .microseconds(200))
        }
    }

    /// Suspends a process and everything that arrives for it until it wakes, like a sleeping machine whose clock goes on.
    package func sleep(_ process: SimulatedProcess) {
        let id = ObjectIdentifier(process)
        state.withLock { state in
            guard state.suspended[id] == nil else { return }
            state.suspended[id] = state.ready.filter { $0.process == id }
            state.ready.removeAll { $0.process == id }
        }
    }

    package func wake(_ process: SimulatedProcess) {
        let pieces = state.withLock { $0.suspended.removeValue(forKey: ObjectIdentifier(process)) ?? [] }
        pieces.forEach(add)
    }

    func application(isRunning: Bool) { state.withLock { $0.applications += isRunning ? 1 : -1 } }
}

/// A task executor for one device or relay, in one of its runs.
package final class SimulatedProcess: TaskExecutor {
    package let name: String
    private let executor: DeterministicExecutor
    private let ended = Atomic(false)

    package init(_ name: String, on executor: DeterministicExecutor) {
        self.name = name
        self.executor = executor
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if !hasEnded { executor.add(job, of: self) }
    }

    package var hasEnded: Bool { ended.load(ordering: .relaxed) }

    /// Ends the process at once, in the middle of its work: none of its tasks ever resumes.
    package func end() { ended.store(true, ordering: .relaxed) }

    /// Whether the calling task belongs to this process.
    package var isCurrent: Bool {
        withUnsafeCurrentTask { $0?.unownedTaskExecutor == self.asUnownedTaskExecutor() }
    }
}

/// A serial queue: runs calls one after another, in the order in which they were added.
package final class SerialQueue: Sendable {
    private let executor: DeterministicExecutor
    let process: SimulatedProcess
    private let calls = Mutex<[@Sendable () -> Void]>([])

    package init(of process: SimulatedProcess, on executor: DeterministicExecutor) {
        self.process = process
        self.executor = executor
    }

    package func run(_ call: @escaping @Sendable () -> Void) {
        let isFirst = calls.withLock { calls in
            calls.append(call)
            return calls.count == 1
        }
        if isFirst { executor.add(self) }
    }

    func performNext() {
        guard let call = calls.withLock({ $0.first }) else { return }
        if !process.hasEnded { call() }
        let hasMore = calls.withLock { calls in
            calls.removeFirst()
            return !calls.isEmpty
        }
        if hasMore { executor.add(self) }
    }
}
