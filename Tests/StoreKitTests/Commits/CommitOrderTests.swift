import Records
import RelayCore
import StoreKit
import Synchronization
import Testing

/// Which writes share a commit, and in which order users' writes run.
@Suite struct CommitOrderTests {
    /// A queue that commits when the test says, and the events of its writes; `|` is a commit.
    private final class World: Sendable {
        private let work = Mutex<[@Sendable () -> Void]>([])
        private let events = Mutex<[String]>([])
        private let queue = Mutex<CommitQueue?>(nil)
        private let owner = UserID.number(1)

        init() {
            let queue = CommitQueue(
                name: "test",
                commit: { [weak self] batch in self?.commit(batch) },
                idle: { false },
                scheduler: { [weak self] body in self?.work.withLock { $0.append(body) } }
            )
            self.queue.withLock { $0 = queue }
        }

        private func commit(_ batch: consuming [any StoreWrite]) -> BatchRemainder? {
            var bytes = 0
            let remainder = BatchRemainder.run(&batch) { write in
                bytes += (write as? TestWrite)?.bytes ?? 0
                return bytes
            }
            note("|")
            batch.forEach { $0.finish(nil) }
            return remainder
        }

        private func note(_ event: String) { events.withLock { $0.append(event) } }

        func takeEvents() -> [String] {
            events.withLock { events in
                defer { events = [] }
                return events
            }
        }

        func settle() {
            while let next = work.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { next() }
        }

        /// Queues a write of `count` records of a megabyte.
        func save(_ name: String, _ count: Int, for user: UserID) {
            let write = TestWrite(name, for: user, in: owner, bytes: count << 20) { [weak self] in self?.note(name) }
            _ = queue.withLock { $0 }?.add(write)
        }

        func close() { _ = queue.withLock { $0 }?.close() }
        func abandon() { queue.withLock { $0 }?.abandon() }
    }

    private let world = World()
    private let heavy = UserID.number(2)
    private let other = UserID.number(3)

    @Test func smallWritesShareOneCommit() {
        for name in ["a", "b", "c"] { world.save(name, 1, for: heavy) }
        world.save("d", 1, for: other)
        world.settle()
        #expect(world.takeEvents() == ["|", "a", "b", "c", "d"])
    }

    /// A user with a small write waits for one large write of another user, not for all of them.
    @Test func theUserWithTheLeastUseComesFirst() {
        for name in ["a", "b", "c"] { world.save(name, 17, for: heavy) }
        world.save("d", 1, for: other)
        world.settle()
        #expect(world.takeEvents() == ["|", "a", "|", "d", "b", "|", "c"])
        // A user's past writes do not count once the queue was empty.
        for name in ["e", "f"] { world.save(name, 1, for: heavy) }
        world.save("g", 1, for: other)
        world.settle()
        #expect(world.takeEvents() == ["|", "e", "f", "g"])
    }

    @Test func writesLeftByALimitedCommitRunBeforeClosing() {
        for name in ["a", "b", "c"] { world.save(name, 17, for: heavy) }
        world.close()
        #expect(world.takeEvents() == ["|", "a", "|", "b", "|", "c"])
    }

    @Test func anAbandonedQueueRunsNothing() {
        world.save("a", 1, for: heavy)
        world.abandon()
        world.settle()
        #expect(world.takeEvents() == [])
    }
}
