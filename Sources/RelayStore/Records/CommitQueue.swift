import Foundation
import Records
import RelayCore

/// Runs its argument later, never at once, and one call at a time.
///
/// Tests pass one in place of the commit thread.
package typealias CommitScheduler = @Sendable (@escaping @Sendable () -> Void) -> Void

/// Runs a store's writes, one commit after another: all queued writes share one commit.
///
/// - While a commit waits for the disk, the next writes queue up, so under load a hundred writes share one fsync.
/// - A client that has been answered often writes again at once. The next commit therefore waits up to a quarter of a
///   commit's duration for more writes, as long as that brings writes faster than commits do.
/// - A single write does not wait, not even for a thread to wake up: on a fast disk, while writes come one at a time,
///   the caller's thread commits it.
/// - A commit ends early if its writes turn out to be large. The rest goes into the next commit, after the writes of
///   users that have written less.
///
/// The queue has no limit of its own: each entry is a request that waits for its response, and the number of those is
/// limited by the number of connections.
// Unchecked: all mutable state is guarded by `condition`, which is a lock.
final class CommitQueue: @unchecked Sendable {
    private let condition = NSCondition()
    private var waiting: [any StoreWrite] = []
    /// Bytes written for each user since a commit last had room for all queued writes.
    private var spent: [UserID?: Int] = [:]
    private var isAbandoned = false
    private var isCommitting = false
    private var isClosed = false
    private var hasEnded = false
    private var thread: ObjectIdentifier?
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

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - name: the thread's name.
    ///   - commit: runs a batch, at least its first write, and must not retain it. Called on the thread, or on the
    ///     caller's thread for a single write.
    ///   - onCommitTime: called with the number of writes in each batch and the duration of its commit.
    ///   - idle: does a small part of the deferred work and returns whether there is more. Called on the thread, never
    ///     during a commit; first at the start, then after `leaveIdleWork`.
    ///   - scheduler: runs commits in place of the thread, which is then not started.
    init(
        name: String,
        commit: @escaping @Sendable (consuming [any StoreWrite]) -> BatchRemainder?,
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        idle: @escaping @Sendable () -> Bool,
        scheduler: CommitScheduler? = nil
    ) {
        self.commit = commit
        self.onCommitTime = onCommitTime
        self.idle = idle
        self.scheduler = scheduler
        guard scheduler == nil else {
            hasEnded = true
            return
        }
        let thread = Thread { [self] in
            // A thread's name is visible to the system only if the thread sets it itself.
            Thread.current.name = name
            while let batch = next() {
                let isIdle = batch.isEmpty
                if !isIdle { timed(batch) }
                let hasMore = isIdle ? idle() : false
                condition.withLock {
                    isCommitting = false
                    if isIdle { hasIdleWork = hasMore }
                }
            }
            condition.withLock {
                hasEnded = true
                condition.broadcast()
            }
        }
        condition.withLock { self.thread = ObjectIdentifier(thread) }
        thread.start()
    }

    /// Queues a write, or commits it before returning.
    ///
    /// - Returns: `false` if the queue is closed.
    func add(_ write: any StoreWrite) -> Bool {
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
        guard !isCommitting, waiting.isEmpty, latestBatch == 1, commitTime < Self.callerThreadLimit else {
            waiting.append(write)
            if !isCommitting { condition.signal() }
            condition.unlock()
            return true
        }
        isCommitting = true
        condition.unlock()
        timed([write])
        condition.withLock {
            isCommitting = false
            if !waiting.isEmpty || isClosed || hasIdleWork { condition.broadcast() }
        }
        return true
    }

    /// The number of writes that wait for a commit.
    var depth: Int { condition.withLock { waiting.count } }

    /// Requests a call of `idle` once no write is queued; called during a commit.
    func leaveIdleWork() { condition.withLock { hasIdleWork = true } }

    /// Closes the queue and waits until all queued writes are done.
    ///
    /// Does not wait if called on the queue's own thread, which may hold the last reference to a store; nothing is
    /// queued then.
    ///
    /// - Returns: how long a commit takes at present.
    @discardableResult
    func close() -> Duration {
        if scheduler != nil { repeat { commitNow() } while depth > 0 }
        return condition.withLock {
            isClosed = true
            condition.broadcast()
            while !hasEnded, ObjectIdentifier(Thread.current) != thread { condition.wait() }
            return max(commitTime, latestTime)
        }
    }

    /// Closes the queue and drops all queued writes without answering them, as a crash would.
    func abandon() {
        condition.withLock {
            isClosed = true
            isAbandoned = true
            waiting = []
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
        let batch = condition.withLock {
            isScheduled = false
            return takeBatch(atMost: waiting.count)
        }
        if !batch.isEmpty {
            let remainder = commit(batch)
            condition.withLock { putBack(remainder) }
        }
        let hasMore = condition.withLock { hasIdleWork } && idle()
        condition.withLock { hasIdleWork = hasMore }
        if hasMore || depth > 0 { scheduleCommit() }
    }

    private func timed(_ batch: consuming [any StoreWrite]) {
        let (start, count) = (ContinuousClock.now, batch.count)
        let remainder = commit(batch)
        let time = ContinuousClock.now - start
        let done = count - (remainder?.rest.count ?? 0)
        onCommitTime(done, time)
        condition.withLock {
            putBack(remainder)
            latestBatch = done
            commitTime += (time - commitTime) / 8
            latestTime = time
        }
    }

    /// Returns the next batch, an empty one if there is idle work, or `nil` at the end.
    private func next() -> [any StoreWrite]? {
        condition.lock()
        defer { condition.unlock() }
        while isCommitting || (waiting.isEmpty && !hasIdleWork && !isClosed) { condition.wait() }
        // Idle work that is left continues after the next start.
        if waiting.isEmpty, isClosed { return nil }
        isCommitting = true
        if latestBatch >= Self.gatheringThreshold, !waiting.isEmpty, !isClosed { gather() }
        return takeBatch(atMost: Self.batchLimit)
    }

    /// Takes writes of the users that have written least first, if there is not room for all.
    private func takeBatch(atMost limit: Int) -> [any StoreWrite] {
        if !spent.isEmpty {
            let turns = waiting.enumerated().map { (spent: spent[$1.user] ?? 0, place: $0, write: $1) }
            waiting = turns.sorted { ($0.spent, $0.place) < ($1.spent, $1.place) }.map(\.write)
        }
        let batch = Array(waiting.prefix(limit))
        waiting.removeFirst(batch.count)
        return batch
    }

    private func putBack(_ remainder: BatchRemainder?) {
        guard let remainder else {
            // The last commit had room for all, so no queued write has waited for more than that commit.
            if !spent.isEmpty { spent = [:] }
            return
        }
        spent.merge(remainder.spent, uniquingKeysWith: +)
        if !isAbandoned { waiting.insert(contentsOf: remainder.rest, at: 0) }
    }

    /// Waits for writes until as many have come as the latest commit had, or the time is over.
    ///
    /// Releases the lock meanwhile.
    private func gather() {
        guard commitsWithoutGathering == 0 else {
            commitsWithoutGathering -= 1
            return
        }
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

/// The rest of a commit that ended before all its writes were run.
struct BatchRemainder {
    /// The writes that have not been run.
    var rest: [any StoreWrite]
    /// Bytes of records that the other writes read and wrote, by user; users with few bytes are absent.
    var spent: [UserID?: Int]

    /// After this many bytes a commit runs no further write: some tenths of a second on a slow disk.
    static let bytesAtOnce = 16 << 20
    /// A write of so few bytes does not count against its user.
    private static let fewBytes = 64 << 10

    /// Runs writes until they have read and written `bytesAtOnce`, and leaves in `batch` those that it has run.
    static func run(_ batch: inout [any StoreWrite], in writer: SQLiteWriter) -> BatchRemainder? {
        var spent: [UserID?: Int] = [:]
        for (index, write) in batch.enumerated() {
            let before = writer.recordBytes
            writer.owner = write.owner
            write.run(in: writer)
            let bytes = writer.recordBytes - before
            if bytes > fewBytes { spent[write.user, default: 0] += bytes }
            guard writer.recordBytes >= bytesAtOnce, index + 1 < batch.count else { continue }
            let rest = Array(batch[(index + 1)...])
            batch.removeLast(rest.count)
            return BatchRemainder(rest: rest, spent: spent)
        }
        return nil
    }
}
