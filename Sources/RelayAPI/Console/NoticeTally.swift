import Synchronization

/// Counts the notices of one connection.
///
/// Only the event loop of the connection writes, so that counting is a plain addition; any thread may read.
package final class NoticeTally: Sendable {
    private let sent = Atomic<Int>(0)
    private let merged = Atomic<Int>(0)
    private let dropped = Atomic<Int>(0)
    private let waiting = Atomic<Int>(0)

    package init() {}

    package struct Counts: Hashable, Sendable {
        /// Written to the connection.
        package var sent = 0
        /// Merged with a queued notice about the same zone, or about the same database if the queue was full.
        package var merged = 0
        /// Queued when the connection ended; the device catches up when it reconnects.
        package var dropped = 0
        /// Queued now because the client reads slowly.
        package var waiting = 0

        package init() {}

        mutating func add(_ more: Counts) {
            sent += more.sent
            merged += more.merged
            dropped += more.dropped
            waiting += more.waiting
        }
    }

    package var counts: Counts {
        var counts = Counts()
        counts.sent = sent.load(ordering: .relaxed)
        counts.merged = merged.load(ordering: .relaxed)
        counts.dropped = dropped.load(ordering: .relaxed)
        counts.waiting = waiting.load(ordering: .relaxed)
        return counts
    }

    func countSent(_ count: Int = 1) { Self.add(count, to: sent) }
    func countMerged(_ count: Int = 1) { Self.add(count, to: merged) }
    func countDropped(_ count: Int) { Self.add(count, to: dropped) }
    func waits(_ count: Int) { waiting.store(count, ordering: .relaxed) }

    /// Needs no atomic addition because there is only one writer.
    private static func add(_ count: Int, to counter: borrowing Atomic<Int>) {
        counter.store(counter.load(ordering: .relaxed) &+ count, ordering: .relaxed)
    }
}
