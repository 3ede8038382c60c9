import Foundation
import Records
package import RelayAPI
package import RelayCore
import RelaySystem
import SQLiteStore
import Synchronization

/// One run of a relay, from start to stop; this file alone says in what kind of store it keeps its data.
package struct RunningRelay: Sendable {
    private(set) var relay: Relay
    let worker: TestNoticeWorker
    package let hub: NoticeHub
    let process: SimulatedProcess
    var stores: any ServedStores { files }
    private let files: StoreFolder
    private let observer: (any RelayObserver)?
    private let nextRequest: @Sendable () -> UInt64
    private let pendingRequests = PendingRequests()
    private let authenticator: Authenticator
    private let time: TimeSource
    private let random: RandomSource
    private let admission: RelayAdmission
    private let directory: any AccountDirectory
    private let lostWrites = LostWriteFlag()

    init(
        _ options: TestRelay.Options,
        limits: TestRelay.Limits,
        folder: TestFolder,
        disk: RelayDisk?,
        clockError: ClockError,
        world: World
    ) throws {
        let place = options.storage == .temporaryFolder ? disk?.place() ?? (folder.url.path, .system) : nil
        let (path, calls) = (place?.folder, place?.calls ?? .system)
        let (random, process) = (world.random, SimulatedProcess("relay", on: world.executor))
        let (serialQueue, commits) = (
            SerialQueue(of: process, on: world.executor), SerialQueue(of: process, on: world.executor)
        )
        self.process = process
        time = world.clock.timeSource(off: clockError)
        let source = RandomSource { random.bytes($0) }
        self.random = source
        let lostWrites = lostWrites
        if let path {
            directory = try AccountStore(
                folder: path,
                time: time,
                random: source,
                cost: .test,
                disk: calls,
                onLostWrite: { lostWrites.note() }
            )
        } else {
            directory = try AccountStore(inMemory: (), time: time, random: source)
        }
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        if options.ignoresRateLimits {
            settings.requestRate = nil
            settings.publicRate = nil
            settings.failedCredentialRate = nil
        }
        let hub = NoticeHub(relayName: "test", noticeID: { source.hex(byteCount: 16) }, tasks: process)
        self.hub = hub
        let observer = world.observer
        self.observer = observer
        nextRequest = { world.nextRequest() }
        let watched = ObservedStore()
        // The bus does not retain the hub, which retains the stores through the relay.
        let notices = CommitNotices(hub.bus)
        files = StoreFolder(
            folder: path,
            draw: { random.number() },
            disk: calls,
            checkpointPages: options.checkpointPages,
            onCommit: { home, commit in
                if let store = watched.store { observer?.committed(commit, in: store) }
                notices.publish(commit, of: home)
            },
            onLostWrite: { lostWrites.note() },
            scheduler: { work in
                commits.run {
                    work()
                    if let store = watched.store { observer?.wrote(in: store) }
                }
            }
        )
        if let observer, let home = TestRelay.home {
            // The observer checks that the file contains what it did when the last run ended.
            let store = try files.sqliteStore(of: home)
            watched.hold(store)
            observer.opened(store)
        }
        authenticator = try Authenticator(directory: directory, settings: settings, time: time, random: source)
        relay = Relay(
            authenticator: authenticator,
            stores: files,
            hub: hub,
            limits: limits.all,
            time: time,
            random: source
        )
        admission = RelayAdmission(relay: relay, hub: hub, time: time)
        // From here on it notices sessions that end.
        admission.closeRevoked()
        worker = TestNoticeWorker(hub: hub, admission: admission, serialQueue: serialQueue, uptime: time.uptime)
        world.clock.whenMoved { [weak worker] in worker?.tick() }
    }

    /// Replaces the relay by one with other limits.
    mutating func apply(_ limits: TestRelay.Limits) {
        relay = Relay(
            authenticator: authenticator,
            stores: stores,
            hub: hub,
            limits: limits.all,
            time: time,
            random: random
        )
    }

    /// Responds to a request; `nil` if the relay is killed before.
    func answer(_ request: APIRequest) async -> APIResponse? {
        // Requests for files are also made by callers that block the stage until they have the response.
        guard request.path.hasPrefix("/database/") else { return await relay.respond(to: request) }
        let (relay, process, pendingRequests, observer, id) = (relay, process, pendingRequests, observer, nextRequest())
        return await withCheckedContinuation { waiter in
            guard let number = pendingRequests.begin(waiter) else { return }
            Task(executorPreference: process) {
                observer?.asked(request, number: id)
                let answer = await relay.respond(to: request)
                observer?.answered(request, number: id, answer)
                pendingRequests.end(number, answer)
            }
        }
    }

    /// Whether the disk has failed, so that the process should end and start again.
    var wantsRestart: Bool { lostWrites.isSet }

    /// Signs a user in as the sign-in page does, and returns the web auth token.
    func signIn(_ user: String, to container: String) throws -> String? {
        guard let container = ContainerID(container) else { return nil }
        try directory.ensureContainer(container)
        let started = try SignIn.start(
            for: try directory.devAccount(named: user).id,
            in: ContainerEnvironment(container, .development),
            kind: .kept,
            directory: directory,
            time: time,
            random: random
        )
        return started.webToken
    }

    /// Ends a user's sessions: their requests are refused from now on, and their sockets close.
    func endSignIns(of user: String) throws {
        try authenticator.endSessions(of: try directory.devAccount(named: user).id, in: nil)
        admission.closeRevoked()
    }

    /// Expires every change token issued so far.
    func renewEpochs() throws { try files.renewEpochs() }

    func stop() {
        worker.stop()
        files.close()
    }

    func kill() {
        process.end()
        files.abandon()
        pendingRequests.endAll()
    }
}

extension TestRelay {
    /// The relay's files, as a command that runs beside it opens them.
    package var files: any RelayHome { FolderHome(disk?.place().folder ?? folder.url.path) }
}

extension ScryptCost {
    /// Cheap: test passwords need no protection.
    fileprivate static let test = ScryptCost(rounds: 16, blockSize: 8, parallelism: 1)
}

/// Records whether the disk has lost a write.
private final class LostWriteFlag: Sendable {
    private let noted = Mutex(false)
    var isSet: Bool { noted.withLock { $0 } }
    func note() { noted.withLock { $0 = true } }
}

/// The store for an observer to inspect, once it is open.
private final class ObservedStore: Sendable {
    private let weakStore = Mutex<WeakStore>(WeakStore())

    private struct WeakStore: Sendable { weak var store: SQLiteStore? }

    var store: SQLiteStore? { weakStore.withLock { $0.store } }
    func hold(_ store: SQLiteStore) { weakStore.withLock { $0.store = store } }
}

/// The requests that wait for a response, so that none waits forever for a relay that was killed.
private final class PendingRequests: Sendable {
    private struct State {
        var waiting: [Int: CheckedContinuation<APIResponse?, Never>] = [:]
        var last = 0
        var isOver = false
    }

    private let state = Mutex(State())

    /// `nil` if the relay has been killed; the waiter is resumed with `nil` then.
    func begin(_ waiter: CheckedContinuation<APIResponse?, Never>) -> Int? {
        let number = state.withLock { state -> Int? in
            guard !state.isOver else { return nil }
            state.last += 1
            state.waiting[state.last] = waiter
            return state.last
        }
        if number == nil { waiter.resume(returning: nil) }
        return number
    }

    func end(_ number: Int, _ answer: APIResponse) {
        state.withLock { $0.waiting.removeValue(forKey: number) }?.resume(returning: answer)
    }

    func endAll() {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            state.isOver = true
            return state.waiting.sorted { $0.key < $1.key }.map(\.value)
        }
        waiting.forEach { $0.resume(returning: nil) }
    }
}
