import Synchronization

/// How many notices one connection was sent, and what became of the others.
///
/// Counted by the connection's lane alone, so that counting is a plain addition; read from any thread.
package final class NoticeTally: Sendable {
    private let sent = Atomic<Int>(0)
    private let merged = Atomic<Int>(0)
    private let dropped = Atomic<Int>(0)
    private let waiting = Atomic<Int>(0)

    package init() {}

    package struct Counts: Hashable, Sendable {
        /// Written to the connection.
        package var sent = 0
        /// Became one with another that waited, about the same zone or, past the bound, the same database.
        package var merged = 0
        /// Waited when the connection ended: the device is told when it comes back.
        package var dropped = 0
        /// Wait now, for a reader that is slow.
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

    /// There is one writer, so no locked addition is needed.
    private static func add(_ count: Int, to counter: borrowing Atomic<Int>) {
        counter.store(counter.load(ordering: .relaxed) &+ count, ordering: .relaxed)
    }
}
