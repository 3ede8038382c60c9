import Foundation
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Automatic sync: the app makes no sync calls.
@Suite(.timeLimit(.minutes(15))) struct AutomaticTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    func device(_ name: String, user: String = "alice") async throws -> Mirrored {
        try await Mirrored(relay.device(of: user, named: name), isAutomatic: true)
    }

    @Test func aSaveAppearsOnTheOtherDevice() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        let shown = ObservedValues(laptop.context().objects(Note.self))
        try phone.save(Note(id: "milk", title: "Buy milk"))
        try await shown.wait("the note to show") { $0.map(\.title) == ["Buy milk"] }
        let context = phone.context()
        try context.edit(Note.self, "milk") { $0.done = true }
        try context.save()
        try await shown.wait("the edit to show") { $0.map(\.done) == [true] }
        try context.delete(Note.self, id: "milk")
        try context.save()
        try await shown.wait("the note to go") { $0.isEmpty }
    }

    /// A save at the very end of the previous send must not wait for the next save.
    @Test func everySaveIsSentWithoutAnother() async throws {
        let phone = try await device("phone")
        for round in 0..<300 {
            try phone.save(Note(title: "\(round)"))
            let end = ContinuousClock.now + .seconds(120)
            while try await phone.container.pendingExportCount(phone.store) > 0 {
                try #require(ContinuousClock.now < end, "round \(round): the change is still not sent")
                await Task.yield()
            }
        }
    }

    @Test func anOfflineDeviceCatchesUp() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "a", title: "1"))
        let shown = ObservedValues(laptop.context().objects(Note.self, sortedBy: .ascending(\.title)))
        try await shown.wait("the first note") { $0.map(\.title) == ["1"] }
        laptop.device.network.cut()
        try phone.save(Note(id: "b", title: "2"))
        try laptop.save(Note(id: "c", title: "3"))
        laptop.device.network.heal()
        try await shown.wait("everything") { $0.map(\.title) == ["1", "2", "3"] }
        let there = ObservedValues(phone.context().objects(Note.self, sortedBy: .ascending(\.title)))
        try await there.wait("everything there too") { $0.map(\.title) == ["1", "2", "3"] }
    }

    /// A delay that the relay requested applies to all requests of a private store, also after a restart.
    @Test func aRetryDelayAppliesToTheSubscriptionToo() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let folder = try TemporaryFolder()
        func open() async throws -> Mirrored {
            let conditions = device.connection.conditions.map { MirrorConditions($0) } ?? MirrorConditions()
            return try await Mirrored(device, folder: folder, isAutomatic: true, conditions: conditions)
        }
        var phone = try await open()
        try await relay.settle()
        device.network.fail(request: 1, of: "records/modify", by: .throttled(retryAfter: .seconds(7_200)))
        try phone.save(Note(id: "n", title: "1"))
        let limit = ContinuousClock.now + .seconds(120)
        while !device.network.operations.contains("private/records/modify") {
            try #require(ContinuousClock.now < limit, "nothing was sent")
            await relay.advance(by: .seconds(1))
        }
        await relay.advance(by: .seconds(60))
        await phone.container.close()
        device.network.forgetOperations()
        phone = try await open()
        await relay.advance(by: .seconds(3_600))
        #expect(device.network.operations.filter { $0.hasPrefix("private/") } == [])
        // On a busy machine the program may start to wait only after the clock has advanced.
        let end = ContinuousClock.now + .seconds(120)
        var isDone = false
        while !isDone {
            try #require(ContinuousClock.now < end, "\(device.network.operations)")
            await relay.advance(by: .seconds(3_700))
            let isSent = try await phone.container.pendingExportCount(phone.store) == 0
            isDone = isSent && device.network.operations.contains("private/subscriptions/modify")
        }
        await phone.container.close()
    }

    /// The socket stays open without delivering notices, as behind a proxy that drops them.
    @Test("with every notice lost on an open socket a mirror catches up within a quarter of an hour")
    func lostNotices() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let device = relay.device(of: "alice", named: "deaf")
        let conditions = device.connection.conditions.map { MirrorConditions($0) } ?? MirrorConditions()
        let laptop = try await Mirrored(device, isAutomatic: true, conditions: conditions)
        try await relay.settle()
        device.network.notices = .dropped
        for round in 1...3 {
            try phone.save(Note(id: RecordName("\(round)"), title: "\(round)"))
            try await phone.sync()
            device.network.forgetOperations()
            var minutes = 0
            while try laptop.titles.count < round, minutes < 15 {
                await relay.advance(by: .seconds(60))
                minutes += 1
            }
            #expect(try laptop.titles.count == round, "round \(round)")
            // Only the scheduled fetch found the change.
            #expect(minutes > 5)
            #expect(device.network.operations.count { $0.hasSuffix("changes/database") } == 1)
        }
        await laptop.container.close()
    }

    @Test func withoutNoticesAMirrorConvergesWithinThePollInterval() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "a", title: "1"))
        try await phone.sync()
        var conditions = MirrorConditions()
        conditions.time = Scheduler(relay.clock)
        let (clock, device) = (relay.clock, relay.device(of: "alice", named: "deaf"))
        conditions.wallClock = { clock.date }
        // Without a URL there is no socket, so this device gets no notices.
        let connection = RelayConnection(
            container: TestRelay.containerIdentifier,
            url: nil,
            credentials: RelayCredentials(apiToken: nil, webAuthToken: "dev-alice"),
            deviceID: "deaf",
            transport: device.network
        )
        let deaf = try await Mirrored(device, isAutomatic: true, conditions: conditions) {
            $0.cloud?.container = CKContainer(connection: connection)
        }
        let shown = ObservedValues(deaf.context().objects(Note.self, sortedBy: .ascending(\.title)))
        try await shown.wait("the first fetch") { $0.map(\.title) == ["1"] }
        try phone.save(Note(id: "b", title: "2"))
        try await phone.sync()
        // Limits the simulated time, independently of how fast tasks that sleep on the clock run, such as the file
        // watch, which wakes every second.
        let limit = clock.now.advanced(by: .seconds(90))
        let time = Task {
            while !Task.isCancelled {
                if let next = clock.nextDeadline, next <= limit { clock.advance(by: clock.now.duration(to: next)) }
                await Task.yield()
            }
        }
        defer { time.cancel() }
        try await shown.wait("the poll") { $0.map(\.title) == ["1", "2"] }
        #expect(clock.now <= limit)
    }

    /// An import is suspended within its transaction until the main actor has read.
    @Test func mainActorReadsAreNotBlockedByAnImport() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "n", title: "note"))
        try await phone.sync()
        let (inside, read) = (Gate(), Barrier())
        var conditions = MirrorConditions()
        conditions.crashPoint = { point in
            guard point == .insideImport else { return }
            inside.open()
            read.wait()
        }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), conditions: conditions)
        let arrival = Task { try await laptop.container.fetchChanges() }
        await inside.wait()
        let found = try await MainActor.run {
            try (0..<20).map { _ in try laptop.container.viewContext.fetch(Note.self).count }
        }
        #expect(found.allSatisfy { $0 == 0 }, "uncommitted objects are visible")
        read.open()
        try await arrival.value
        #expect(!read.isLate, "the reads waited for the import")
        #expect(try laptop.titles == ["n": "note"])
    }

    /// Blocks threads until it opens, for 120 s at most.
    private final class Barrier: Sendable {
        private let condition = NSCondition()
        private let state = Mutex((isOpen: false, isLate: false))

        var isLate: Bool { state.withLock(\.isLate) }

        func open() {
            state.withLock { $0.isOpen = true }
            condition.withLock { condition.broadcast() }
        }

        func wait() {
            let end = Date(timeIntervalSinceNow: 120)
            condition.withLock {
                while !state.withLock(\.isOpen) {
                    guard condition.wait(until: end) else { return state.withLock { $0.isLate = true } }
                }
            }
        }
    }

    /// Compares the CPU time of reads; the test above checks that they do not wait.
    @Test func mainActorReadsCostNoMoreDuringAnImport() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        for number in 0..<5_000 { try context.insert(Note(id: RecordName("n\(number)"), title: "note \(number)")) }
        try context.save()
        try await phone.sync()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        let calm = try await times(laptop, while: nil)
        let busy = try await times(laptop) { try await laptop.container.fetchChanges() }
        #expect(try laptop.titles.count == 5_000)
        #expect(busy < max(calm * 20, 0.05), "\(calm) s without, \(busy) s during the import")
    }

    /// The 99th percentile of the CPU times of reads on the main actor during `work`.
    @MainActor private func times(
        _ mirror: Mirrored,
        while work: (@Sendable () async throws -> Void)?
    ) async throws -> Double {
        let done = Mutex(work == nil)
        let task = Task.detachedForTest {
            try await work?()
            done.withLock { $0 = true }
        }
        var times: [Double] = []
        repeat {
            times.append(
                try threadCPUTime { _ = try mirror.container.viewContext.fetch(Note.self, \.title == "note 7") }
            )
            await Task.yield()
        } while !done.withLock { $0 } || times.count < 200
        try await task.value
        return times.sorted()[times.count * 99 / 100]
    }
}

extension Duration {
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}

extension Task where Failure == any Error {
    /// Runs the work off the caller's actor.
    fileprivate static func detachedForTest(
        _ work: @escaping @Sendable () async throws -> Success
    ) -> Task<Success, any Error> { Task { @concurrent in try await work() } }
}

/// The latest results of a live request, with a method that waits for expected results.
final class ObservedValues<T: Sendable>: Sendable {
    struct TimedOut: Error, CustomStringConvertible {
        var what: String
        var description: String { "timed out waiting for \(what)" }
    }

    private struct State {
        var latest: [T]?
        var waiter: (condition: @Sendable ([T]) -> Bool, continuation: CheckedContinuation<Bool, Never>)?

        /// Removes and returns the waiter if its condition is met.
        mutating func takeSatisfied() -> CheckedContinuation<Bool, Never>? {
            guard let latest, let waiter, waiter.condition(latest) else { return nil }
            self.waiter = nil
            return waiter.continuation
        }
    }

    private let state = Mutex(State())
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ stream: AsyncStream<[T]>) {
        let task = Task { [weak self] in
            for await found in stream { self?.take(found) }
        }
        self.task.withLock { $0 = task }
    }

    deinit { task.withLock { $0 }?.cancel() }

    private func take(_ found: [T]) {
        let satisfied = state.withLock { state in
            state.latest = found
            return state.takeSatisfied()
        }
        satisfied?.resume(returning: true)
    }

    /// Waits until the condition is met.
    ///
    /// Only one task may wait at a time.
    func wait(_ what: String, _ condition: @escaping @Sendable ([T]) -> Bool) async throws {
        let end = Task { [weak self] in
            try await Task.sleep(for: .seconds(120))
            self?.state.withLock { $0.waiter.take()?.continuation }?.resume(returning: false)
        }
        defer { end.cancel() }
        let isThere = await withCheckedContinuation { continuation in
            let satisfied = state.withLock { state in
                state.waiter = (condition, continuation)
                return state.takeSatisfied()
            }
            satisfied?.resume(returning: true)
        }
        guard isThere else { throw TimedOut(what: what) }
    }
}
