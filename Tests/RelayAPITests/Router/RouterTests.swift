import Dispatch
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import Synchronization
import Testing
import Wire

/// The table of endpoints.
@Suite struct RouterTests {
    private static let home = "/database/1/iCloud.a/development"

    private let router: Router

    init() throws { router = try RelayWorld().relay.router }

    @Test(arguments: [
        ("\(Self.home)/private/records/modify", "records/modify"), ("/pre/fix\(Self.home)/public/limits", "limits"),
        ("/console\(Self.home)/public/records/query", "records/query"), ("\(Self.home)/tokens/create", "tokens/create"),
        ("\(Self.home)/subscriptions/list", "subscriptions/list"), ("/signin", "signin"), ("/pre/account", "account"),
        ("/device/1/iCloud.a/development/push/register", "push/register"), ("/signin/style.css", "signin/style.css"),
        ("/device/1/iCloud.a/development/webcourier", "webcourier"), ("/pre/share/iCloud.a/development/abc", "share"),
        ("/pre/asset/1/upload/abc", "asset/upload"), ("/asset/1/download/abc/def", "asset/download"),
        ("/openapi.json", "openapi.json"), ("*", "*"),
    ])
    func aPathHasOneEndpoint(_ path: String, _ name: String) throws {
        #expect(try router.match(path, .post).entry.name == name)
    }

    @Test(arguments: [
        "/", "/signin/", "/x", "\(Self.home)/private/records/none", "\(Self.home)/records/modify",
        "/device/1/iCloud.a/development/records/modify", "\(Self.home)/private/signin",
        "\(Self.home)/private/openapi.json", "\(Self.home)/webcourier", "/device/1/iCloud.a/development/signin",
        "/database/1/iCloud.a/staging/private/limits", "/share/iCloud.a/development", "/asset/1/upload",
    ])
    func nothingIsAtOtherPaths(_ path: String) {
        #expect(throws: RelayError.self) { try router.match(path, .get) }
    }

    @Test func variableSegmentsArePassedOn() throws {
        #expect(
            try router.match("/a/share/iCloud.a/production/xyz", .get).parameters == ["iCloud.a", "production", "xyz"]
        )
        #expect(try router.match("/asset/1/download/abc/def", .get).parameters == ["abc/def"])
    }

    @Test func aMoreExactPatternComesFirst() throws {
        let router = Router([])
        router.add(
            ["a/**", "a/{}", "a/b/**", "a/b", "a"].map { path in .page(path, .ending(path), [.get]) { _, _ in nil } }
        )
        for (path, pattern) in [
            ("/a", "a"), ("/a/b", "a/b"), ("/a/c", "a/{}"), ("/a/b/c", "a/b/**"), ("/a/c/d", "a/**"), ("/a/", "a/{}"),
        ] {
            #expect(try router.match(path, .get).entry.name == pattern)
        }
    }

    @Test("the methods of one path may have different functions")
    func methodsAreDispatched() async throws {
        let relay = try RelayWorld().relay
        relay.router.add(
            [[HTTPRequest.Method].reading, [.post]].map { methods in
                .page("x", .ending("x"), methods) { request, _ in
                    APIResponse(status: .ok, body: Array("\(methods.count)".utf8))
                }
            }
        )
        func ask(_ method: HTTPRequest.Method, origin: String? = nil) async -> APIResponse {
            var request = APIRequest(method: method, path: "/x")
            request.headers[.origin] = origin
            return await relay.respond(to: request)
        }
        #expect(await ask(.head).body == Array("2".utf8))
        #expect(await ask(.post).body == Array("1".utf8))
        let refused = await ask(.delete)
        #expect(refused.status == .methodNotAllowed && refused.headers[.allow] == "GET, HEAD, POST, OPTIONS")
        let options = await ask(.options)
        #expect(options.status == .noContent && options.headers[.allow] == "GET, HEAD, POST, OPTIONS")
        #expect(await ask(.options, origin: "https://other.example").status == .forbidden)
    }

    /// Two relays with the same head in turn, which caches what a router has found.
    @Test func aHeadIsLookedUpAgainByAnotherRelay() async throws {
        let relays = [try RelayWorld().relay, try RelayWorld().relay]
        for (number, relay) in relays.enumerated() {
            relay.router.add([
                .page("x", .ending("x"), [.get]) { _, _ in APIResponse(status: .ok, body: [UInt8(number)]) }
            ])
        }
        let request = APIRequest(method: .get, path: "/x")
        for number in [0, 1, 1, 0] { #expect(await relays[number].respond(to: request).body == [UInt8(number)]) }
    }
}

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
    var executor: (any TaskExecutor)? { thread }
    private let stores: any ServedStores

    init(_ stores: any ServedStores) { self.stores = stores }

    func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
        // Opening a store reads it.
        if !thread.isCurrent { strays.withLock { $0 += 1 } }
        return BlockingStore(store: try stores.store(of: home), catalog: self)
    }

    func isThere(_ home: ContainerEnvironment) -> Bool { stores.isThere(home) }

    func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore { try stores.assets(of: home) }
}

private struct BlockingStore: Store {
    let store: any Store
    let catalog: BlockingCatalog

    var currentSchema: Schema { store.currentSchema }

    func epochs(of owner: UserID) -> Epochs { store.epochs(of: owner) }

    private func count() {
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
