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
    package let stores: OpenStores
    let broadcaster = EventBroadcaster()
    let state = Mutex(Contents())
    let switchLock = AsyncLock()
    let loadLock = AsyncLock()

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
        self.stores = OpenStores(model: model, stores: stores, conditions: conditions, broadcaster: broadcaster)
    }

    deinit {
        let (syncs, watch) = state.withLock { (Array($0.syncs.values), $0.watch) }
        watch?.cancel()
        if !syncs.isEmpty { conditions.time.start { for sync in syncs { await sync.stop() } } }
    }

    // MARK: Stores

    package var syncs: [MirrorSync] {
        state.withLock { state in descriptions.compactMap { state.syncs[$0.id] } }
    }

    /// Returns the syncs after a replacement of files has ended, during which there are none.
    func syncsAfterSwitch() async -> [MirrorSync] {
        await switchLock.enter()
        defer { switchLock.leave() }
        return syncs
    }

    package func sync(_ store: StoreID) -> MirrorSync? { state.withLock { $0.syncs[store] } }

    /// Stops the sync, and closes the files once they are no longer read.
    public func close() async {
        state.withLock { $0.isClosed = true }
        let syncs = await syncsAfterSwitch()
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
        broadcaster.finish()
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

    package func committed(_ store: StoreID) {
        if let sync = sync(store) { conditions.time.start { await sync.outboxChanged() } }
    }

    /// The interval of checks for other processes' commits.
    private static let fileWatch: Duration = .seconds(1)

    func watchFiles() {
        // A simulation has no other processes, and a timer each second would only slow it down.
        guard conditions.isAutomatic, conditions.time.testEnvironment == nil else { return }
        let task: Task<Void, Never> = conditions.time.start { [weak self, time = conditions.time] in
            var seen: [StoreID: Int] = [:]
            while !Task.isCancelled {
                guard (try? await time.sleep(time.now() + Self.fileWatch)) != nil, let self else { return }
                await self.checkForOutsideCommits(&seen)
            }
        }
        state.withLock { $0.watch = task }
    }

    private func checkForOutsideCommits(_ seen: inout [StoreID: Int]) async {
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

/// Opening the files of stores, and the checks before that.
extension MirroredContainer {
    /// Opens all stores and starts to sync the mirrored ones.
    ///
    /// Needs no network: local data can be read at once. Opens all stores or none; after an error, call it again.
    ///
    /// - Throws: `modelIncompatible` with every violation, `storeAlreadyLoaded`, `storeSyncedElsewhere`,
    ///   `sharedStoreNeedsPrivateStore`, `databaseAlreadyMirrored`, `unknownStore` for a `keepCopy(in:)` that names no other
    ///   store of the container, `wrongStore` for a configuration that the model
    ///   does not have, `unknownProperty` for an entity or property in the cloud options, `unsupportedStoreVersion` for a
    ///   file of another version of this library, and `storage` with SQLite's error.
    public func loadStores() async throws(MirrorError) {
        let (opened, signedOutUser) = try await openMissing()
        if let signedOutUser { await applySignOutChoice(of: signedOutUser, isOpen: false) }
        for description in opened { await sync(description.id)?.start() }
    }

    /// Opens the missing stores, and returns them with the last user if that one has signed out since.
    ///
    /// Runs one call at a time: a concurrent call would treat the stores just opened here as another container's, and
    /// close them.
    private func openMissing() async throws(MirrorError) -> (opened: [StoreDescription], signedOutUser: String?) {
        await loadLock.enter()
        defer { loadLock.leave() }
        let missing = try checkDescriptions()
        var signedOutUser: String?
        do throws(MirrorError) {
            for description in missing { try open(description, for: nil, &signedOutUser) }
        } catch {
            for description in missing { await discardUnused(description.id) }
            throw error
        }
        listen()
        return (missing, signedOutUser)
    }

    /// Starts to observe commits, unless that was done before.
    private func listen() {
        let isListening = state.withLock { state in
            state.isLoaded = true
            state.isClosed = false
            return state.listener != nil
        }
        guard !isListening else { return }
        let listener = stores.listen(to: nil) { [weak self] store in self?.committed(store) }
        state.withLock { $0.listener = listener }
        watchFiles()
    }

    /// Checks the descriptions and returns the stores to open.
    private func checkDescriptions() throws(MirrorError) -> [StoreDescription] {
        for description in descriptions { try checkNames(in: description) }
        let violations = descriptions.flatMap { self.violations(for: $0) }
        if !violations.isEmpty {
            var seen: Set<Violation> = []
            throw MirrorError(
                .modelIncompatible(violations.filter { seen.insert($0).inserted }),
                "The model cannot be mirrored. Each line names a problem and its solution."
            )
        }
        // A store that has lost its file is opened again beside the others.
        let missing = descriptions.filter { stores.file($0.id) == nil }
        var urls: Set<StoreID> = []
        var databases: Set<String> = []
        for description in descriptions {
            guard urls.insert(description.id).inserted, !missing.isEmpty else {
                throw MirrorError(
                    .storeAlreadyLoaded(description.url),
                    "\(description.url.lastPathComponent) is already open in this container. Give each store its own file."
                )
            }
            guard let cloud = description.cloud else { continue }
            guard databases.insert(cloud.database).inserted else {
                throw MirrorError(
                    .databaseAlreadyMirrored,
                    "Two stores mirror the \(cloud.scope) database of one container. Remove one of them."
                )
            }
        }
        for cloud in descriptions.compactMap(\.cloud) {
            guard let unknown = cloud.unknownNames(in: model).min() else { continue }
            throw MirrorError(.unknownProperty, "The model has no \(unknown), which the cloud options name.")
        }
        for (name, extent) in descriptions.compactMap(\.cloud).flatMap(\.extents) {
            guard let problem = extent.problem else { continue }
            throw MirrorError(.unknownProperty, "The extent of \(name) cannot be queried. \(problem)")
        }
        for description in descriptions {
            guard case .keepCopy(let url)? = description.cloud?.losingAccess else { continue }
            guard urls.contains(StoreID(url)), StoreID(url) != description.id else {
                throw MirrorError(
                    .unknownStore,
                    "\(url.lastPathComponent), where \(description.url.lastPathComponent) is to keep copies, is not another store of this container. Add its description, or correct losingAccess."
                )
            }
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
        return missing
    }

    /// Throws for unknown names, which would make a store that stays empty without an error.
    private func checkNames(in description: StoreDescription) throws(MirrorError) {
        guard description.url.isFileURL else {
            throw MirrorError(.storage, "\(description.url) is not a file URL. Create it with URL(filePath:).")
        }
        guard let name = description.configuration else { return }
        guard let members = model.configurations[name] else {
            throw MirrorError(.wrongStore, "The model has no configuration \(name). Add it to MirrorModel.")
        }
        guard let unknown = members.subtracting(model.entityNames(in: nil)).min() else { return }
        throw MirrorError(
            .wrongStore,
            "The configuration \(name) names \(unknown), which is not an entity of the model."
        )
    }

    /// Returns everything in the model that prevents a store from being mirrored; empty for a local store.
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

    /// Opens a store with a user's file; `nil` means the last user's.
    ///
    /// Sets `signedOutUser` to the last user if no user is signed in any more.
    func open(_ description: StoreDescription, for user: String?, _ signedOutUser: inout String?) throws(MirrorError) {
        do {
            try Self.checkFolder(of: description.url.path)
            guard let cloud = description.cloud else {
                return stores.put(try storeFile(description, description.url.path))
            }
            var accounts = AccountFiles.load(description.url)
            let user = user ?? (Self.opensWithoutUser(cloud) ? AccountFiles.noUser : nil)
            if user == AccountFiles.noUser, cloud.scope != .public {
                if signedOutUser == nil { signedOutUser = accounts.lastUser }
                _ = accounts.assign(AccountFiles.noUser, of: description.url)
                try accounts.store(description.url)
            }
            let path = cloud.scope == .public ? description.url.path : accounts.path(for: user, of: description.url)
            guard let lock = try StoreLock(path: path) else {
                throw MirrorError(
                    .storeSyncedElsewhere,
                    "\(description.url.lastPathComponent) is synced by another container. Open it there, or here without cloud options."
                )
            }
            let file = try storeFile(description, path)
            if let user, cloud.scope != .public { try Self.claim(file, for: user) }
            let mirrored = MirroredStore(
                file: file,
                cloud: cloud,
                conditions: conditions,
                broadcaster: broadcaster,
                otherStore: { [stores] in stores.file($0) },
                accountChanged: { [weak self] change in await self?.accountChanged(change, in: file) }
            )
            let sync = MirrorSync(mirrored, pollInterval: cloud.pollInterval)
            stores.put(file)
            let known = try file.pool.read { try State.text($0, .account) } ?? accounts.lastUser
            // A public file names its last user, who may have signed out since.
            if let known, known != AccountFiles.noUser, stores.account.user == nil, !Self.opensWithoutUser(cloud) {
                stores.account = Account(user: known, status: .signedIn)
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

    /// Stores the user whose data a file holds; throws if it holds another user's.
    private static func claim(_ file: StoreFile, for user: String) throws {
        try file.pool.write { db in
            let owner = try State.text(db, .account)
            guard owner == nil || owner == user else {
                throw MirrorError(
                    .storage,
                    "\(URL(filePath: file.path).lastPathComponent) holds another user's data. Delete the store's .accounts file; it is then created again."
                )
            }
            try State.set(db, .account, user)
        }
    }

    /// Closes a store that was opened but not used yet.
    private func discardUnused(_ store: StoreID) async {
        let sync = state.withLock { state in
            state.accounts[store] = nil
            return state.syncs.removeValue(forKey: store)
        }
        await sync?.stop()
        await stores.closeFile(store)
        state.withLock { $0.locks[store] = nil }
    }

    /// Throws if the folder does not exist, which would otherwise look like another container's lock.
    private static func checkFolder(of path: String) throws(MirrorError) {
        let folder = URL(filePath: path).deletingLastPathComponent().path
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder), isFolder.boolValue else {
            throw MirrorError(.storage, "There is no folder \(folder). Create it before loading the store.")
        }
    }

    func storeFile(_ description: StoreDescription, _ path: String) throws -> StoreFile {
        let isImmediate = conditions.time.testEnvironment != nil
        return try StoreFile(description, model: model, path: path, isImmediate: isImmediate)
    }
}

extension CloudOptions {
    /// Identifies the database among those of all containers, relays and accounts.
    var database: String {
        let name = "\(container.containerIdentifier ?? "")/\(scope)"
        guard let connection = try? container.session.connection() else { return name }
        let relay = "\(connection.url?.absoluteString ?? "") \(connection.environment.rawValue)"
        return "\(name) \(relay) \(ObjectIdentifier(connection.credentials))"
    }
}

/// One zone as stored, for programs that show the progress of a mirror, such as the demo.
package struct MirroredZone: Sendable {
    package var name: String
    package var ownerName: String
    /// The relay's change token; `nil` before the first fetch.
    package var token: String?
    /// The names of the objects with a record in the zone; objects that were never sent are in no zone yet.
    package var objects: Set<String>
}

extension MirroredContainer {
    /// Returns the zones that a store knows to be on the relay, with their objects, without a request.
    package func zones(in store: StoreID) async throws(MirrorError) -> [MirroredZone] {
        try await reading(store) { db in
            var objects: [Int64: Set<String>] = [:]
            let records = try Row.fetchCursor(db, sql: "SELECT zone, oid FROM mirror_record WHERE oid IS NOT NULL")
            while let row = try records.next() { objects[row[0], default: []].insert(row[1]) }
            return try KnownZone.all(db).filter(\.isThere).map { known in
                MirroredZone(
                    name: known.zone.zoneName,
                    ownerName: known.zone.owner.recordName,
                    token: known.token,
                    objects: objects[known.id] ?? []
                )
            }
        }
    }

    /// Returns the time until a public store's next poll; `nil` during a poll and for other stores.
    package func untilNextPoll(of store: StoreID) async -> Duration? {
        guard let next = await sync(store)?.polls.poll.nextPoll else { return nil }
        return max(.zero, next - conditions.time.now())
    }

    /// Returns the values that automatic merges have dropped since decision number `last`, oldest first, with their
    /// numbers.
    package func mergeDecisions(
        in store: StoreID,
        after last: Int64
    ) async throws(MirrorError) -> [(number: Int64, object: String, property: String)] {
        try await reading(store) { db in
            let sql = "SELECT id, oid, property FROM mirror_decision WHERE id > ? ORDER BY id"
            return try Row.fetchAll(db, sql: sql, arguments: [last]).map { ($0[0], $0[1], $0[2]) }
        }
    }
}
