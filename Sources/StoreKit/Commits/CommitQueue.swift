import Foundation
import Records
package import RelayCore

/// Runs its argument later, never at once, and one call at a time.
///
/// Tests pass one in place of the commit thread.
package typealias CommitScheduler = @Sendable (@escaping @Sendable () -> Void) -> Void

/// Runs a store's writes, one commit after another in each lane: all queued writes share one commit.
///
/// - While a commit waits for the disk, the next writes queue up, so under load a hundred writes share one fsync.
/// - A client that has been answered often writes again at once. The next commit therefore waits up to a quarter of a
///   commit's duration for more writes, as long as that brings writes faster than commits do.
/// - A single write does not wait, not even for a thread to wake up: on a fast disk, while writes come one at a time,
///   the caller's thread commits it. With several lanes it does not, since a commit may then wait for another's locks.
/// - A commit ends early if its writes turn out to be large. The rest goes into the next commit, after the writes of
///   users that have written less.
/// - Commits run at once if there are several lanes, but never two with writes of one owner; see `WaitingWrites`. All
///   but the first lanes wait until there are writes for a large commit, or until those that run take unusually long.
///
/// The queue has no limit of its own: each entry is a request that waits for its response, and the number of those is
/// limited by the number of connections.
// Unchecked: all mutable state is guarded by `condition`, which is a lock.
package final class CommitQueue: @unchecked Sendable {
    private let condition = NSCondition()
    private var waiting: WaitingWrites
    private var isAbandoned = false
    private var isGathering = false
    /// Whether a lane waits for more writes, or for the end of the commits that run.
    private var isHolding = false
    private var isClosed = false
    /// The threads that have not ended.
    private var threads: Set<ObjectIdentifier> = []
    private var hasIdleWork = true
    /// The number of writes in the latest commit; if more than one, the next ones are queued too.
    private var latestBatch = 1
    /// The number of commits to run without waiting for more writes.
    private var commitsWithoutGathering = 0
    /// A moving average of the commit duration.
    private var commitTime = Duration.zero
    /// The duration of the latest commit.
    private var latestTime = Duration.zero

    private let commit: @Sendable (consuming [any StoreWrite]) -> BatchRemainder?
    private let idle: @Sendable () -> Bool
    /// Runs commits in place of the thread.
    ///
    /// `isScheduled` is whether it has a call pending.
    private let scheduler: CommitScheduler?
    private var isScheduled = false
    private let onCommitTime: @Sendable (Int, Duration) -> Void

    /// The maximum number of writes in a commit: bounds how long the first of them waits.
    private static let batchLimit = 512
    /// The longest time that a commit waits for more writes.
    private static let longestGathering = Duration.milliseconds(1)
    /// With fewer writes in a commit than this, the next commit does not wait.
    private static let gatheringThreshold = 4
    /// The number of commits that do not wait after one waited in vain.
    private static let commitsWithoutGatheringLimit = 32
    /// The longest commit that runs on the caller's thread, which serves no other request meanwhile.
    private static let callerThreadLimit = Duration.milliseconds(1)
    /// The least time after which a lane no longer holds writes back, if none of the running commits has ended.
    private static let shortestHolding = Duration.milliseconds(5)

    /// Starts a thread for each lane.
    ///
    /// - Parameters:
    ///   - name: the threads' name.
    ///   - lanes: how many commits may run at once, and for how many owners.
    ///   - commit: runs a batch, at least its first write, and must not retain it. Called on a thread of the queue, or
    ///     on the caller's thread for a single write; by several threads at once if there are several lanes.
    ///   - onCommitTime: called with the number of writes in each batch and the duration of its commit.
    ///   - idle: does a small part of the deferred work and returns whether there is more. Called on a thread of the
    ///     queue, never during a commit; first at the start, then after `leaveIdleWork`.
    ///   - scheduler: runs commits in place of the threads, which are then not started.
    package init(
        name: String,
        lanes: CommitLanes = .single,
        commit: @escaping @Sendable (consuming [any StoreWrite]) -> BatchRemainder?,
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        idle: @escaping @Sendable () -> Bool,
        scheduler: CommitScheduler? = nil
    ) {
        waiting = WaitingWrites(lanes)
        self.commit = commit
        self.onCommitTime = onCommitTime
        self.idle = idle
        self.scheduler = scheduler
        guard scheduler == nil else { return }
        let threads = (0..<lanes.count).map { _ in Thread { [self] in runLane(named: name) } }
        condition.withLock { self.threads = Set(threads.map { ObjectIdentifier($0) }) }
        threads.forEach { $0.start() }
    }

    /// The body of a thread.
    private func runLane(named name: String) {
        // A thread's name is visible to the system only if the thread sets it itself.
        Thread.current.name = name
        while var batch = next() {
            if batch.writes.isEmpty { workIdly() } else { timed(&batch) }
        }
        condition.withLock {
            threads.remove(ObjectIdentifier(Thread.current))
            condition.broadcast()
        }
    }

    /// Queues a write, or commits it before returning.
    ///
    /// - Returns: `false` if the queue is closed.
    package func add(_ write: any StoreWrite) -> Bool {
        condition.lock()
        guard !isClosed else {
            condition.unlock()
            return false
        }
        guard scheduler == nil else {
            waiting.append(write)
            condition.unlock()
            scheduleCommit()
            return true
        }
        guard waiting.lanes.count == 1, waiting.running == 0, waiting.isEmpty, latestBatch == 1,
            commitTime < Self.callerThreadLimit
        else {
            waiting.append(write)
            if waiting.hasFreeLane, !isGathering, !isHolding || waiting.running < waiting.lanes.eager {
                condition.signal()
            }
            condition.unlock()
            return true
        }
        var batch = waiting.take(write)
        condition.unlock()
        timed(&batch)
        return true
    }

    /// The number of writes that wait for a commit.
    package var depth: Int { condition.withLock { waiting.count } }

    /// Requests a call of `idle` once no write is queued; called during a commit.
    package func leaveIdleWork() { condition.withLock { hasIdleWork = true } }

    /// Closes the queue and waits until all queued writes are done.
    ///
    /// Does not wait if called on one of the queue's own threads, which may hold the last reference to a store; nothing is
    /// queued then.
    ///
    /// - Returns: how long a commit takes at present.
    @discardableResult
    package func close() -> Duration {
        if scheduler != nil { repeat { commitNow() } while condition.withLock({ waiting.hasReady }) }
        return condition.withLock {
            isClosed = true
            condition.broadcast()
            while !threads.isEmpty, !threads.contains(ObjectIdentifier(Thread.current)) { condition.wait() }
            return max(commitTime, latestTime)
        }
    }

    /// Closes the queue and drops all queued writes without answering them, as a crash would.
    package func abandon() {
        condition.withLock {
            isClosed = true
            isAbandoned = true
            waiting.removeAll()
            condition.broadcast()
        }
    }

    private func scheduleCommit() {
        let mustSchedule = condition.withLock {
            defer { isScheduled = true }
            return !isScheduled
        }
        if mustSchedule { scheduler?({ [weak self] in self?.commitNow() }) }
    }

    /// Commits the queued writes on this thread, if there is no commit thread.
    private func commitNow() {
        var (batch, hasMore) = condition.withLock {
            isScheduled = false
            return (waiting.take(atMost: .max), waiting.hasReady)
        }
        if hasMore { scheduleCommit() }
        if var running = batch.take() {
            let remainder = commit(running.takeWrites())
            condition.withLock { end(running.owners, leaving: remainder) }
        }
        let isIdle = condition.withLock {
            guard hasIdleWork, waiting.running == 0 else { return false }
            waiting.takeAllLanes()
            return true
        }
        if isIdle { workIdly() }
        hasMore = condition.withLock { waiting.hasReady || (hasIdleWork && waiting.running == 0) }
        if hasMore { scheduleCommit() }
    }

    private func timed(_ batch: inout WaitingWrites.Batch) {
        let (start, count) = (ContinuousClock.now, batch.writes.count)
        let remainder = commit(batch.takeWrites())
        let time = ContinuousClock.now - start
        let done = count - (remainder?.rest.count ?? 0)
        onCommitTime(done, time)
        condition.withLock {
            end(batch.owners, leaving: remainder)
            latestBatch = done
            commitTime += (time - commitTime) / 8
            latestTime = time
        }
    }

    private func workIdly() {
        let hasMore = idle()
        condition.withLock {
            hasIdleWork = hasMore
            waiting.endWork()
            condition.broadcast()
        }
    }

    /// Returns the next batch, an empty one if there is idle work, or `nil` at the end.
    private func next() -> WaitingWrites.Batch? {
        condition.lock()
        defer { condition.unlock() }
        while true {
            if waiting.hasReady, !isGathering, !isHolding || !waiting.areTooFew || isClosed {
                if waiting.areTooFew, !isClosed, !hold() { continue }
                if latestBatch >= Self.gatheringThreshold, !isClosed { gather() }
                guard let batch = waiting.take(atMost: Self.batchLimit) else { continue }
                // For another lane.
                if waiting.hasReady { condition.signal() }
                return batch
            }
            if waiting.isEmpty, waiting.running == 0 {
                // Idle work that is left continues after the next start.
                if isClosed { return nil }
                if hasIdleWork {
                    waiting.takeAllLanes()
                    return WaitingWrites.Batch()
                }
            }
            condition.wait()
        }
    }

    private func end(_ owners: Set<UserID>, leaving remainder: BatchRemainder?) {
        waiting.end(owners, leaving: remainder)
        if isAbandoned { waiting.removeAll() }
        if !waiting.isEmpty || isClosed || hasIdleWork { condition.broadcast() }
    }

    /// Waits until there are enough writes for one more commit, or one of those that run has ended.
    ///
    /// Releases the lock meanwhile.
    ///
    /// - Returns: `true` if neither happens for longer than commits take, so that the writes should wait no more.
    private func hold() -> Bool {
        isHolding = true
        defer { isHolding = false }
        let (start, limit) = (ContinuousClock.now, max(commitTime * 2, Self.shortestHolding))
        while waiting.hasReady, waiting.areTooFew, !isClosed {
            guard ContinuousClock.now - start < limit else { return true }
            condition.unlock()
            // As in `gather`, with a monotonic clock.
            usleep(1_000)
            condition.lock()
        }
        return false
    }

    /// Waits for writes until as many have come as the latest commit had, or the time is over.
    ///
    /// Releases the lock meanwhile.
    private func gather() {
        guard commitsWithoutGathering == 0 else {
            commitsWithoutGathering -= 1
            return
        }
        isGathering = true
        defer { isGathering = false }
        let limit = min(commitTime / 4, Self.longestGathering)
        let (before, target) = (waiting.count, min(waiting.count + latestBatch, Self.batchLimit))
        let start = ContinuousClock.now
        var waited = Duration.zero
        while waiting.count < target, waited < limit, !isClosed {
            condition.unlock()
            // Measured with a monotonic clock; waiting for a condition would use one that can jump.
            usleep(50)
            condition.lock()
            waited = ContinuousClock.now - start
        }
        // The batch grew by less than the time spent.
        if commitTime * (waiting.count - before) < waited * before {
            commitsWithoutGathering = Self.commitsWithoutGatheringLimit
        }
    }
}
