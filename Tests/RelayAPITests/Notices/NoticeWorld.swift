import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Synchronization
import Wire

let store: ContainerEnvironment = {
    guard let container = ContainerID("iCloud.test") else { preconditionFailure("a good name") }
    return ContainerEnvironment(container, .development)
}()

/// Returns a notice of a database subscription, as the hub creates it.
func notice(_ zone: String, _ token: String, scope: DatabaseScope = .private) -> OutgoingNotice {
    OutgoingNotice(
        Notice(
            kind: .database,
            container: "iCloud.test",
            environment: .development,
            noticeID: "n",
            user: UserID("_u"),
            scope: scope,
            subscriptionID: "s",
            zone: ZoneID(zone, owner: UserID("_u")),
            syncToken: token
        )
    )
}

/// A lane that keeps its orders until the test runs them.
final class ManualNoticeWorker: NoticeWorker {
    private let held = Mutex<[NoticeOrder]>([])

    func post(_ order: NoticeOrder) { held.withLock { $0.append(order) } }

    var orderCount: Int { held.withLock { $0.count } }

    func take() -> [NoticeOrder] {
        held.withLock { held in
            defer { held = [] }
            return held
        }
    }
}

/// Admits every device; the web auth token is the user's name.
struct FakeAdmission: NoticeAdmission {
    var subscriptions = NoticeSubscriptions([.init(scope: .private, id: "all", kind: .database)])
    var news: [DatabaseScope: NoticeCatchUp.News] = [:]
    var session: Session.ID?
    /// Called where the store would be read, after the device joined and before its subscriptions are known.
    var meanwhile: @Sendable () -> Void = {}

    func allowsUpgrade(_ request: APIRequest, origin: String, then: @escaping @Sendable (Bool) -> Void) { then(true) }

    func admit(_ request: APIRequest, hello: NoticeHello) async throws(NoticeClose) -> AdmittedDevice {
        guard let token = hello.webAuthToken else { throw .notAuthenticated }
        return AdmittedDevice(
            address: NoticeAddress(store: store, user: UserID(token)),
            deviceID: hello.deviceID,
            credential: session.map { .session($0, apiTokenHash: []) }
        )
    }

    func catchUp(_ device: AdmittedDevice, since: [DatabaseScope: String]) throws(NoticeClose) -> NoticeCatchUp {
        meanwhile()
        return NoticeCatchUp(subscriptions: subscriptions, news: news)
    }

    func renewToken(of device: AdmittedDevice, then: @escaping @Sendable (RenewedToken?) -> Void) { then(nil) }
}

/// A device on a lane of the test; records the frames it receives.
final class TestDevice: NoticeTransport {
    private(set) var frames: [ServerFrame] = []
    private(set) var sent: [NoticeFrame] = []
    private(set) var closed: NoticeClose?
    private var connection: NoticeConnection?

    func send(_ frame: NoticeFrame) {
        sent.append(frame)
        if let read = try? ServerFrame(decoding: frame.text) { frames.append(read) }
    }

    func sendPing() {}
    func sendPong(_ payload: [UInt8]) {}

    func close(_ reason: NoticeClose) {
        closed = reason
        connection?.closed()
    }

    var notices: [Notice] {
        frames.compactMap { if case .notice(let notice) = $0 { notice } else { nil } }
    }

    var zones: [String] { notices.map { $0.zone?.zoneName ?? "*" } }

    func forget() {
        frames = []
        sent = []
    }

    func disconnect() { connection?.closed() }

    func becomeWritable(_ isWritable: Bool) { connection?.handle(.writabilityChanged(isWritable)) }

    func connect(
        _ user: String,
        _ device: String,
        to world: NoticeWorld,
        worker: Int = 0,
        admission: FakeAdmission = FakeAdmission()
    ) async {
        await connect(
            ClientFrame.hello(NoticeHello(deviceID: device, webAuthToken: user)),
            path: "/push/1/iCloud.test/development",
            hub: world.hub,
            worker: world.numbers[worker],
            registry: world.registries[worker],
            admission: admission
        )
    }

    func connect(
        _ hello: ClientFrame,
        path: String,
        hub: NoticeHub,
        worker: Int,
        registry: NoticeConnectionRegistry,
        admission: any NoticeAdmission
    ) async {
        let connection = NoticeConnection(
            request: APIRequest(method: .get, path: path),
            hub: hub,
            worker: worker,
            registry: registry,
            admission: admission,
            uptime: { .zero },
            transport: self
        )
        self.connection = connection
        connection.handle(.received(text: hello.encoded))
        await connection.admit()
    }
}

/// A hub with lanes whose orders the test runs.
final class NoticeWorld {
    let hub: NoticeHub
    let workers: [ManualNoticeWorker]
    let registries: [NoticeConnectionRegistry]
    let numbers: [Int]

    init(workers count: Int = 2, limits: NoticeLimits = NoticeLimits()) {
        let hub = NoticeHub(limits: limits, relayName: "test", noticeID: { "n" })
        let workers = (0..<count).map { _ in ManualNoticeWorker() }
        self.hub = hub
        self.workers = workers
        registries = workers.map { _ in NoticeConnectionRegistry() }
        numbers = workers.map { hub.add($0) }
    }

    func carryOut() {
        for (worker, registry) in zip(workers, registries) {
            for order in worker.take() { registry.perform(order) }
        }
    }

    func change(_ zone: String, of user: String, by device: String? = nil, token: String = "t") -> ZoneChange {
        ZoneChange(store: store, zone: ZoneID(zone, owner: UserID(user)), syncToken: token, deviceID: device)
    }

    func publish(_ changes: ZoneChange...) {
        hub.publish(changes)
        carryOut()
    }
}
