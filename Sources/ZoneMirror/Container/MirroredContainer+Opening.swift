import Foundation
import GRDB
import Synchronization
import ZoneKit

/// Opening the files of stores, and the checks before that.
extension MirroredContainer {
    /// Opens all stores and starts to sync the mirrored ones.
    ///
    /// Needs no network: local data can be read at once. Opens all stores or none; after an error, call it again.
    ///
    /// - Throws: `modelIncompatible` with every violation, `storeAlreadyLoaded`, `storeSyncedElsewhere`,
    ///   `sharedStoreNeedsPrivateStore`, `databaseAlreadyMirrored`, `wrongStore` for a configuration that the model
    ///   does not have, `unknownProperty` for an entity or property in the cloud options, `unsupportedStoreVersion` for a
    ///   file of another version of this library, and `storage` with SQLite's error.
    public func loadStores() async throws(MirrorError) {
        let (opened, gone) = try await openMissing()
        if let gone { await settleSignOut(of: gone, isOpen: false) }
        for description in opened { await sync(description.id)?.start() }
    }

    /// Opens the missing stores, and returns them with the last user if that one has signed out since.
    ///
    /// Runs one call at a time: a concurrent call would treat the stores just opened here as another container's, and
    /// close them.
    private func openMissing() async throws(MirrorError) -> (opened: [StoreDescription], gone: String?) {
        await loading.enter()
        defer { loading.leave() }
        let missing = try checkDescriptions()
        var gone: String?
        do throws(MirrorError) {
            for description in missing { try open(description, for: nil, &gone) }
        } catch {
            for description in missing { await letGo(description.id) }
            throw error
        }
        listen()
        return (missing, gone)
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
    /// Sets `gone` to the last user if no user is signed in any more.
    func open(_ description: StoreDescription, for user: String?, _ gone: inout String?) throws(MirrorError) {
        do {
            try Self.checkFolder(of: description.url.path)
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
            guard let lock = try StoreLock(path: path) else {
                throw MirrorError(
                    .storeSyncedElsewhere,
                    "\(description.url.lastPathComponent) is synced by another container. Open it there, or here without cloud options."
                )
            }
            let file = try storeFile(description, path)
            if let user, cloud.scope != .public { try Self.claim(file, for: user) }
            let sync = MirrorSync(
                file: file,
                cloud: cloud,
                conditions: conditions,
                board: board,
                otherStore: { [stores] in stores.file($0) },
                accountChanged: { [weak self] change in await self?.accountChanged(change, in: file) }
            )
            stores.put(file)
            let known = try file.pool.read { try State.text($0, .account) } ?? accounts.lastUser
            // A public file names its last user, who may have signed out since.
            if let known, known != AccountFiles.nobody, stores.account.user == nil, !Self.isOpenToNobody(cloud) {
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

    /// Stores the user whose data a file holds; throws if it holds another user's.
    private static func claim(_ file: StoreFile, for user: String) throws {
        try file.pool.write { db in
            let holder = try State.text(db, .account)
            guard holder == nil || holder == user else {
                throw MirrorError(
                    .storage,
                    "\(URL(filePath: file.path).lastPathComponent) holds another user's data. Delete the store's .accounts file; it is then created again."
                )
            }
            try State.set(db, .account, user)
        }
    }

    /// Closes a store that was opened but not used yet.
    private func letGo(_ store: StoreID) async {
        let sync = state.withLock { state in
            state.accounts[store] = nil
            return state.syncs.removeValue(forKey: store)
        }
        await sync?.stop()
        await stores.putAway(store)
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
        let isImmediate = conditions.time.surroundings != nil
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
