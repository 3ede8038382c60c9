import Foundation
import Records
package import RelayAPI
package import RelayCore
import RelaySystem
import SQLiteStore
import Synchronization

#if TestStores
    import StoreTesting
#endif

/// One run of a relay, from start to stop; this file alone says in what kind of store it keeps its data.
package struct RunningRelay: Sendable {
    private(set) var relay: Relay
    let worker: TestNoticeWorker
    package let hub: NoticeHub
    let process: SimulatedProcess
    var stores: any ServedStores { data.stores }
    private let data: OpenedData
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
        let (random, process) = (world.random, SimulatedProcess("relay", on: world.executor))
        let (serialQueue, commits) = (
            SerialQueue(of: process, on: world.executor), SerialQueue(of: process, on: world.executor)
        )
        self.process = process
        time = world.clock.timeSource(off: clockError)
        let source = RandomSource { random.bytes($0) }
        self.random = source
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
        // The bus does not retain the hub, which retains the stores through the relay.
        let notices = CommitNotices(hub.bus)
        let opening = DataOpening(
            lasts: options.storage == .temporaryFolder,
            folder: folder,
            disk: disk,
            checkpointPages: options.checkpointPages,
            time: time,
            random: source,
            draw: { random.number() },
            observer: observer,
            committed: { notices.publish($1, of: $0) },
            lostWrite: { [lostWrites] in lostWrites.note() },
            schedule: { commits.run($0) }
        )
        data = try opening.open()
        directory = data.directory
        authenticator = try Authenticator(directory: directory, settings: settings, time: time, random: source)
        relay = Relay(
            authenticator: authenticator,
            stores: data.stores,
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
    func renewEpochs() throws { try data.renewEpochs() }

    func stop() {
        worker.stop()
        stores.close(patience: .seconds(1))
    }

    func kill() {
        process.end()
        data.abandon()
        pendingRequests.endAll()
    }
}

extension TestRelay {
    /// The relay's files, as a command that runs beside it opens them.
    package var files: any RelayHome {
        #if TestStores
            if let home = folder.latestHome { return home }
        #endif
        return FolderHome(disk?.place().folder ?? folder.url.path)
    }
}

/// What a run has opened of the relay's data.
private struct OpenedData: Sendable {
    var directory: any AccountDirectory
    var stores: any ServedStores
    var renewEpochs: @Sendable () throws -> Void
    /// Closes the stores as a crash would.
    var abandon: @Sendable () -> Void
}

/// How a run opens the relay's data: in files or in memory, or in the store that `ZONECAST_TEST_STORE` names.
private struct DataOpening {
    /// Whether the next run finds the data.
    let lasts: Bool
    let folder: TestFolder
    let disk: RelayDisk?
    let checkpointPages: Int
    let time: TimeSource
    let random: RandomSource
    let draw: @Sendable () -> UInt64
    let observer: (any RelayObserver)?
    let committed: @Sendable (ContainerEnvironment, Commit) -> Void
    let lostWrite: @Sendable () -> Void
    let schedule: @Sendable (@escaping @Sendable () -> Void) -> Void

    func open() throws -> OpenedData {
        #if TestStores
            // Simulated disks and observers need files.
            if TestStore.current != .sqlite, disk == nil, observer == nil { return try openOtherStore() }
        #endif
        return try openFiles()
    }

    #if TestStores
        private func openOtherStore() throws -> OpenedData {
            let home = folder.home(lasting: lasts)
            let stores = home.stores(TestStoreOptions(draw: draw, committed: committed, scheduler: schedule))
            return OpenedData(
                directory: try home.accounts(time: time, random: random, onLostWrite: nil),
                stores: stores,
                renewEpochs: { try home.renewEpochs(of: stores) },
                abandon: { home.abandon(stores) }
            )
        }
    #endif

    private func openFiles() throws -> OpenedData {
        let place = lasts ? disk?.place() ?? (folder.url.path, .system) : nil
        let calls = place?.calls ?? .system
        let watched = ObservedStore()
        let directory =
            if let place {
                try AccountStore(
                    folder: place.folder,
                    time: time,
                    random: random,
                    cost: .test,
                    disk: calls,
                    onLostWrite: lostWrite
                )
            } else {
                try AccountStore(inMemory: (), time: time, random: random)
            }
        let files = StoreFolder(
            folder: place?.folder,
            draw: draw,
            disk: calls,
            checkpointPages: checkpointPages,
            onCommit: { [observer, committed] home, commit in
                if let store = watched.store { observer?.committed(commit, in: store) }
                committed(home, commit)
            },
            onLostWrite: lostWrite,
            scheduler: { [observer, schedule] work in
                schedule {
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
        return OpenedData(
            directory: directory,
            stores: files,
            renewEpochs: { try files.renewEpochs() },
            abandon: { files.abandon() }
        )
    }
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
