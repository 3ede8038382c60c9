import Records
import RelayAPI
import RelayCore
import ZoneKit

/// The event loop of a test relay's notice connections.
final class TestLane: NoticeLane, TaskExecutor, @unchecked Sendable {
    // Unchecked for `roll`, `number` and `connections`: used on `line` only, once `init` has set them.

    private let line: Line
    private let roll = NoticeLaneRoll()
    // Weak: the hub retains its lanes, and both belong to the running relay.
    private weak let hub: NoticeHub?
    private weak let admission: RelayAdmission?
    private let uptime: @Sendable () -> Duration
    private var number = 0
    /// In the order in which they were opened.
    private var connections: [TestSocketEnd] = []

    init(hub: NoticeHub, admission: RelayAdmission, line: Line, uptime: @escaping @Sendable () -> Duration) {
        self.hub = hub
        self.admission = admission
        self.line = line
        self.uptime = uptime
        number = hub.add(self)
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        line.run { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    func post(_ order: NoticeOrder) { line.run { self.roll.perform(order) } }

    func run(_ body: @escaping @Sendable () -> Void) { line.run(body) }

    /// Opens a connection, whose events are sent to `end` on this lane.
    func open(_ request: APIRequest, _ end: TestSocketEnd) {
        line.run {
            guard let hub = self.hub, let admission = self.admission else { return end.finish() }
            self.connections.append(end)
            let connection = NoticeConnection(
                request: request,
                hub: hub,
                lane: self.number,
                roll: self.roll,
                admission: admission,
                uptime: self.uptime,
                outlet: end
            )
            end.opened(connection)
            let admitted = Confined(connection)
            Task(executorPreference: self) { await admitted.value.admit() }
        }
    }

    func forget(_ end: TestSocketEnd) {
        line.run { self.connections.removeAll { $0 === end } }
    }

    /// Called after the clock has moved.
    func tick() {
        line.run { self.connections.forEach { $0.tick() } }
    }

    /// Ends every connection because the relay stops.
    func stop() {
        line.run { self.connections.forEach { $0.end(.stopping) } }
    }

    /// Waits until everything posted so far has been executed.
    func settle() async {
        await withCheckedContinuation { done in line.run { done.resume() } }
    }
}

/// Moves a value that is confined to a lane into a task that runs there.
private struct Confined<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
