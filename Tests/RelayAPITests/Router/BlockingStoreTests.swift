import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import Testing
import Wire

/// A store whose reads may block: no request reads on the thread that it arrived on.
@Suite struct BlockingStoreTests {
    @Test(arguments: [
        ("public/records/query", #"{"query":{"recordType":"Note"}}"#),
        ("private/records/lookup", #"{"records":[{"recordName":"a"}]}"#), ("private/zones/list", "{}"),
        ("private/zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Z"}}}]}"#),
        (
            "private/records/modify",
            #"{"operations":[{"operationType":"forceUpdate","record":{"recordName":"a","recordType":"Note","fields":{}}}]}"#
        ),
    ])
    func requestsRunOnTheStoresExecutor(_ operation: String, _ body: String) async throws {
        let world = try RelayWorld()
        #expect(try await world.modify(in: "public", zone: "_defaultZone", [.create("a")]).status == 200)
        let catalog = BlockingCatalog(world.stores)
        let relay = Relay(
            authenticator: world.relay.authenticator,
            stores: catalog,
            time: .system,
            random: .system
        )
        let caller = OneThread("caller")
        for _ in 0..<2 {
            let request = APIRequest(
                method: .post,
                path: "/database/1/\(world.container)/development/\(operation)",
                query: "ckAPIToken=x&ckWebAuthToken=dev-alice",
                body: Array(body.utf8)
            )
            let (response, isOnCaller) = await withCheckedContinuation { continuation in
                caller.run {
                    relay.respond(to: request, on: caller) { response in
                        continuation.resume(returning: (response, caller.isCurrent))
                    }
                }
            }
            #expect(response.status == .ok, "\(String(decoding: response.body, as: UTF8.self))")
            #expect(isOnCaller)
        }
        #expect(catalog.reads.withLock { $0 } > 0)
        #expect(catalog.strays.withLock { $0 } == 0)
    }

    @Test(arguments: [
        ("/database/1/iCloud.test/development/private/zones/list", "{}"),
        ("/database/1/iCloud.test/development/public/records/query", #"{"query":{"recordType":"Note"}}"#),
        ("/share/iCloud.test/development/0123456789abcdef", ""),
    ])
    func theThreadOfARequestIsFreeWhileAReadBlocks(_ path: String, _ body: String) async throws {
        let world = try RelayWorld()
        #expect(try await world.modify(in: "public", zone: "_defaultZone", [.create("a")]).status == 200)
        let catalog = BlockingCatalog(world.stores)
        let relay = Relay(
            authenticator: world.relay.authenticator,
            stores: catalog,
            time: .system,
            random: .system
        )
        let gate = DispatchSemaphore(value: 0)
        catalog.gate.withLock { $0 = gate }
        let caller = OneThread("caller")
        let request = APIRequest(
            method: body.isEmpty ? .get : .post,
            path: path.replacing("iCloud.test", with: "\(world.container)"),
            query: "ckAPIToken=x&ckWebAuthToken=dev-alice",
            body: Array(body.utf8)
        )
        await withCheckedContinuation { answered in
            caller.run {
                relay.respond(to: request, on: caller) { _ in answered.resume() }
                // Runs on the caller's thread after `respond` has returned: the read still waits for it.
                caller.runLater {
                    catalog.gate.withLock { $0 = nil }
                    for _ in 0..<100 { gate.signal() }
                }
            }
        }
        #expect(catalog.reads.withLock { $0 } > 0)
        #expect(catalog.strays.withLock { $0 } == 0)
    }

    @Test func aNoticeSocketReadsOnTheStoresExecutor() async throws {
        let world = try RelayWorld()
        let catalog = BlockingCatalog(world.stores)
        let hub = NoticeHub(relayName: "test", noticeID: { "n" })
        let relay = Relay(
            authenticator: world.relay.authenticator,
            stores: catalog,
            hub: hub,
            time: .system,
            random: .system
        )
        let admission = RelayAdmission(relay: relay, hub: hub, time: .system)
        let hello = NoticeHello(deviceID: "d", apiToken: "x", webAuthToken: "dev-alice")
        let request = APIRequest(method: .get, path: "/device/1/\(world.container)/development/notices")
        #expect(try admission.admitAtOnce(request, hello: hello) == nil)
        let device = try await admission.admit(request, hello: hello)
        _ = try await admission.catchUpWaiting(device, since: [:])
        #expect(catalog.reads.withLock { $0 } > 0)
        #expect(catalog.strays.withLock { $0 } == 0)
    }
}

/// An event loop makes no call of a directory or a store whose reads may block.
@Suite(.timeLimit(.minutes(15))) struct BlockingDirectoryTests {
    private let signIns: SignInWorld
    private let watch = LoopWatch()
    private let catalog: BlockingCatalog
    private let hub: NoticeHub
    private let relay: Relay
    private let admission: RelayAdmission
    private let sweep: NoticeSweep

    init() throws {
        signIns = try SignInWorld()
        catalog = BlockingCatalog(TestStore.current.makeHome().stores(), watch: watch)
        // A bus between nodes, whose sweep reads too.
        let bus = NodeNoticeBus(node: NodeID("a"), run: 1, channel: NoChannel())
        hub = NoticeHub(relayName: "test", bus: bus, noticeID: { "n" })
        sweep = NoticeSweep(bus: bus, hub: hub, stores: catalog)
        let authenticator = try Authenticator(
            directory: WatchedDirectory(base: signIns.store, watch: watch),
            settings: signIns.settings,
            time: signIns.clock.source,
            random: .system
        )
        relay = Relay(
            authenticator: authenticator,
            stores: catalog,
            hub: hub,
            time: signIns.clock.source,
            random: .system
        )
        admission = RelayAdmission(relay: relay, hub: hub, time: signIns.clock.source)
    }

    private struct NoChannel: NoticeChannel {
        func send(_ envelope: NoticeEnvelope) {}
    }

    private var path: String { "/push/1/\(signIns.home.container)/development" }

    @Test(arguments: [("https://app.example", true), ("https://evil.example", false)])
    func theOriginOfASocketIsJudgedElsewhere(_ origin: String, _ expected: Bool) async throws {
        let request = APIRequest(method: .get, path: path, headers: [.origin: origin])
        let (admission, watch, thread) = (admission, watch, catalog.thread)
        let (isAllowed, isOnStores) = await withCheckedContinuation { continuation in
            watch.loop.run {
                admission.allowsUpgrade(request, origin: origin) {
                    continuation.resume(returning: ($0, thread.isCurrent))
                }
            }
        }
        #expect(isAllowed == expected && isOnStores)
        #expect(watch.calls > 0)
        #expect(watch.strays == [])
    }

    /// From the hello to the renewal of the token, shortly before it expires.
    @Test func aSocketIsAdmittedAndRenewedElsewhere() async throws {
        let token = try signIns.signIn().webToken
        let hello = NoticeHello(deviceID: "d", apiToken: signIns.apiToken, webAuthToken: token)
        let socket = LoopSocket(on: watch.loop, hub)
        socket.open(APIRequest(method: .get, path: path), hello, admission, uptime: signIns.clock.source.uptime)
        guard case .ready = await socket.nextFrame() else {
            Issue.record("no ready")
            return
        }
        let admitting = watch.calls
        #expect(admitting > 0)
        signIns.clock.advance(.seconds(1_795))
        socket.tick()
        guard case .renewed(let renewed) = await socket.nextFrame() else {
            Issue.record("not renewed")
            return
        }
        #expect(renewed != token && !renewed.isEmpty)
        #expect(watch.calls > admitting)
        #expect(watch.strays == [])
    }

    /// The answer names the participants, whom the directory knows.
    @Test func aSharesAnswerIsMadeElsewhere() async throws {
        let (token, _) = try signIns.signIn()
        let bob = try signIns.store.addAccount(email: "bob@example.org", password: "correct horse")
        let guest = try signIns.signIn(bob)
        let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        #expect(await respond(to: "private/zones/modify", zone, token).status == .ok)
        let share = ShareWorld.share(with: [ShareWorld.participant("bob@example.org")])
        let save = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(share)]}"#
        let saved = await respond(to: "private/records/modify", save, token)
        let record = try #require(try JSONDocument(parsing: saved.body).root.required("records").elements().first)
        let link = try #require(record.text("shortGUID"))
        let links = #"{"shortGUIDs":[{"value":"\#(link)"}]}"#
        let accepted = await respond(to: "public/records/accept", links, guest.webToken)
        let result = try JSONDocument(parsing: accepted.body).root.required("results").elements().first
        #expect(result?.text("participantStatus") == "ACCEPTED")
        #expect(watch.calls > 0)
        #expect(watch.strays == [])
    }

    private func respond(to operation: String, _ body: String, _ token: String) async -> APIResponse {
        let request = signIns.post(operation, body, webToken: token)
        let (relay, loop) = (relay, watch.loop)
        return await withCheckedContinuation { continuation in
            loop.run { relay.respond(to: request, on: loop) { continuation.resume(returning: $0) } }
        }
    }

    @Test func anUploadBeginsElsewhere() async throws {
        let (token, _) = try signIns.signIn()
        let type = #"{"tokens":[{"recordType":"Photo","fieldName":"file","recordName":"p"}]}"#
        let answer = await relay.respond(to: signIns.post("private/assets/upload", type, webToken: token))
        let items = try JSONDocument(parsing: answer.body).root.required("tokens").elements()
        let url = try #require(items.first?.text("url"))
        let request = APIRequest(method: .post, path: try #require(URLComponents(string: url)).path)
        let before = watch.calls
        let (relay, watch) = (relay, watch)
        let response = await withCheckedContinuation { continuation in
            watch.loop.run {
                var request = request
                request.intake = relay.intake(for: request)
                _ = request.intake?.take([1, 2, 3]) {}
                relay.respond(to: request, on: watch.loop) { continuation.resume(returning: $0) }
            }
        }
        #expect(response.status == .ok, "\(String(decoding: response.body, as: UTF8.self))")
        #expect(watch.calls > before)
        #expect(watch.strays == [])
    }
}

/// A notice connection on an event loop of the test.
// Unchecked because of the connection and the registry, which only the loop uses.
private final class LoopSocket: NoticeTransport, NoticeWorker, @unchecked Sendable {
    private let loop: OneThread
    private let hub: NoticeHub
    private let registry = NoticeConnectionRegistry()
    private let frames = AsyncStream<ServerFrame>.makeStream()
    private var connection: NoticeConnection?

    init(on loop: OneThread, _ hub: NoticeHub) {
        self.loop = loop
        self.hub = hub
    }

    func open(
        _ request: APIRequest,
        _ hello: NoticeHello,
        _ admission: any NoticeAdmission,
        uptime: @escaping @Sendable () -> Duration
    ) {
        let worker = hub.add(self)
        loop.run { [self] in
            let connection = NoticeConnection(
                request: request,
                hub: hub,
                worker: worker,
                registry: registry,
                admission: admission,
                uptime: uptime,
                transport: self,
                startAdmission: { [self] _ in
                    Task(executorPreference: loop) { await self.connection?.admit() }
                }
            )
            self.connection = connection
            connection.handle(.received(text: ClientFrame.hello(hello).encoded))
        }
    }

    func tick() { loop.run { [self] in connection?.tick() } }

    func nextFrame() async -> ServerFrame? {
        var iterator = frames.stream.makeAsyncIterator()
        return await iterator.next()
    }

    func post(_ order: NoticeOrder) { loop.runLater { [self] in registry.perform(order) } }

    func send(_ frame: NoticeFrame) {
        if let read = try? ServerFrame(decoding: frame.text) { frames.continuation.yield(read) }
    }

    func sendPing() {}
    func sendPong(_ payload: [UInt8]) {}
    func close(_ reason: NoticeClose) { frames.continuation.finish() }
}

/// Counts the calls of a directory and of stores, and notes those of an event loop.
private final class LoopWatch: Sendable {
    let loop = OneThread("loop")
    private let noted = Mutex((calls: 0, strays: [String]()))

    var calls: Int { noted.withLock { $0.calls } }
    var strays: [String] { noted.withLock { $0.strays } }

    func note(_ call: String) {
        let isStray = loop.isCurrent
        noted.withLock { noted in
            noted.calls += 1
            if isStray { noted.strays.append(call) }
        }
    }
}

/// A directory that reports each call.
private struct WatchedDirectory: Directory {
    private let base: any Directory
    private let watch: LoopWatch

    init(base: any Directory, watch: LoopWatch) {
        self.base = base
        self.watch = watch
    }

    private func noted(_ call: String = #function) -> any Directory {
        watch.note(call)
        return base
    }

    func generation() throws(DirectoryError) -> UInt64 { try noted().generation() }
    func onRevocation(_ body: @escaping @Sendable (UInt64) -> Void) { noted().onRevocation(body) }
    func relayKey() throws(DirectoryError) -> [UInt8] { try noted().relayKey() }
    func hasContainer(_ container: ContainerID) throws(DirectoryError) -> Bool { try noted().hasContainer(container) }
    func title(of container: ContainerID) throws(DirectoryError) -> String? { try noted().title(of: container) }
    func ensureContainer(_ container: ContainerID) throws(DirectoryError) { try noted().ensureContainer(container) }
    func apiToken(hash: [UInt8]) throws(DirectoryError) -> APIToken? { try noted().apiToken(hash: hash) }
    func apiToken(id: String) throws(DirectoryError) -> APIToken? { try noted().apiToken(id: id) }
    func apiTokens() throws(DirectoryError) -> [APIToken] { try noted().apiTokens() }
    func session(_ id: Session.ID) throws(DirectoryError) -> Session? { try noted().session(id) }
    func serverKey(_ id: String) throws(DirectoryError) -> ServerKey? { try noted().serverKey(id) }
    func account(_ id: Account.ID) throws(DirectoryError) -> Account? { try noted().account(id) }
    func account(email: String) throws(DirectoryError) -> Account? { try noted().account(email: email) }
    func devAccount(named name: String) throws(DirectoryError) -> Account { try noted().devAccount(named: name) }
    func account(email: String, password: String) throws(DirectoryError) -> Account? {
        try noted().account(email: email, password: password)
    }
    func passwordFingerprint(of account: Account.ID) throws(DirectoryError) -> [UInt8] {
        try noted().passwordFingerprint(of: account)
    }
    func user(of account: Account.ID, in home: ContainerEnvironment) throws(DirectoryError) -> UserID {
        try noted().user(of: account, in: home)
    }
    func accounts(of users: [UserID], in home: ContainerEnvironment) throws(DirectoryError) -> [UserID: Account] {
        try noted().accounts(of: users, in: home)
    }
    func profile(of user: UserID, in home: ContainerEnvironment) throws(DirectoryError) -> UserProfile? {
        try noted().profile(of: user, in: home)
    }
    func profiles(
        matching lookups: [UserLookup],
        in home: ContainerEnvironment,
        includesDev: Bool
    ) throws(DirectoryError) -> [UserLookup: UserProfile] {
        try noted().profiles(matching: lookups, in: home, includesDev: includesDev)
    }
    func setDiscoverable(_ isDiscoverable: Bool, user: UserID, in home: ContainerEnvironment) throws(DirectoryError) {
        try noted().setDiscoverable(isDiscoverable, user: user, in: home)
    }
    func profiles(
        of account: Account.ID
    ) throws(DirectoryError) -> [(home: ContainerEnvironment, profile: UserProfile)] {
        try noted().profiles(of: account)
    }
    func setName(_ name: PersonName, of account: Account.ID) throws(DirectoryError) {
        try noted().setName(name, of: account)
    }
    func setPassword(_ password: String, of account: Account.ID) throws(DirectoryError) {
        try noted().setPassword(password, of: account)
    }
    func account(for person: ExternalIdentity) throws(DirectoryError) -> Account { try noted().account(for: person) }
    func issuers(of container: ContainerID) throws(DirectoryError) -> [TokenIssuer] {
        try noted().issuers(of: container)
    }
    func issuer(named name: String, of container: ContainerID) throws(DirectoryError) -> TrustedIssuer? {
        try noted().issuer(named: name, of: container)
    }
    func sessions(of account: Account.ID) throws(DirectoryError) -> [Session] { try noted().sessions(of: account) }
    func noteUse(of sessions: [Session.ID], at now: Timestamp) throws(DirectoryError) {
        try noted().noteUse(of: sessions, at: now)
    }
    func removeSessions(_ kind: Session.Kind, unusedFor age: Duration, at now: Timestamp) throws(DirectoryError) {
        try noted().removeSessions(kind, unusedFor: age, at: now)
    }
    func revokeSessions(of account: Account.ID, in home: ContainerEnvironment?) throws(DirectoryError) {
        try noted().revokeSessions(of: account, in: home)
    }
    func addSession(_ session: Session) throws(DirectoryError) { try noted().addSession(session) }
    func revokeSession(_ id: Session.ID) throws(DirectoryError) { try noted().revokeSession(id) }
}

/// An executor with a queue of its own.
private final class OneThread: ResponseExecutor, TaskExecutor {
    private let queue: DispatchQueue
    /// The thread that runs a job.
    private let thread = Mutex<pthread_t?>(nil)

    init(_ name: String) { queue = DispatchQueue(label: name) }

    var tasks: (any TaskExecutor)? { self }
    var isCurrent: Bool { thread.withLock { $0 == pthread_self() } }

    func run(_ job: @escaping @Sendable () -> Void) { if isCurrent { job() } else { start(job) } }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        start { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    /// Runs the job after those that wait.
    func runLater(_ job: @escaping @Sendable () -> Void) { start(job) }

    private func start(_ job: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            thread.withLock { $0 = pthread_self() }
            job()
            thread.withLock { $0 = nil }
        }
    }
}

/// Stores that say that their reads may block, and count the reads on other threads than their executor's.
private final class BlockingCatalog: StoreCatalog {
    let reads = Mutex(0)
    let strays = Mutex(0)
    let thread = OneThread("store")
    /// What each read waits for.
    let gate = Mutex<DispatchSemaphore?>(nil)
    /// Notes the calls of an event loop.
    let watch: LoopWatch?
    var executor: (any TaskExecutor)? { thread }
    private let stores: any ServedStores

    init(_ stores: any ServedStores, watch: LoopWatch? = nil) {
        self.stores = stores
        self.watch = watch
    }

    func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
        watch?.note("store")
        // Opening a store reads it.
        if !thread.isCurrent { strays.withLock { $0 += 1 } }
        return BlockingStore(store: try stores.store(of: home), catalog: self)
    }

    func isThere(_ home: ContainerEnvironment) -> Bool { stores.isThere(home) }

    func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore {
        watch?.note("assets")
        return try stores.assets(of: home)
    }
}

private struct BlockingStore: Store {
    let store: any Store
    let catalog: BlockingCatalog

    var currentSchema: Schema { store.currentSchema }

    func epochs(of owner: UserID) throws(RelayError) -> Epochs { try store.epochs(of: owner) }

    private func count() {
        catalog.watch?.note("read")
        catalog.reads.withLock { $0 += 1 }
        if !catalog.thread.isCurrent { catalog.strays.withLock { $0 += 1 } }
        // In vain if the caller's thread runs this.
        _ = catalog.gate.withLock { $0 }?.wait(timeout: .now() + 5)
    }

    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
        count()
        return try store.read(body)
    }

    func query<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) async throws(RelayError) -> Result {
        count()
        return try await store.query(body)
    }

    func write(_ write: any StoreWrite) { store.write(write) }
}
