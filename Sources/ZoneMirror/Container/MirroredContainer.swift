public import Foundation
public import GRDB
import Records
import SyncCore
import Synchronization
import ZoneKit

/// An application's stores, kept in step with the relay by themselves.
///
///     let container = MirroredContainer(model: MirrorModel(Note.self), stores: [
///         StoreDescription(url: file, cloud: CloudOptions(containerIdentifier: "iCloud.com.example.notes"))
///     ])
///     try await container.loadStores()
///     try container.viewContext.insert(Note(title: "Buy milk"))
///     try container.viewContext.save()
///
/// Whatever is committed to the files, by a context, by GRDB or by plain SQL, is sent; what others commit arrives.
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

    /// A container whose stores are not open yet.
    ///
    /// - Parameters:
    ///   - model: The entities.
    ///   - stores: The stores to open.
    public convenience init(model: MirrorModel, stores: [StoreDescription]) {
        let world = stores.lazy.compactMap { try? $0.cloud?.container.session.connection().conditions }.first
        self.init(model: model, stores: stores, conditions: world.map { MirrorConditions($0) } ?? MirrorConditions())
    }

    /// A container with its time and chance from outside.
    package init(model: MirrorModel, stores: [StoreDescription], conditions: MirrorConditions) {
        self.model = model
        descriptions = stores
        self.conditions = conditions
        self.stores = OpenStores(model: model, conditions: conditions, board: board)
    }

    deinit {
        let (syncs, watch) = state.withLock { (Array($0.syncs.values), $0.watch) }
        watch?.cancel()
        if !syncs.isEmpty { conditions.time.start { for sync in syncs { await sync.stop() } } }
    }

    // MARK: Opening

    /// Opens all stores, and begins to keep the mirrored ones in step.
    ///
    /// Needs no network: what was here is readable at once.
    ///
    /// - Throws: `modelIncompatible` with every violation, `storeAlreadyLoaded`, `storeSyncedElsewhere`,
    ///   `sharedStoreNeedsPrivateStore`, `databaseAlreadyMirrored`, and what SQLite throws.
    public func loadStores() async throws(MirrorError) {
        try checkDescriptions()
        // Who was here last and has signed out since, while this was not running.
        var gone: String?
        for description in descriptions { try open(description, for: nil, &gone) }
        let listener = stores.listen(to: nil) { [weak self] store in self?.committed(store) }
        state.withLock { state in
            state.listener = listener
            state.isLoaded = true
        }
        if let gone { await settleSignOut(of: gone, isOpen: false) }
        for sync in syncs { await sync.start() }
        watchFiles()
    }

    private func checkDescriptions() throws(MirrorError) {
        let violations = descriptions.flatMap { self.violations(for: $0) }
        if !violations.isEmpty {
            var seen: Set<Violation> = []
            throw MirrorError(
                .modelIncompatible(violations.filter { seen.insert($0).inserted }),
                "The model cannot be mirrored as it is. Each line names a place and what to do there."
            )
        }
        var urls: Set<StoreID> = []
        var databases: Set<String> = []
        for description in descriptions {
            guard urls.insert(description.id).inserted, stores.file(description.id) == nil else {
                throw MirrorError(
                    .storeAlreadyLoaded(description.url),
                    "\(description.url.lastPathComponent) is open in this container already. Give each store a file of its own."
                )
            }
            guard let cloud = description.cloud else { continue }
            guard databases.insert(cloud.database).inserted else {
                throw MirrorError(
                    .databaseAlreadyMirrored,
                    "Two stores mirror the \(cloud.scope) database of one container. Leave one of them out."
                )
            }
        }
        for (name, extent) in descriptions.compactMap(\.cloud).flatMap(\.extents) {
            guard let problem = extent.problem else { continue }
            throw MirrorError(.unknownProperty, "The extent of \(name) cannot be asked for. \(problem)")
        }
        for cloud in descriptions.compactMap(\.cloud) where cloud.scope == .shared {
            var own = cloud
            own.scope = .private
            guard databases.contains(own.database) else {
                throw MirrorError(
                    .sharedStoreNeedsPrivateStore,
                    "A shared store needs a private store of the same container: copy its description and change url and scope."
                )
            }
        }
    }

    /// Everything in the model that keeps a store from being mirrored; empty for a local store.
    public func violations(for description: StoreDescription) -> [Violation] {
        guard let cloud = description.cloud else { return [] }
        let check = ModelCheck(
            model: model,
            configuration: description.configuration,
            isPublic: cloud.scope == .public,
            prefix: cloud.prefix
        )
        return check.violations()
    }

    /// Opens a store with the file of a user; `nil`: of whoever was here last.
    ///
    /// Notes who was here last where nobody is signed in any more.
    func open(_ description: StoreDescription, for user: String?, _ gone: inout String?) throws(MirrorError) {
        do {
            guard let cloud = description.cloud else {
                return stores.put(try storeFile(description, description.url.path))
            }
            var accounts = AccountFiles.load(description.url)
            let user = user ?? (Self.isOpenToNobody(cloud) ? AccountFiles.nobody : nil)
            if user == AccountFiles.nobody, cloud.scope != .public {
                if gone == nil { gone = accounts.lastUser }
                _ = accounts.assign(AccountFiles.nobody, of: description.url)
                try accounts.store(description.url)
            }
            let path = cloud.scope == .public ? description.url.path : accounts.path(for: user, of: description.url)
            guard let lock = StoreLock(path: path) else {
                throw MirrorError(
                    .storeSyncedElsewhere,
                    "\(description.url.lastPathComponent) is kept in step by another container. Open it there, or here without cloud options."
                )
            }
            let file = try storeFile(description, path)
            if user == AccountFiles.nobody, cloud.scope != .public {
                try file.pool.write { try State.set($0, .account, AccountFiles.nobody) }
            }
            let sync = MirrorSync(
                file: file,
                cloud: cloud,
                conditions: conditions,
                board: board,
                otherStore: { [stores] in stores.file($0) },
                accountChanged: { [weak self] change in await self?.accountChanged(change) }
            )
            stores.put(file)
            let known = try file.pool.read { try State.text($0, .account) } ?? accounts.lastUser
            if let known, known != AccountFiles.nobody, stores.account.user == nil {
                stores.account = Account(user: known, standing: .signedIn)
            }
            state.withLock { state in
                state.accounts[description.id] = accounts
                state.locks[description.id] = lock
                state.syncs[description.id] = sync
            }
        } catch {
            throw MirrorError(from: error)
        }
    }

    func storeFile(_ description: StoreDescription, _ path: String) throws -> StoreFile {
        let isImmediate = conditions.time.surroundings != nil
        return try StoreFile(description, model: model, path: path, isImmediate: isImmediate)
    }

    var syncs: [MirrorSync] {
        state.withLock { state in descriptions.compactMap { state.syncs[$0.id] } }
    }

    /// The same when no other user's files are just being put in their place: in that moment there is none.
    func settledSyncs() async -> [MirrorSync] {
        await switching.enter()
        defer { switching.leave() }
        return syncs
    }

    func sync(_ store: StoreID) -> MirrorSync? { state.withLock { $0.syncs[store] } }

    /// Ends all work, and closes the files when nobody reads them any more.
    public func close() async {
        state.withLock { $0.isClosed = true }
        let syncs = await settledSyncs()
        let (listener, watch) = state.withLock { state in
            state.syncs = [:]
            return (state.listener, state.watch)
        }
        watch?.cancel()
        for sync in syncs { await sync.stop() }
        if let listener { stores.stopListening(listener) }
        // Not closed outright: closing a file under a read ends the process.
        await stores.close()
        state.withLock { $0.locks = [:] }
        board.finish()
    }

    // MARK: Contexts

    /// The context for what people see: it merges what arrives.
    @MainActor public var viewContext: MirrorContext {
        state.withLock { state in
            if let known = state.views { return known }
            let made = MirrorContext(stores, name: "view", policy: .mergeByPropertyObjectTrump, merges: true)
            state.views = made
            return made
        }
    }

    /// A context for work beside the view's.
    ///
    /// - Parameter name: What the history calls it.
    /// - Returns: A context that merges nothing unless told to.
    public func newBackgroundContext(named name: String? = nil) -> MirrorContext {
        MirrorContext(stores, name: name, policy: .error, merges: false)
    }

    /// Does some work in a context of its own, off the main actor.
    public func performBackgroundTask<Result: Sendable>(
        _ work: @escaping @Sendable (MirrorContext) async throws -> Result
    ) async throws -> Result {
        let context = newBackgroundContext()
        return try await Task { try await work(context) }.value
    }

    /// A store's file, for queries and changes of the program's own with GRDB.
    ///
    /// - Returns: `nil` where the store is not open.
    public func database(of store: StoreID) -> (any DatabaseWriter)? { stores.file(store)?.pool.pool }

    /// The store of a file.
    public func store(at url: URL) -> StoreID { StoreID(url) }

    // MARK: Commits

    private func committed(_ store: StoreID) {
        if let sync = sync(store) { conditions.time.start { await sync.outboxChanged() } }
        let views = state.withLock { $0.views }
        if let views, views.automaticallyMergesChangesFromParent { views.refreshAll() }
    }

    /// How often other processes' commits are looked for.
    private static let fileWatch: Duration = .seconds(1)

    private func watchFiles() {
        // In a test's world there are no other processes, and nobody wants to be woken every second of years.
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

    /// Looks at once for what other processes and connections have committed.
    public func noticeOutsideCommits() {
        for file in stores.files { stores.committed(file.id, nil) }
    }
}

extension CloudOptions {
    /// Names the database among those of all containers, relays and accounts.
    var database: String {
        let name = "\(container.containerIdentifier ?? "")/\(scope)"
        guard let connection = try? container.session.connection() else { return name }
        let relay = "\(connection.url?.absoluteString ?? "") \(connection.environment.rawValue)"
        return "\(name) \(relay) \(ObjectIdentifier(connection.credentials))"
    }
}
