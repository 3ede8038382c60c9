import Foundation
import Records

/// A write that waits for its commit.
///
/// Touched by the commit thread alone once it is queued.
protocol QueuedWrite: AnyObject, Sendable {
    /// Decides and writes, and keeps the outcome until it is durable. May be run again after a rollback.
    func run(in writer: SQLiteWriter)
    /// Hands out the outcome, or `failure` where the commit did not come about.
    func finish(_ failure: RelayError?)
}

/// The one thread that writes a store: takes all writes that wait, makes one commit of them, answers them, and again.
///
/// While a commit waits for the disk the next writes gather, so under load a hundred share one fsync, and a lone one
/// waits for nobody. The queue needs no bound of its own: every entry is a request that waits for its answer, and those
/// are bounded by the connections.
final class CommitQueue: @unchecked Sendable {
    // Guarded by `condition`: `waiting`, `isClosed`, `hasEnded`.
    private let condition = NSCondition()
    private var waiting: [any QueuedWrite] = []
    private var isClosed = false
    private var hasEnded = false

    /// Writes of one commit at the most: bounds how long the first of them waits.
    private static let batchLimit = 512

    /// Starts the thread.
    ///
    /// `commit` gets each batch, `idle` is called when nothing waits and says whether to be called again.
    init(name: String, commit: @escaping @Sendable ([any QueuedWrite]) -> Void, idle: @escaping @Sendable () -> Bool) {
        let thread = Thread { [self] in
            var hasIdleWork = true
            while let batch = next(hasIdleWork: hasIdleWork) {
                if !batch.isEmpty { commit(batch) }
                hasIdleWork = idle()
            }
            condition.withLock {
                hasEnded = true
                condition.broadcast()
            }
        }
        thread.name = name
        thread.start()
    }

    /// Queues a write; false once the queue is closed.
    func add(_ write: any QueuedWrite) -> Bool {
        condition.withLock {
            guard !isClosed else { return false }
            waiting.append(write)
            condition.signal()
            return true
        }
    }

    /// Takes no more, and returns when all that waited is done.
    func close() {
        condition.withLock {
            isClosed = true
            condition.broadcast()
            while !hasEnded { condition.wait() }
        }
    }

    /// `nil` at the end; nothing at all while there is idle work to go on with.
    private func next(hasIdleWork: Bool) -> [any QueuedWrite]? {
        condition.withLock {
            while waiting.isEmpty, !hasIdleWork, !isClosed { condition.wait() }
            if waiting.isEmpty { return hasIdleWork ? [] : nil }
            let batch = Array(waiting.prefix(Self.batchLimit))
            waiting.removeFirst(batch.count)
            return batch
        }
    }
}
