import Records
import RelayAPI
import RelayCore
import ZoneKit

/// The event loop of a test relay's notice connections.
final class TestNoticeWorker: NoticeWorker, TaskExecutor, @unchecked Sendable {
    // Unchecked for `registry`, `number` and `connections`: used on `serialQueue` only, once `init` has set them.

    private let serialQueue: SerialQueue
    private let registry = NoticeConnectionRegistry()
    // Weak: the hub retains its workers, and both belong to the running relay.
    private weak let hub: NoticeHub?
    private weak let admission: RelayAdmission?
    private let uptime: @Sendable () -> Duration
    private var number = 0
    /// In the order in which they were opened.
    private var connections: [TestSocketEnd] = []

    init(
        hub: NoticeHub,
        admission: RelayAdmission,
        serialQueue: SerialQueue,
        uptime: @escaping @Sendable () -> Duration
    ) {
        self.hub = hub
        self.admission = admission
        self.serialQueue = serialQueue
        self.uptime = uptime
        number = hub.add(self)
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        serialQueue.run { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    func post(_ order: NoticeOrder) { serialQueue.run { self.registry.perform(order) } }

    func run(_ body: @escaping @Sendable () -> Void) { serialQueue.run(body) }

    /// Opens a connection, whose events are sent to `end` on this worker.
    func open(_ request: APIRequest, _ end: TestSocketEnd) {
        serialQueue.run {
            guard let hub = self.hub, let admission = self.admission else { return end.finish() }
            self.connections.append(end)
            let connection = NoticeConnection(
                request: request,
                hub: hub,
                worker: self.number,
                registry: self.registry,
                admission: admission,
                uptime: self.uptime,
                transport: end
            )
            end.opened(connection)
            let admitted = Confined(connection)
            Task(executorPreference: self) { await admitted.value.admit() }
        }
    }

    func forget(_ end: TestSocketEnd) {
        serialQueue.run { self.connections.removeAll { $0 === end } }
    }

    /// Called after the clock has moved.
    func tick() {
        serialQueue.run { self.connections.forEach { $0.tick() } }
    }

    /// Ends every connection because the relay stops.
    func stop() {
        serialQueue.run { self.connections.forEach { $0.end(.stopping) } }
    }

    /// Waits until everything posted so far has been executed.
    func settle() async {
        await withCheckedContinuation { done in serialQueue.run { done.resume() } }
    }
}

/// Moves a value that is confined to a worker into a task that runs there.
private struct Confined<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
