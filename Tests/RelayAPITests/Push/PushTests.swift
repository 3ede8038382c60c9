import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import TestSupport
import Testing
import Wire

@Suite(.timeLimit(.minutes(15))) struct PushTests {
    @Test func aBurstOfCommitsIsOnePush() async throws {
        let push = try PushWorld()
        try await push.sleepingPhone()
        try await push.change("a")
        #expect(await push.clock.nextSleep() == .seconds(1))
        try await push.change("b")
        push.clock.advance(by: .seconds(1))
        let sent = try #require(await push.peer.nextPush())
        let payload = try JSONDocument(parsing: sent.payload).root
        #expect(try payload.required("aps").required("content-available").int64() == 1)
        #expect(try payload.required("ck").required("met").required("zid").string() == "Notes")
        #expect(sent.alert == nil)
        #expect(sent.topic.utf8.count == 24)
        // The next burst waits until the minimum interval between pushes has passed.
        try await push.change("c")
        #expect(await push.clock.nextSleep() == .seconds(5))
        #expect(push.peer.pushCount == 1)
    }

    @Test func aConnectedDeviceGetsNoPush() async throws {
        let push = try PushWorld()
        try await push.sleepingPhone()
        let phone = await push.world.device("phone")
        try await push.change("a")
        #expect(await push.clock.nextSleep() == .seconds(100))
        push.clock.advance(by: .seconds(100))
        // The socket has answered the pings, so the device received the notice.
        try await push.change("b")
        #expect(await push.clock.nextSleep() == .seconds(100))
        #expect(push.peer.pushCount == 0)
        phone.disconnect()
    }

    @Test func aDeviceWhoseSocketWasDeadGetsThePush() async throws {
        let push = try PushWorld()
        try await push.sleepingPhone()
        let phone = await push.world.device("phone")
        try await push.change("a")
        _ = await push.clock.nextSleep()
        phone.disconnect()
        push.clock.advance(by: .seconds(100))
        #expect(await push.peer.nextPush() != nil)
    }

    @Test func aDeviceGetsNoPushForItsOwnChanges() async throws {
        let push = try PushWorld()
        try await push.sleepingPhone()
        #expect(try await push.register("tablet") == 200)
        try await push.change("a", from: "phone")
        _ = await push.clock.nextSleep()
        push.clock.advance(by: .seconds(1))
        _ = await push.peer.nextPush()
        // Only the tablet gets a push; nothing else sleeps on the clock.
        push.clock.advance(by: .seconds(1_000))
        #expect(push.peer.pushCount == 1)
    }

    @Test func anAlertIsPushedAtOnce() async throws {
        let push = try PushWorld()
        #expect(try await push.register("phone") == 200)
        try await push.world.subscribe(
            "alerts",
            extra: #","notificationInfo":{"alertBody":"Something is new"}"#
        )
        try await push.world.change("a")
        await push.world.settle()
        let sent = try #require(await push.peer.nextPush())
        #expect(sent.alert == "Something is new")
    }

    @Test func aBurstOfChangesInAZoneIsOneAlert() async throws {
        let push = try PushWorld()
        try await push.world.makeZone("Notes")
        _ = try await push.world.ask(
            "private/subscriptions/modify",
            """
            {"operations":[{"operationType":"create","subscription":{"subscriptionID":"zone","subscriptionType":"zone",
            "zoneID":{"zoneName":"Notes"},"notificationInfo":{"alertBody":"Something is new"}}}]}
            """
        )
        #expect(try await push.register("phone") == 200)
        for name in ["a", "b"] { try await push.change(name) }
        #expect(await push.clock.nextSleep() == .seconds(1))
        push.clock.advance(by: .seconds(1))
        #expect(await push.peer.nextPush()?.alert == "Something is new")
        #expect(push.peer.pushCount == 1)
    }

    @Test func aDeadTokenEndsTheRegistration() async throws {
        let push = try PushWorld()
        try await push.sleepingPhone()
        push.peer.willAnswer(.gone)
        let connections = push.world.hub.connectionCount
        try await push.change("a")
        _ = await push.clock.nextSleep()
        push.clock.advance(by: .seconds(1))
        _ = await push.peer.nextPush()
        try await eventually("the registration to end") {
            try push.directory.pushDevices().isEmpty && push.world.hub.connectionCount < connections
        }
    }

    @Test func aBusyServiceIsRetriedAtGrowingIntervals() async throws {
        let push = try PushWorld()
        try await push.sleepingPhone()
        push.peer.willAnswer(.later(nil, "busy"), .later(nil, "busy"), .later(.seconds(90), "come back"))
        try await push.change("a")
        for (wait, next) in [(1, 5), (5, 10), (10, 90)] {
            #expect(await push.clock.nextSleep() == .seconds(wait))
            push.clock.advance(by: .seconds(wait))
            #expect(await push.peer.nextPush() != nil, "before \(next) s")
        }
        #expect(await push.clock.nextSleep() == .seconds(90))
        try await eventually("the fault to be stored") {
            try push.directory.pushDevices().first?.lastFault == "come back"
        }
        push.clock.advance(by: .seconds(90))
        #expect(await push.peer.nextPush() != nil)
    }

    @Test func registrationsSurviveARestart() async throws {
        let directory = try TestStore.current.makeHome().accounts()
        let first = try PushWorld(directory: directory)
        try await first.sleepingPhone()
        first.world.close()
        let second = try PushWorld(directory: directory)
        #expect(second.world.relay.pushDeviceCount == 1)
        try await second.world.makeZone("Notes")
        _ = try await second.world.ask("private/subscriptions/modify", PushWorld.subscription)
        try await second.change("a")
        _ = await second.clock.nextSleep()
        second.clock.advance(by: .seconds(1))
        #expect(await second.peer.nextPush() != nil)
    }

    @Test func aDeviceHasOneRegistrationAndAUserTwenty() async throws {
        let push = try PushWorld()
        for _ in 0..<3 { #expect(try await push.register("phone") == 200) }
        #expect(try push.directory.pushDevices().count == 1)
        for number in 0..<25 { #expect(try await push.register("device-\(number)") == 200) }
        #expect(try push.directory.pushDevices().count == 20)
        #expect(push.world.hub.connectionCount == 20)
        #expect(try await push.world.device("push/unregister", "{}", from: "device-24").status == 200)
        #expect(try await push.world.device("push/unregister", "{}", from: "nobody").status == 200)
        #expect(try push.directory.pushDevices().count == 19)
        #expect(push.world.hub.connectionCount == 19)
    }

    @Test func revokingTheSignInEndsTheRegistration() async throws {
        let push = try PushWorld()
        try await push.sleepingPhone()
        let user = try #require(try push.directory.pushDevices().first)
        push.world.hub.revokeAll(of: NoticeAddress(store: user.home, user: user.user))
        #expect(try push.directory.pushDevices().isEmpty)
        #expect(push.world.hub.connectionCount == 0)
    }

    /// No push service accepts a longer payload, and truncated JSON is invalid.
    @Test func noAlertIsTooLongForAPush() async throws {
        let push = try PushWorld()
        try await push.world.makeZone("Notes")
        #expect(try await push.register("phone") == 200)
        func subscribe(_ letters: Int) async throws -> String? {
            let text = String(repeating: "x", count: letters)
            let body = """
                {"operations":[{"operationType":"create","subscription":{"subscriptionID":"loud","subscriptionType":"query",\
                "query":{"recordType":"Note"},"firesOn":["create"],"notificationInfo":{"alertBody":"\(text)"}}}]}
                """
            let answer = try await push.world.ask("private/subscriptions/modify", body)
            return try answer.json.required("subscriptions").elements().first?.text("serverErrorCode")
        }
        #expect(try await subscribe(3_500) == "BAD_REQUEST")
        #expect(try await subscribe(2_900) == nil)
        try await push.change("a")
        let payload = try #require(await push.peer.nextPush()).payload
        #expect(payload.count <= 3_993)
    }

    @Test func aHubIsReleasedWithItsRelay() async throws {
        weak var hub: NoticeHub?
        do {
            let push = try PushWorld()
            hub = push.world.hub
            push.world.close()
        }
        #expect(hub == nil)
    }

    @Test func aRevokedSessionEndsTheRegistration() throws {
        let signIns = try SignInWorld()
        let started = try signIns.start(signIns.alice, in: signIns.home, .kept)
        _ = try signIns.store.addPushDevice(
            PushDevice(
                id: "a",
                home: signIns.home,
                user: started.user,
                deviceID: "phone",
                session: started.session,
                apiTokenHash: [],
                target: .fcm(token: "a"),
                registered: Timestamp(milliseconds: 0)
            ),
            limit: 1
        )
        let push = try PushWorld(directory: signIns.store)
        #expect(push.world.hub.connectionCount == 1)
        try signIns.store.revokeSession(started.session)
        try push.world.relay.maintainSignIns()
        #expect(push.world.relay.pushDeviceCount == 0 && push.world.hub.connectionCount == 0)
        #expect(try signIns.store.pushDevices().isEmpty)
    }

    @Test(arguments: [
        #"{}"#, #"{"apns":{}}"#, #"{"apns":{"token":"zz","topic":"a"}}"#, #"{"webPush":{"endpoint":"https://p"}}"#,
        #"{"webPush":{"endpoint":"https://p","keys":{"p256dh":"AAAA","auth":"AAAA"}}}"#,
        #"{"ntfy":{"topicURL":"https://ntfy.sh/a"}}"#, #"{"fcm":{"token":""}}"#, #"{"fcm":{"token":"a b"}}"#,
    ])
    func anInvalidRegistrationIsRefused(_ body: String) async throws {
        let answer = try await PushWorld().world.device("push/register", body)
        #expect(answer.status == 400 && answer.code == "BAD_REQUEST")
        #expect(answer.json.text("reason")?.isEmpty == false)
    }

    @Test func anAndroidAppsRegistrationIsStored() async throws {
        let push = try PushWorld()
        let answer = try await push.world.device("push/register", #"{"fcm":{"token":"dK3:APA91b_x-1"}}"#)
        #expect(answer.status == 200)
        #expect(try push.directory.pushDevices().map(\.target) == [.fcm(token: "dK3:APA91b_x-1")])
    }

    @Test func aRelayWithoutPushServicesRefusesRegistrations() async throws {
        let answer = try await SubscriptionWorld().device("push/register", PushWorld.apns)
        #expect(answer.status == 404)
        #expect(answer.json.text("reason")?.contains("sends no pushes") == true)
        #expect(try await PushWorld().world.device("push/keys", "", method: .get).status == 200)
        let nobody = try await PushWorld().world.device("push/register", as: nil, PushWorld.apns)
        #expect(nobody.status == 421)
    }
}

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
    let directory: any AccountDirectory
    let world: SubscriptionWorld

    init(directory: (any AccountDirectory)? = nil) throws {
        let directory = try directory ?? TestStore.current.makeHome().accounts()
        self.directory = directory
        let clock = clock
        world = try SubscriptionWorld(
            directory: directory,
            time: TimeSource(now: TimeSource.system.now, uptime: { clock.uptime }),
            push: PushDependencies(gateway: peer, register: directory, sleep: { try await clock.sleep($0) })
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
