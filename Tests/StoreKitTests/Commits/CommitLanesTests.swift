import Dispatch
import Records
import RelayCore
import StoreKit
import Synchronization
import Testing

/// Which commits of a queue with several lanes run at once.
@Suite struct CommitLanesTests {
    /// A queue in virtual time: while a commit waits for its disk, the test runs other steps, and so other commits.
    ///
    /// A commit thus ends after those that began during it.
    private final class World: Sendable {
        private struct State {
            var work: [@Sendable () -> Void] = []
            /// The writes of the running commits, the latest one last.
            var running: [[TestWrite]] = []
            /// The names in each commit, in the order of the commits' starts.
            var commits: [[String]] = []
            /// The greatest number of commits that ran at once.
            var most = 0
            var idleCalls = 0
        }

        private let state = Mutex(State())
        private let queue = Mutex<CommitQueue?>(nil)
        private let hasOneLane: Bool
        /// Called during each commit.
        private let during: @Sendable (World) -> Void

        init(_ lanes: CommitLanes, during: @escaping @Sendable (World) -> Void = { _ in }) {
            hasOneLane = lanes.count == 1
            self.during = during
            let queue = CommitQueue(
                name: "test",
                lanes: lanes,
                commit: { [weak self] batch in self?.commit(batch) },
                idle: { [weak self] in
                    self?.state.withLock {
                        #expect($0.running.isEmpty)
                        $0.idleCalls += 1
                    }
                    return false
                },
                scheduler: { [weak self] body in self?.state.withLock { $0.work.append(body) } }
            )
            self.queue.withLock { $0 = queue }
        }

        private func commit(_ batch: [any StoreWrite]) -> BatchRemainder? {
            let writes = batch.compactMap { $0 as? TestWrite }
            state.withLock { state in
                let (mine, others) = (Set(writes.map(\.owner)), Set(state.running.joined().map(\.owner)))
                #expect(mine.isDisjoint(with: others), "one owner's writes run in two commits")
                #expect(hasOneLane || !mine.contains(nil) || mine == [nil], "upkeep shares a commit")
                #expect(!others.contains(nil) && (!mine.contains(nil) || others.isEmpty), "upkeep runs beside a commit")
                state.running.append(writes)
                state.commits.append(writes.map(\.name))
                state.most = max(state.most, state.running.count)
            }
            during(self)
            var rest = batch
            var bytes = 0
            let remainder = BatchRemainder.run(&rest) { write in
                bytes += (write as? TestWrite)?.bytes ?? 0
                return bytes
            }
            state.withLock { _ = $0.running.removeLast() }
            rest.forEach { $0.finish(nil) }
            return remainder
        }

        /// Runs one queued step; returns whether there was one.
        @discardableResult func step() -> Bool {
            let next = state.withLock { $0.work.isEmpty ? nil : $0.work.removeFirst() }
            next?()
            return next != nil
        }

        func settle() { while step() {} }

        func add(_ write: TestWrite) { #expect(queue.withLock { $0 }?.add(write) == true) }
        func add(_ name: String, in owner: Int?, bytes: Int = 0) {
            add(TestWrite(name, for: nil, in: owner.map { .number($0) }, bytes: bytes))
        }

        func leaveIdleWork() { queue.withLock { $0 }?.leaveIdleWork() }

        var depth: Int { queue.withLock { $0 }?.depth ?? 0 }
        var commits: [[String]] { state.withLock { $0.commits } }
        var most: Int { state.withLock { $0.most } }
        var idleCalls: Int { state.withLock { $0.idleCalls } }
    }

    @Test func oneCommitServesManyOwners() {
        let world = World(CommitLanes(count: 4, ownersAtOnce: 3))
        for owner in 1...5 { for turn in ["a", "b"] { world.add("\(owner)\(turn)", in: owner) } }
        world.settle()
        #expect(world.commits == [["1a", "1b", "2a", "2b", "3a", "3b"], ["4a", "4b", "5a", "5b"]])
    }

    @Test func anOwnersWriteWaitsForTheirRunningCommitWhileOthersOvertake() {
        let world = World(CommitLanes(count: 2)) { world in
            guard world.commits.count == 1 else { return }
            world.add("1b", in: 1)
            world.add("2", in: 2)
            world.settle()
        }
        world.add("1a", in: 1)
        world.settle()
        #expect(world.commits == [["1a"], ["2"], ["1b"]])
        #expect(world.most == 2)
    }

    @Test func noMoreCommitsRunThanThereAreLanes() {
        let world = World(CommitLanes(count: 2)) { world in
            let number = world.commits.count + 1
            guard number < 6 else { return }
            world.add("\(number)", in: number)
            world.settle()
        }
        world.add("1", in: 1)
        world.settle()
        #expect(world.commits.count == 5 && world.most == 2)
    }

    @Test func oneLaneRunsOneCommitForAllOwners() {
        let world = World(.single) { world in
            guard world.commits.count == 1 else { return }
            world.add("3", in: 3)
            world.settle()
        }
        for owner in [1, 2] { world.add("\(owner)", in: owner) }
        world.settle()
        #expect(world.commits == [["1", "2"], ["3"]])
        #expect(world.most == 1)
    }

    @Test func upkeepWaitsForAllCommitsAndNothingOvertakesIt() {
        let world = World(CommitLanes(count: 4)) { world in
            guard world.commits.count == 1 else { return }
            world.add("2", in: 2)
            world.add("upkeep", in: nil)
            world.add("3", in: 3)
            world.settle()
        }
        world.add("1", in: 1)
        world.settle()
        #expect(world.commits == [["1"], ["2"], ["upkeep"], ["3"]])
    }

    @Test func idleWorkRunsBesideNoCommit() {
        let world = World(CommitLanes(count: 2)) { world in
            guard world.commits.count < 3 else { return }
            world.leaveIdleWork()
            world.add("more", in: world.commits.count + 1)
            world.settle()
        }
        world.add("first", in: 1)
        world.settle()
        #expect(world.commits.count == 3 && world.idleCalls >= 1)
    }

    /// An owner's writes that a large commit left are in front of their later writes.
    @Test func theRestOfALargeCommitKeepsItsPlace() {
        let world = World(CommitLanes(count: 2)) { world in
            guard world.commits.count == 1 else { return }
            world.add("c", in: 1)
            world.settle()
        }
        world.add("a", in: 1, bytes: BatchRemainder.bytesAtOnce)
        world.add("b", in: 1)
        world.settle()
        #expect(world.commits == [["a", "b"], ["b", "c"]])
    }

    /// Random writes and interleavings: the expectations in `World.commit` hold, every write is answered once, and each
    /// owner's writes keep their order.
    @Test(arguments: 0..<200) func randomWritesNeverRunBesideTheirOwners(seed: Int) {
        let random = Mutex(SplitMix(UInt64(seed)))
        @Sendable func draw(_ range: Range<Int>) -> Int { random.withLock { Int.random(in: range, using: &$0) } }
        let answered = Mutex<[String]>([])
        let added = Mutex<[String]>([])
        @Sendable func addSome(to world: World) {
            for _ in 0..<draw(0..<4) where added.withLock({ $0.count < 60 }) {
                let owner = draw(0..<12) == 0 ? nil : UserID.number(draw(0..<5))
                let name = added.withLock { names in
                    names.append("\(owner?.recordName ?? "-") \(names.count)")
                    return names[names.count - 1]
                }
                let bytes = draw(0..<8) == 0 ? BatchRemainder.bytesAtOnce : 1
                world.add(
                    TestWrite(name, for: owner, in: owner, bytes: bytes) {
                        answered.withLock { $0.append(name) }
                    }
                )
                if draw(0..<6) == 0 { world.leaveIdleWork() }
            }
        }
        let world = World(CommitLanes(count: 1 + seed % 4, ownersAtOnce: 1 + seed % 3)) { world in
            for _ in 0..<draw(0..<4) {
                addSome(to: world)
                world.step()
            }
        }
        while added.withLock({ $0.count < 60 }) {
            addSome(to: world)
            world.step()
        }
        world.settle()
        #expect(world.depth == 0)
        #expect(world.most <= 1 + seed % 4)
        let (before, after) = (added.withLock { $0 }, answered.withLock { $0 })
        #expect(Set(before) == Set(after) && before.count == after.count)
        for owner in (0..<5).map({ "_\($0) " }) {
            #expect(after.filter { $0.hasPrefix(owner) } == before.filter { $0.hasPrefix(owner) })
        }
    }

    /// Two owners' commits run on two threads at once, and closing waits for both.
    ///
    /// A lane that would wait for more writes starts too, since the commit that runs does not end.
    @Test(arguments: [CommitLanes(count: 2), CommitLanes(count: 2, eager: 1, ownersAtOnce: 64)])
    func lanesHaveThreadsOfTheirOwn(_ lanes: CommitLanes) {
        let (isSecondIn, started) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let ended = Mutex<[String]>([])
        let queue = CommitQueue(
            name: "test",
            lanes: lanes,
            commit: { batch in
                let name = batch.compactMap { ($0 as? TestWrite)?.name }.joined()
                if name == "a" {
                    started.signal()
                    isSecondIn.wait()
                } else {
                    isSecondIn.signal()
                }
                ended.withLock { $0.append(name) }
                return nil
            },
            idle: { false }
        )
        // The queue commits a single write on the caller's thread.
        let caller = DispatchQueue(label: "caller")
        caller.async { _ = queue.add(TestWrite("a", for: nil, in: .number(1))) }
        started.wait()
        #expect(queue.add(TestWrite("b", for: nil, in: .number(2))))
        queue.close()
        caller.sync {}
        #expect(ended.withLock { $0 } == ["b", "a"] || ended.withLock { $0 } == ["a", "b"])
        #expect(!queue.add(TestWrite("c", for: nil, in: .number(1))))
    }
}

/// A small random source whose sequence depends on its seed alone.
private struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
