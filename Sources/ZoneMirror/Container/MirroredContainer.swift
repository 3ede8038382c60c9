public import Foundation
public import GRDB
import Records
import SyncCore
import Synchronization
import ZoneKit

/// An application's stores, synced with the relay automatically.
///
///     let container = MirroredContainer(model: MirrorModel(Note.self), stores: [
///         StoreDescription(url: file, cloud: CloudOptions(containerIdentifier: "iCloud.com.example.notes"))
///     ])
///     try await container.loadStores()
///     try container.viewContext.insert(Note(title: "Buy milk"))
///     try container.viewContext.save()
///
/// All commits to the files are sent, whether a context, GRDB or plain SQL makes them; commits of others are imported.
public final class MirroredContainer: Sendable {
    struct Contents {
        var syncs: [StoreID: MirrorSync] = [:]
        var locks: [StoreID: StoreLock] = [:]
        var accounts: [StoreID: AccountFiles] = [:]
        var listener: UUID?
        var watch: Task<Void, Never>?
        /// Whether the stores were opened once.
        var isLoaded = false
        var isClosed = false
        var views: MirrorContext?
        var accountPolicy = AccountPolicy()
        /// The user whose files are being opened; empty for the files without a user.
        var switchingTo: String?
    }

    /// The entities.
    public let model: MirrorModel
    /// The stores to open, in order of preference for new objects.
    public let descriptions: [StoreDescription]

    package let conditions: MirrorConditions
    let stores: OpenStores
    let board = EventBoard()
    let state = Mutex(Contents())
    let switching = Turnstile()
    let loading = Turnstile()

    /// Creates a container; its stores are not open yet.
    ///
    /// - Parameters:
    ///   - model: The entities.
    ///   - stores: The stores to open.
    public convenience init(model: MirrorModel, stores: [StoreDescription]) {
        let world = stores.lazy.compactMap { try? $0.cloud?.container.session.connection().conditions }.first
        self.init(model: model, stores: stores, conditions: world.map { MirrorConditions($0) } ?? MirrorConditions())
    }

    /// Creates a container with a given clock and random source.
    package init(model: MirrorModel, stores: [StoreDescription], conditions: MirrorConditions) {
        self.model = model
        descriptions = stores
        self.conditions = conditions
        self.stores = OpenStores(model: model, stores: stores, conditions: conditions, board: board)
    }

    deinit {
        let (syncs, watch) = state.withLock { (Array($0.syncs.values), $0.watch) }
        watch?.cancel()
        if !syncs.isEmpty { conditions.time.start { for sync in syncs { await sync.stop() } } }
    }

    // MARK: Stores

    var syncs: [MirrorSync] {
        state.withLock { state in descriptions.compactMap { state.syncs[$0.id] } }
    }

    /// Returns the syncs after a replacement of files has ended, during which there are none.
    func settledSyncs() async -> [MirrorSync] {
        await switching.enter()
        defer { switching.leave() }
        return syncs
    }

    func sync(_ store: StoreID) -> MirrorSync? { state.withLock { $0.syncs[store] } }

    /// Stops the sync, and closes the files once they are no longer read.
    public func close() async {
        state.withLock { $0.isClosed = true }
        let syncs = await settledSyncs()
        let (listener, watch) = state.withLock { state in
            defer { (state.syncs, state.listener, state.watch) = ([:], nil, nil) }
            return (state.listener, state.watch)
        }
        watch?.cancel()
        for sync in syncs { await sync.stop() }
        if let listener { stores.stopListening(listener) }
        // Not closed immediately: closing a file during a read would crash.
        await stores.close()
        state.withLock { $0.locks = [:] }
        board.finish()
    }

    /// Closes the files as the end of the process would; for simulations in which nothing else of it runs.
    package func abandon() { stores.abandon() }

    // MARK: Contexts

    /// The context for the user interface, which merges incoming changes.
    @MainActor public var viewContext: MirrorContext {
        state.withLock { state in
            if let known = state.views { return known }
            let made = MirrorContext(stores, name: "view", policy: .mergeByPropertyObjectTrump, merges: true)
            state.views = made
            return made
        }
    }

    /// Creates a context for background work.
    ///
    /// - Parameter name: The context's name in the history.
    /// - Returns: A context that merges incoming changes only if told to.
    public func newBackgroundContext(named name: String? = nil) -> MirrorContext {
        MirrorContext(stores, name: name, policy: .error, merges: false)
    }

    /// Runs `work` with a context of its own, off the main actor.
    public func performBackgroundTask<Result: Sendable>(
        _ work: @escaping @Sendable (MirrorContext) async throws -> Result
    ) async throws -> Result {
        let context = newBackgroundContext()
        return try await Task { try await work(context) }.value
    }

    /// Returns a store's database for the application's own GRDB queries and writes.
    ///
    /// - Returns: `nil` if the store is not open.
    public func database(of store: StoreID) -> (any DatabaseWriter)? { stores.file(store)?.pool.pool }

    /// Returns the store of a file.
    public func store(at url: URL) -> StoreID { StoreID(url) }

    // MARK: Commits

    func committed(_ store: StoreID) {
        if let sync = sync(store) { conditions.time.start { await sync.outboxChanged() } }
    }

    /// The interval of checks for other processes' commits.
    private static let fileWatch: Duration = .seconds(1)

    func watchFiles() {
        // A simulation has no other processes, and a timer each second would only slow it down.
        guard conditions.isAutomatic, conditions.time.surroundings == nil else { return }
        let task: Task<Void, Never> = conditions.time.start { [weak self, time = conditions.time] in
            var seen: [StoreID: Int] = [:]
            while !Task.isCancelled {
                guard (try? await time.sleep(time.now() + Self.fileWatch)) != nil, let self else { return }
                await self.lookForOutsideCommits(&seen)
            }
        }
        state.withLock { $0.watch = task }
    }

    private func lookForOutsideCommits(_ seen: inout [StoreID: Int]) async {
        for file in stores.files {
            let version = try? await file.pool.writeWithoutTransaction {
                try Int.fetchOne($0, sql: "PRAGMA data_version")
            }
            guard let version else { continue }
            if let old = seen.updateValue(version, forKey: file.id), old != version {
                stores.committed(file.id, nil)
            }
        }
    }

    /// Checks now for commits of other processes and connections.
    public func noticeOutsideCommits() {
        for file in stores.files { stores.committed(file.id, nil) }
    }
}
