import Dispatch
import Synchronization

/// Where everything happens that happens by itself in a test's world: one piece at a time, in an order that only the
/// order of arrivals, or the seed of `choose`, decides.
///
/// By itself it works on a queue of its own whenever there is something to do. Told to stand still, it works only in
/// `workOff()`, on the caller's thread: then nothing else in the process has a say in the order.
package final class Stage: Sendable {
    private enum Piece {
        case job(UnownedJob, Party)
        case call(Line)

        var party: ObjectIdentifier {
            switch self {
            case .job(_, let party): ObjectIdentifier(party)
            case .call(let line): ObjectIdentifier(line.party)
            }
        }
    }

    private struct State {
        var ready: [Piece] = []
        /// What waits for those who are asleep to wake.
        var aside: [ObjectIdentifier: [Piece]] = [:]
        var isWorking = false
        var waiters: [CheckedContinuation<Void, Never>] = []
        var applications = 0
        /// Pieces that were done, and arrivals from other threads than the one that works them off.
        var count: UInt64 = 0
        var strays: UInt64 = 0
    }

    private let state = Mutex(State())
    private let queue: DispatchQueue?
    /// Draws the next of so many pieces; `nil`: first come, first served.
    private let choose: (@Sendable (Int) -> Int)?
    private let worker = Mutex<UInt?>(nil)

    /// A stage that works by itself.
    package init() {
        // On the shared threads: hundreds of worlds with a thread each would starve whoever is not in one.
        queue = DispatchQueue(label: "zonecast.stage", target: .global())
        choose = nil
    }

    /// A stage that stands still until `workOff()`, and then takes pieces in an order drawn by `choose`.
    package init(choose: @escaping @Sendable (Int) -> Int) {
        queue = nil
        self.choose = choose
    }

    /// How many pieces have been done.
    package var count: UInt64 { state.withLock { $0.count } }

    /// How many pieces came from outside while it stood still or worked: each may have come earlier or later.
    package var strays: UInt64 { state.withLock { $0.strays } }

    func add(_ job: UnownedJob, of party: Party) { add(.job(job, party)) }
    func add(_ line: Line) { add(.call(line)) }

    private func add(_ piece: Piece) {
        let isStray = queue == nil && worker.withLock { $0 != nil && $0 != Self.thread }
        let begins = state.withLock { state in
            if !state.aside.isEmpty, state.aside[piece.party]?.append(piece) != nil { return false }
            state.ready.append(piece)
            if isStray { state.strays += 1 }
            guard queue != nil, !state.isWorking else { return false }
            state.isWorking = true
            return true
        }
        if begins { queue?.async { self.work() } }
    }

    private func work() {
        while let piece = next() { perform(piece) }
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>]? in
            // Something may have come since the last look.
            guard state.ready.isEmpty else { return nil }
            state.isWorking = false
            defer { state.waiters = [] }
            return state.waiters
        }
        guard let waiters else { return work() }
        waiters.forEach { $0.resume() }
    }

    private func next() -> Piece? {
        state.withLock { state in
            guard !state.ready.isEmpty else { return nil }
            state.count += 1
            guard let choose else { return state.ready.removeFirst() }
            // The last fills the gap: the order among those that wait means nothing.
            let index = choose(state.ready.count)
            state.ready.swapAt(index, state.ready.count - 1)
            return state.ready.removeLast()
        }
    }

    private func perform(_ piece: Piece) {
        switch piece {
        case .job(let job, let party):
            // What has crashed does nothing more; its tasks are never heard of again, as after the end of a process.
            guard !party.isGone else { return }
            job.runSynchronously(on: party.asUnownedTaskExecutor())
        case .call(let line): line.performNext()
        }
    }

    /// Does what is ready, and what becomes ready by it, on this thread; false where `limit` pieces were not enough.
    package func workOff(limit: Int = .max) -> Bool {
        worker.withLock { $0 = Self.thread }
        var done = 0
        while done < limit, let piece = next() {
            perform(piece)
            done += 1
        }
        return done < limit
    }

    private static var thread: UInt { UInt(bitPattern: ThreadMark.own) }

    /// Whether nothing is ready.
    package var isAtRest: Bool { state.withLock { $0.ready.isEmpty } }

    /// Returns when there is nothing to do, and the application's own code is not at work anywhere.
    ///
    /// The application may wait for something that never comes; after `patience` nobody waits for it any more. Time alone
    /// says little on a busy machine: the caller must also have had so many `turns` among everybody's tasks, in which the
    /// application's had theirs.
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
            // Where the application is now, on the main actor perhaps, nobody tells when it is done.
            try? await Task.sleep(for: .microseconds(200))
        }
    }

    /// Sets aside what a party has to do, and all that comes to it, until it wakes: as a machine that sleeps, with its clock
    /// going on.
    package func sleep(_ party: Party) {
        let id = ObjectIdentifier(party)
        state.withLock { state in
            guard state.aside[id] == nil else { return }
            state.aside[id] = state.ready.filter { $0.party == id }
            state.ready.removeAll { $0.party == id }
        }
    }

    package func wake(_ party: Party) {
        let pieces = state.withLock { $0.aside.removeValue(forKey: ObjectIdentifier(party)) ?? [] }
        pieces.forEach(add)
    }

    func application(isAtWork: Bool) { state.withLock { $0.applications += isAtWork ? 1 : -1 } }
}

/// Whose tasks they are: a device's, or the relay's, in one of its lives.
package final class Party: TaskExecutor {
    package let name: String
    private let stage: Stage
    private let gone = Atomic(false)

    package init(_ name: String, on stage: Stage) {
        self.name = name
        self.stage = stage
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if !isGone { stage.add(job, of: self) }
    }

    package var isGone: Bool { gone.load(ordering: .relaxed) }

    /// Ends it at once, in the middle of whatever it does: none of its tasks ever goes on.
    package func end() { gone.store(true, ordering: .relaxed) }

    /// Whether the calling task is one of this party's.
    package var isCurrent: Bool {
        withUnsafeCurrentTask { $0?.unownedTaskExecutor == self.asUnownedTaskExecutor() }
    }
}

/// Calls that are made one after the other, in the order in which they were handed in.
package final class Line: Sendable {
    private let stage: Stage
    let party: Party
    private let calls = Mutex<[@Sendable () -> Void]>([])

    package init(of party: Party, on stage: Stage) {
        self.party = party
        self.stage = stage
    }

    package func run(_ call: @escaping @Sendable () -> Void) {
        let isFirst = calls.withLock { calls in
            calls.append(call)
            return calls.count == 1
        }
        if isFirst { stage.add(self) }
    }

    func performNext() {
        guard let call = calls.withLock({ $0.first }) else { return }
        if !party.isGone { call() }
        let hasMore = calls.withLock { calls in
            calls.removeFirst()
            return !calls.isEmpty
        }
        if hasMore { stage.add(self) }
    }
}
