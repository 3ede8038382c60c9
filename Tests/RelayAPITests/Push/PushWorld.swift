import RelayAPI
import RelayCore
import RelayStore
import Synchronization
import Testing

/// A clock that stands still until a test advances it, and reports the sleeps that are requested.
final class PushClock: Sendable {
    private struct State {
        var now = Duration.seconds(1_000)
        var sleepers: [(due: Duration, wake: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())
    private let asked = AsyncStream<Duration>.makeStream()

    var uptime: Duration { state.withLock { $0.now } }

    func sleep(_ time: Duration) async throws {
        await withCheckedContinuation { wake in
            state.withLock { $0.sleepers.append(($0.now + time, wake)) }
            asked.continuation.yield(time)
        }
        try Task.checkCancellation()
    }

    /// Waits for the next sleep and returns its duration.
    func nextSleep() async -> Duration? {
        var sleeps = asked.stream.makeAsyncIterator()
        return await sleeps.next()
    }

    func advance(by time: Duration) {
        let due = state.withLock { state in
            state.now += time
            let due = state.sleepers.filter { $0.due <= state.now }
            state.sleepers.removeAll { $0.due <= state.now }
            return due
        }
        for sleeper in due { sleeper.wake.resume() }
    }
}

/// A fake push service: returns the outcomes it was given, and `taken` otherwise.
final class PushPeer: PushGateway {
    private let answers = Mutex<[PushOutcome]>([])
    private let arrived = AsyncStream<Push>.makeStream()
    private let count = Mutex(0)

    var webPushKey: [UInt8]? { [4, 5, 6] }
    var pushCount: Int { count.withLock { $0 } }

    func willAnswer(_ outcomes: PushOutcome...) { answers.withLock { $0 += outcomes } }

    func objection(to target: PushTarget) -> String? {
        if case .ntfy = target { return "This relay does not use ntfy." }
        return nil
    }

    func send(_ push: Push, to target: PushTarget) async -> PushOutcome {
        count.withLock { $0 += 1 }
        let outcome = answers.withLock { $0.isEmpty ? .taken : $0.removeFirst() }
        arrived.continuation.yield(push)
        return outcome
    }

    /// Waits for the next push.
    func nextPush() async -> Push? {
        var pushes = arrived.stream.makeAsyncIterator()
        return await pushes.next()
    }
}

/// A relay in memory that sends its pushes to a `PushPeer`, on a `PushClock`.
struct PushWorld {
    let clock = PushClock()
    let peer = PushPeer()
    let directory: AccountStore
    let world: SubscriptionWorld

    init(directory: AccountStore? = nil) throws {
        let directory = try directory ?? AccountStore(inMemory: ())
        self.directory = directory
        let clock = clock
        world = try SubscriptionWorld(
            directory: directory,
            time: TimeSource(now: TimeSource.system.now, uptime: { clock.uptime }),
            push: PushService(gateway: peer, register: directory, sleep: { try await clock.sleep($0) })
        )
        try world.relay.beginPushes()
    }

    static let subscription = #"""
        {"operations":[{"operationType":"create","subscription":{"subscriptionID":"db","subscriptionType":"database"}}]}
        """#
    static let apns = #"{"apns":{"token":"\#(String(repeating: "0a", count: 32))","topic":"org.example.notes"}}"#

    /// Creates a zone that alice's devices subscribe to, and registers a device of hers that is not connected.
    func sleepingPhone() async throws {
        try await world.makeZone("Notes")
        _ = try await world.ask("private/subscriptions/modify", Self.subscription)
        #expect(try await register("phone") == 200)
    }

    func register(_ device: String, _ body: String = Self.apns) async throws -> Int {
        try await world.device("push/register", body, from: device).status
    }

    /// Changes a record of that zone and waits until the relay has processed the change.
    func change(_ name: String, from device: String = "writer") async throws {
        try await world.change(name, zone: "Notes", from: device)
        await world.settle()
    }
}
