import Foundation
import Records
import RelayCore

/// Calls its argument later, never at once, one call at a time: a test's line of work instead of the commit thread.
package typealias CommitLater = @Sendable (@escaping @Sendable () -> Void) -> Void

/// Carries out a store's writes one commit after the other: all that wait make one commit, are answered, and again.
///
/// While a commit waits for the disk the next writes gather, so under load a hundred share one fsync. Whoever has just been
/// answered mostly writes again: the next commit gives them up to a quarter of a commit's time, so that all share it
/// instead of taking turns, and as long as that brings writes faster than commits do. A lone write waits
/// for nobody, not even for a thread to wake: on a fast disk, while writes come one by one, its caller commits it. A commit
/// ends early where its writes turn out to be large; what it leaves is done next, after the writes of those users who
/// have taken less. The queue needs no bound of its own: every entry is a request that waits for its answer, and those
/// are bounded by the connections.
// Unchecked for what changes: all of it is guarded by `condition`, a lock.
final class CommitQueue: @unchecked Sendable {
    private let condition = NSCondition()
    private var waiting: [any StoreWrite] = []
    /// Bytes that users have had written since a commit last had room for all that waited.
    private var spent: [UserID?: Int] = [:]
    private var isAbandoned = false
    private var isCommitting = false
    private var isClosed = false
    private var hasEnded = false
    private var thread: ObjectIdentifier?
    private var hasIdleWork = true
    /// Writes of the latest commit: more than one, and the next ones had better gather too.
    private var latestBatch = 1
    /// So many commits do not wait for writes on their way.
    private var gatheringRests = 0
    /// How long commits take, the later ones counting most.
    private var commitTime = Duration.zero
    /// How long the latest one took.
    private var latestTime = Duration.zero

    private let commit: @Sendable (consuming [any StoreWrite]) -> CommitCut?
    private let idle: @Sendable () -> Bool
    /// Commits when it likes, in place of the thread; and whether it has been asked to.
    private let later: CommitLater?
    private var isAsked = false
    private let onCommitTime: @Sendable (Int, Duration) -> Void

    /// Writes of one commit at the most: bounds how long the first of them waits.
    private static let batchLimit = 512
    /// The longest that a commit waits for writes that are on their way.
    private static let longestGathering = Duration.milliseconds(1)
    /// Fewer writes a commit than this, and the next ones are waited for by nobody.
    private static let leastGathered = 4
    /// Commits that wait for nobody after one that waited in vain.
    private static let restAfterGathering = 32
    /// The longest commit that a caller does itself, for its thread then serves nobody else.
    private static let callersTime = Duration.milliseconds(1)

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - name: the thread's.
    ///   - commit: gets each batch, and keeps nothing of it; on the thread, or on that of a lone write's caller. It does the
    ///     first at least.
    ///   - onCommitTime: hears how many writes each batch had and how long its commit took.
    ///   - idle: does a little of what can wait, on the thread, never beside a commit; says whether there is more. Called at
    ///     first and after `leaveIdleWork`.
    ///   - later: commits in place of the thread, which then is not started.
    init(
        name: String,
        commit: @escaping @Sendable (consuming [any StoreWrite]) -> CommitCut?,
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        idle: @escaping @Sendable () -> Bool,
        later: CommitLater? = nil
    ) {
        self.commit = commit
        self.onCommitTime = onCommitTime
        self.idle = idle
        self.later = later
        guard later == nil else {
            hasEnded = true
            return
        }
        let thread = Thread { [self] in
            // Only a thread itself can give itself a name that the system shows.
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

    /// Queues a write, or carries it out before it returns; false once the queue is closed.
    func add(_ write: any StoreWrite) -> Bool {
        condition.lock()
        guard !isClosed else {
            condition.unlock()
            return false
        }
        guard later == nil else {
            waiting.append(write)
            condition.unlock()
            askForCommit()
            return true
        }
        guard !isCommitting, waiting.isEmpty, latestBatch == 1, commitTime < Self.callersTime else {
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

    /// Writes that wait for their commit.
    var depth: Int { condition.withLock { waiting.count } }

    /// There is something to do once nothing waits; called within a commit.
    func leaveIdleWork() { condition.withLock { hasIdleWork = true } }

    /// Takes no more, and returns when all that waited is done, with how long a commit may take at present.
    ///
    /// On the thread itself, which may be the last to let go of a store, that is so already.
    @discardableResult
    func close() -> Duration {
        if later != nil { repeat { commitNow() } while depth > 0 }
        return condition.withLock {
            isClosed = true
            condition.broadcast()
            while !hasEnded, ObjectIdentifier(Thread.current) != thread { condition.wait() }
            return max(commitTime, latestTime)
        }
    }

    /// Takes no more, and forgets what waits: nobody hears of it again, as if the process had ended.
    func abandon() {
        condition.withLock {
            isClosed = true
            isAbandoned = true
            waiting = []
        }
    }

    private func askForCommit() {
        let mustAsk = condition.withLock {
            defer { isAsked = true }
            return !isAsked
        }
        if mustAsk { later?({ [weak self] in self?.commitNow() }) }
    }

    /// Commits what waits, on this thread; for those who have no thread.
    private func commitNow() {
        let batch = condition.withLock {
            isAsked = false
            return takeBatch(atMost: waiting.count)
        }
        if !batch.isEmpty {
            let cut = commit(batch)
            condition.withLock { putBack(cut) }
        }
        let hasMore = condition.withLock { hasIdleWork } && idle()
        condition.withLock { hasIdleWork = hasMore }
        if hasMore || depth > 0 { askForCommit() }
    }

    private func timed(_ batch: consuming [any StoreWrite]) {
        let (start, count) = (ContinuousClock.now, batch.count)
        let cut = commit(batch)
        let time = ContinuousClock.now - start
        let done = count - (cut?.rest.count ?? 0)
        onCommitTime(done, time)
        condition.withLock {
            putBack(cut)
            latestBatch = done
            commitTime = (commitTime * 7 + time) / 8
            latestTime = time
        }
    }

    /// `nil` at the end; nothing at all where there is idle work to do.
    private func next() -> [any StoreWrite]? {
        condition.lock()
        defer { condition.unlock() }
        while isCommitting || (waiting.isEmpty && !hasIdleWork && !isClosed) { condition.wait() }
        // What can wait also waits for the next start.
        if waiting.isEmpty, isClosed { return nil }
        isCommitting = true
        if latestBatch >= Self.leastGathered, !waiting.isEmpty, !isClosed { gather() }
        return takeBatch(atMost: Self.batchLimit)
    }

    /// Those first whose users have taken least, while there is not room for all.
    private func takeBatch(atMost limit: Int) -> [any StoreWrite] {
        if !spent.isEmpty {
            let turns = waiting.enumerated().map { (spent: spent[$1.user] ?? 0, place: $0, write: $1) }
            waiting = turns.sorted { ($0.spent, $0.place) < ($1.spent, $1.place) }.map(\.write)
        }
        let batch = Array(waiting.prefix(limit))
        waiting.removeFirst(batch.count)
        return batch
    }

    private func putBack(_ cut: CommitCut?) {
        guard let cut else {
            // Without a cut, none of those who came meanwhile has waited for more than this one commit.
            if !spent.isEmpty { spent = [:] }
            return
        }
        spent.merge(cut.spent, uniquingKeysWith: +)
        if !isAbandoned { waiting.insert(contentsOf: cut.rest, at: 0) }
    }

    /// Lets go of the lock for moments, until those of the latest commit are back or their time is over.
    private func gather() {
        guard gatheringRests == 0 else {
            gatheringRests -= 1
            return
        }
        let limit = min(commitTime / 4, Self.longestGathering)
        let (before, target) = (waiting.count, min(waiting.count + latestBatch, Self.batchLimit))
        let start = ContinuousClock.now
        var waited = Duration.zero
        while waiting.count < target, waited < limit, !isClosed {
            condition.unlock()
            // By the clock that cannot jump, as waiting for a condition could not be.
            usleep(50)
            condition.lock()
            waited = ContinuousClock.now - start
        }
        // Did the batch grow by less than the time that it takes?
        if commitTime * (waiting.count - before) < waited * before { gatheringRests = Self.restAfterGathering }
    }
}
