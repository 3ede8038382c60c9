import Foundation
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Synchronization
import ZoneTesting

/// Calls at times of the simulated clock.
final class Timeline: @unchecked Sendable {
    // Unchecked: used only on the simulation's thread.
    private let clock: TestClock
    private var calls: [(time: Duration, call: @Sendable () -> Void)] = []

    init(_ clock: TestClock) { self.clock = clock }

    var now: Duration { clock.now.offset }
    var nextTime: Duration? { calls.first?.time }

    func after(_ delay: Duration, _ call: @escaping @Sendable () -> Void) {
        let time = now + delay
        calls.insert((time, call), at: calls.firstIndex { $0.time > time } ?? calls.endIndex)
    }

    func removeAll() { calls = [] }

    /// Makes the calls that are due.
    func run() {
        while let next = calls.first, next.time <= now {
            calls.removeFirst()
            next.call()
        }
    }
}

/// The bus between the nodes: delays, reorders, drops, repeats and cuts.
final class SimulatedNoticeBus: @unchecked Sendable {
    // Unchecked: used only on the simulation's thread.
    var drops = 0.0
    var repeats = 0.0
    var maxDelay = 20
    var isCut = false
    private let timeline: Timeline
    private let random: SeededRandom
    private let nodes: () -> [SimulatedNode]

    init(_ timeline: Timeline, _ random: SeededRandom, nodes: @escaping () -> [SimulatedNode]) {
        self.timeline = timeline
        self.random = random
        self.nodes = nodes
    }

    func carry(_ envelope: NoticeEnvelope) {
        for node in nodes() where node.id != envelope.sender {
            var generator = random.generator
            let count = Double.random(in: 0..<1, using: &generator) < repeats ? 2 : 1
            for _ in 0..<count where !isCut && Double.random(in: 0..<1, using: &generator) >= drops {
                let delay = Duration.milliseconds(Int.random(in: 1...maxDelay, using: &generator))
                timeline.after(delay) { node.queue.run { node.bus.receive(envelope) } }
            }
        }
    }
}

private struct NodeChannel: NoticeChannel {
    let bus: SimulatedNoticeBus
    func send(_ envelope: NoticeEnvelope) { bus.carry(envelope) }
}

/// The store of one node: the shared store, with a schema cache of the node's own.
///
/// Two stores on SQLite cannot write one file, because each caches what its writer knows. This is the seam in its place:
/// one store holds the data, and each node has what a store on a server would cache per node.
final class NodeStore: Store, NoticeReceiver {
    private let shared: any Store
    private let home: ContainerEnvironment
    private let queue: SerialQueue
    private let schema: Mutex<Schema>
    private let willWrite: @Sendable () -> Void

    init(
        _ shared: any Store,
        of home: ContainerEnvironment,
        queue: SerialQueue,
        willWrite: @escaping @Sendable () -> Void
    ) {
        self.shared = shared
        self.home = home
        self.queue = queue
        self.willWrite = willWrite
        schema = Mutex(shared.currentSchema)
    }

    var currentSchema: Schema { schema.withLock { $0 } }

    func epochs(of owner: UserID) throws(RelayError) -> Epochs { try shared.epochs(of: owner) }

    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
        try shared.read(body)
    }

    func query<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        try await shared.query(body)
    }

    func write(_ write: any StoreWrite) {
        queue.run {
            self.willWrite()
            self.shared.write(write)
        }
    }

    func receive(_ message: NoticeMessage) {
        guard case .schemaChanged(let new, self.home) = message else { return }
        schema.withLock { if new.version > $0.version { $0 = new } }
    }
}

/// One relay of several, with a hub, caches, a sweep and pushes of its own.
final class SimulatedNode: @unchecked Sendable {
    // Unchecked for the variables: used only on the simulation's thread.
    let number: Int
    let id: NodeID
    let process: SimulatedProcess
    /// Runs what a thread of the node would: commits, messages of the bus, notices and timers.
    let queue: SerialQueue
    let bus: NodeNoticeBus
    let hub: NoticeHub
    let sweep: NoticeSweep
    let store: NodeStore
    let relay: Relay
    let admission: RelayAdmission
    let accounts: any AccountDirectory
    let registry = NoticeConnectionRegistry()
    let worker: Int
    let notices: CommitNotices
    /// Whether the node is killed after its next commit, before it announces it.
    var diesAtCommit = false
    var sockets: [ClientSocket] = []
    private var ticks = 0

    private struct Worker: NoticeWorker {
        let queue: SerialQueue
        let registry: Confined

        struct Confined: @unchecked Sendable {
            // Unchecked: used only in calls of the queue.
            let value: NoticeConnectionRegistry
        }

        func post(_ order: NoticeOrder) { queue.run { registry.value.perform(order) } }
    }

    private struct Catalog: StoreCatalog {
        let home: ContainerEnvironment
        let store: NodeStore
        let files: any AssetStore
        var executor: (any TaskExecutor)? { nil }

        func store(of home: ContainerEnvironment) throws(RelayError) -> any Store { store }
        func isThere(_ home: ContainerEnvironment) -> Bool { home == self.home }
        func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore { files }
    }

    init(_ number: Int, run: UInt64, in world: NodesSimulation) throws {
        self.number = number
        id = NodeID("node\(number)")
        process = SimulatedProcess(id.name, on: world.executor)
        let queue = SerialQueue(of: process, on: world.executor)
        self.queue = queue
        let time = world.clock.timeSource
        let random = RandomSource { [random = world.random] in random.bytes($0) }
        accounts = try world.place.accounts(time: time, random: random, onLostWrite: nil)
        bus = NodeNoticeBus(node: id, run: run, channel: NodeChannel(bus: world.bus))
        hub = NoticeHub(relayName: id.name, bus: bus, noticeID: { random.hex(byteCount: 8) }, tasks: process)
        let home = world.home
        store = NodeStore(world.store, of: home, queue: queue) { [weak world] in world?.writer = number }
        bus.add(store)
        let catalog = Catalog(home: home, store: store, files: try world.stores.assets(of: home))
        sweep = NoticeSweep(bus: bus, hub: hub, stores: catalog)
        notices = CommitNotices(bus)
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        settings.requestRate = nil
        settings.publicRate = nil
        settings.failedCredentialRate = nil
        let authenticator = try Authenticator(directory: accounts, settings: settings, time: time, random: random)
        var limits = Limits()
        limits.itemsPerRequest = 4
        relay = Relay(
            authenticator: authenticator,
            stores: catalog,
            hub: hub,
            limits: limits,
            push: PushDependencies(
                gateway: SimulatedGateway { [weak world] in world?.pushed(to: $0, by: number) },
                register: accounts,
                sleep: { [clock = world.clock] in try await clock.sleep(for: $0) },
                tasks: process
            ),
            time: time,
            random: random
        )
        admission = RelayAdmission(relay: relay, hub: hub, time: time)
        worker = hub.add(Worker(queue: queue, registry: .init(value: registry)))
        try relay.beginPushes()
        // Reads the query subscriptions and the versions.
        sweep.sweep()
    }

    /// The work of the node's timers; called every second.
    func tick() {
        ticks += 1
        let isDue = ticks.isMultiple(of: 10)
        queue.run {
            try? self.relay.authenticator.watchGeneration()
            self.admission.closeRevoked()
            self.sockets.forEach { $0.connection?.tick() }
            if isDue { self.sweep.sweep() }
        }
    }

    func stop() {
        relay.stopPolls()
        relay.stopPushes()
        sockets.forEach { $0.abort() }
        sockets = []
    }
}

/// A push service that accepts everything.
private struct SimulatedGateway: PushGateway {
    let pushed: @Sendable (String) -> Void
    var webPushKey: [UInt8]? { nil }

    func objection(to target: PushTarget) -> String? { nil }

    func send(_ push: Push, to target: PushTarget) async -> PushOutcome {
        if case .fcm(let token) = target { pushed(token) }
        return .taken
    }
}
