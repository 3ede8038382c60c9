import Dispatch
import Foundation
package import Records
package import RelayCore
package import RelaySystem
package import StoreKit
import Synchronization

/// The stores of a data folder, `containers/<container>/<environment>.sqlite`, opened on demand.
///
/// An open store uses file descriptors, a thread and memory, so the number of open stores is limited. To open another
/// one, the folder closes the least recently used stores that are idle. They are reopened on demand, which is invisible
/// to clients.
package final class StoreFolder: ServedStores {
    /// Called with the changes of each commit and the container and environment they belong to.
    ///
    /// Runs on the commit thread. Must not block.
    package typealias CommitListener = @Sendable (ContainerEnvironment, Commit) -> Void

    /// Called for each request that meets a damaged file.
    ///
    /// The arguments are the container and environment, the file's path, and the damaged places if they are known.
    package typealias DamageListener = @Sendable (ContainerEnvironment, _ path: String, _ places: [String]) -> Void

    private let folder: String?
    private let draw: @Sendable () -> UInt64
    private let onCommit: CommitListener
    private let onCommitTime: @Sendable (Int, Duration) -> Void
    private let onLostWrite: @Sendable () -> Void
    private let onDamage: DamageListener
    private let onShortage: @Sendable () -> Void
    private let scheduler: CommitScheduler?
    private let tuning: QueryTuning
    private let disk: DiskCalls
    private let checkpointPages: Int
    private let maxOpen: Int
    private let freeBytes: @Sendable (_ folder: String) -> UInt64?
    private let registry = Mutex(StoreRegistry())
    private let closing = DispatchQueue(label: "zonecast-close", qos: .utility)

    /// Creates the catalog of stores; opens no file.
    ///
    /// - Parameters:
    ///   - folder: the data folder; `nil` keeps everything in memory.
    ///   - draw: returns 64 random bits.
    ///   - tuning: the thresholds and time limits for queries.
    ///   - disk: the calls that write folders and assets.
    ///   - checkpointPages: the number of pages of a store's log that are copied into its file at once.
    ///   - maxOpen: the maximum number of open stores; exceeded only while more are in use.
    ///   - onCommit: called with each commit's changes.
    ///   - onCommitTime: called with the number of writes in a commit and its duration.
    ///   - onLostWrite: called once for each store whose disk failed to keep a commit.
    ///   - onDamage: called for each request that needs a damaged part of a file.
    ///   - onShortage: called each time a store cannot be opened because the process has no file descriptor left.
    ///   - freeBytes: returns the free bytes on a folder's disk; `nil` if unknown.
    ///   - scheduler: runs commits in place of the stores' own threads.
    package init(
        folder: String?,
        draw: @escaping @Sendable () -> UInt64,
        tuning: QueryTuning = QueryTuning(),
        disk: DiskCalls = .system,
        checkpointPages: Int = 8_000,
        maxOpen: Int = .max,
        onCommit: @escaping CommitListener = { _, _ in },
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        onLostWrite: @escaping @Sendable () -> Void = {},
        onDamage: @escaping DamageListener = { _, _, _ in },
        onShortage: @escaping @Sendable () -> Void = {},
        freeBytes: @escaping @Sendable (_ folder: String) -> UInt64? = { FreeSpace.bytes(in: $0) },
        scheduler: CommitScheduler? = nil
    ) {
        self.folder = folder
        self.scheduler = scheduler
        self.draw = draw
        self.tuning = tuning
        self.disk = disk
        self.checkpointPages = checkpointPages
        self.maxOpen = max(1, maxOpen)
        self.freeBytes = freeBytes
        self.onCommit = onCommit
        self.onCommitTime = onCommitTime
        self.onLostWrite = onLostWrite
        self.onDamage = onDamage
        self.onShortage = onShortage
    }

    /// `nil`: SQLite's reads do not block.
    package var executor: (any TaskExecutor)? { nil }

    package func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
        try sqliteStore(of: home)
    }

    package func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore {
        try sqliteStore(of: home).assets
    }

    /// Lists each store's incoming folder.
    package func removeBrokenUploads() {
        guard let folder else { return }
        let containers = "\(folder)/containers"
        for name in (try? FileManager.default.contentsOfDirectory(atPath: containers)) ?? [] {
            for environment in Environment.allCases {
                let file = "\(containers)/\(name)/\(environment.rawValue).sqlite"
                AssetFolder.removeIncoming(in: SQLiteStore.Place.assetFolder(ofFile: file))
            }
        }
    }

    package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
        let assetLock = try lockAssets()
        defer { assetLock?.release() }
        var removed = 0
        var failure: RelayError?
        for (home, use) in registry.withLock({ $0.homesWithAssets }) {
            do throws(RelayError) {
                let store = try sqliteStore(of: home, isUse: false)
                removed += try await store.removeUnusedAssets(before: limit)
                if !store.assets.hasAssets(since: limit) { registry.withLock { $0.swept(home, asOf: use) } }
            } catch {
                // A failure in one store does not affect the others.
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return removed
    }

    package func removeUnusedAssets(
        of home: ContainerEnvironment,
        before limit: Timestamp
    ) async throws(RelayError) -> Int {
        let assetLock = try lockAssets()
        defer { assetLock?.release() }
        return try await sqliteStore(of: home).removeUnusedAssets(before: limit)
    }

    package func forgetTombstones(before limit: Timestamp) async throws(RelayError) -> Int {
        var forgotten = 0
        var failure: RelayError?
        for home in registry.withLock({ $0.openHomes }) {
            do throws(RelayError) {
                forgotten += try await sqliteStore(of: home, isUse: false).forgetTombstones(before: limit)
            } catch {
                // A failure in one store does not affect the others.
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return forgotten
    }

    /// Locks the folder's assets for removal.
    ///
    /// A copy of the assets thus contains everything that the copied records use, and two removals never run at once.
    private func lockAssets() throws(RelayError) -> AssetLock? {
        guard let folder else { return nil }
        do throws(AssetLock.Busy) { return try AssetLock.clearing(of: folder) } catch {
            throw RelayError(
                .tryAgainLater,
                "Assets are being backed up or removed at present. Try again when that is done.",
                retryAfter: .seconds(60)
            )
        }
    }

    /// Returns the store as its concrete type, for inspection.
    package func sqliteStore(of home: ContainerEnvironment) throws(RelayError) -> SQLiteStore {
        try sqliteStore(of: home, isUse: true)
    }

    /// `isUse` is whether the call makes the store the most recently used one.
    private func sqliteStore(of home: ContainerEnvironment, isUse: Bool) throws(RelayError) -> SQLiteStore {
        if let store = registry.withLock({ $0.store(of: home, isUse: isUse) }) { return store }
        if registry.withLock({ $0.openCount }) >= maxOpen { closeIdle(downTo: maxOpen - 1) }
        let lock = registry.withLock { $0.lock(of: home) }
        let store = try lock.mutex.withLock { _ throws(RelayError) in
            // Another thread may have opened it meanwhile.
            if let store = registry.withLock({ $0.store(of: home, isUse: isUse) }) { return store }
            if registry.withLock({ $0.isHeld(home) }) { throw .storeIsHeld }
            let pause = registry.withLock { $0.pause(of: home) }
            let store = try openStore(of: home, after: pause)
            registry.withLock { $0.opened(store, of: home, isUse: isUse) }
            return store
        }
        closeOthers()
        return store
    }

    private func openStore(
        of home: ContainerEnvironment,
        after pause: PausedStore?
    ) throws(RelayError) -> SQLiteStore {
        do {
            return try makeStore(of: home, after: pause)
        } catch {
            guard !StoreFailure.isDamage(error), folder != nil, Descriptors.areShort else {
                throw reported(error, home)
            }
        }
        onShortage()
        closeIdle(downTo: registry.withLock { $0.openCount } / 2)
        do {
            return try makeStore(of: home, after: pause)
        } catch {
            throw reported(error, home)
        }
    }

    private func makeStore(of home: ContainerEnvironment, after pause: PausedStore?) throws -> SQLiteStore {
        let onCommit = onCommit
        return try SQLiteStore(
            try place(of: home),
            draw: draw,
            tuning: tuning,
            disk: disk,
            checkpointPages: checkpointPages,
            onCommit: { onCommit(home, $0) },
            onCommitTime: onCommitTime,
            onLostWrite: onLostWrite,
            onDamage: { [onDamage, folder] in Self.reportDamage(home, folder, onDamage) },
            scheduler: scheduler,
            after: pause
        )
    }

    private func reported(_ error: any Error, _ home: ContainerEnvironment) -> RelayError {
        if StoreFailure.isDamage(error) { Self.reportDamage(home, folder, onDamage) }
        return StoreFailure.relayError(for: error)
    }

    private static func reportDamage(_ home: ContainerEnvironment, _ folder: String?, _ listener: DamageListener) {
        guard let path = folder.map({ Self.path(of: home, in: $0) }) else { return }
        listener(home, path, DamageLog.places(of: path))
    }

    package var waitingWrites: Int { registry.withLock { $0.openStores }.reduce(0) { $0 + $1.waitingWrites } }

    package var counts: (open: Int, closed: Int) { registry.withLock { ($0.openCount, $0.closedCount) } }

    package func isThere(_ home: ContainerEnvironment) -> Bool {
        if registry.withLock({ $0.isOpen(home) }) { return true }
        guard let path = folder.map({ Self.path(of: home, in: $0) }) else { return false }
        // A store whose file is lost still exists; opening it fails.
        return FileManager.default.fileExists(atPath: path) || StoreMarker.isThere(for: path)
    }

    // MARK: Closing idle stores

    /// Closes half of the open stores that are idle, in the background; called when no file descriptor is left.
    package func makeRoom() {
        closing.async { [self] in closeIdle(downTo: registry.withLock { $0.openCount } / 2) }
    }

    /// Closes some stores in the background when the maximum is nearly reached, so that no request has to wait for it.
    private func closeOthers() {
        let comfortable = maxOpen - maxOpen / 8
        guard scheduler == nil, registry.withLock({ $0.openCount }) > comfortable else { return }
        closing.async { [self] in closeIdle(downTo: comfortable) }
    }

    /// Closes idle stores, least recently used first, until only `count` are open.
    private func closeIdle(downTo count: Int) {
        // A store in memory would lose its content.
        guard let folder, hasRoomToReopen(folder) else { return }
        for home in registry.withLock({ $0.openHomes }) {
            guard registry.withLock({ $0.openCount }) > count else { return }
            closeIfIdle(home)
        }
    }

    /// Free bytes below which stores stay open: reopening needs some disk space, and a full disk must still serve
    /// reads.
    private static let roomToReopen: UInt64 = 64 << 20

    private func hasRoomToReopen(_ folder: String) -> Bool {
        freeBytes(folder).map { $0 >= Self.roomToReopen } ?? true
    }

    private func closeIfIdle(_ home: ContainerEnvironment) {
        let lock = registry.withLock { $0.lock(of: home) }
        // If another thread is opening or closing the store, skips it: waiting for two locks could deadlock.
        _ = lock.mutex.withLockIfAvailable { _ in
            guard let store = registry.withLock({ $0.takeIfIdle(home) }) else { return }
            let pause = store.pause()
            registry.withLock { $0.closed(home, pause) }
        }
    }

    // MARK: Stores of commands

    package func hold(
        _ home: ContainerEnvironment,
        patience: Duration = .seconds(30),
        whenRefusing: () -> Void = {}
    ) async throws(RelayError) {
        // A thread that is opening the store finishes that first.
        let lock = registry.withLock { $0.lock(of: home) }
        lock.mutex.withLock { _ in registry.withLock { $0.hold(home) } }
        whenRefusing()
        let end = ContinuousClock.now + patience
        while true {
            let (store, isOpen) = registry.withLock { $0.takeHeldIfIdle(home) }
            guard isOpen else {
                guard let store else { return }
                await withCheckedContinuation { done in
                    closing.async {
                        store.close()
                        done.resume()
                    }
                }
                return
            }
            guard ContinuousClock.now < end, (try? await Task.sleep(for: .milliseconds(5))) != nil else {
                release(home)
                throw RelayError(
                    .tryAgainLater,
                    "A request has used the container for \(patience.components.seconds) s."
                )
            }
        }
    }

    package func release(_ home: ContainerEnvironment) { registry.withLock { $0.release(home) } }

    // MARK: Closing

    package func close(patience: Duration = .seconds(1)) {
        let end = ContinuousClock.now + patience
        for (home, lock) in registry.withLock({ $0.locks }) {
            lock.mutex.withLock { _ in registry.withLock { $0.end(home) }?.close(by: end) }
        }
    }

    /// Ends all epochs of the stores that this process has used, which invalidates every token.
    package func renewEpochs() throws {
        for home in registry.withLock({ $0.usedHomes }) { try sqliteStore(of: home).renewEpoch() }
    }

    /// Closes every file as a crash would.
    package func abandon() {
        let stores = registry.withLock { registry in
            defer { registry = StoreRegistry() }
            return registry.openStores
        }
        stores.forEach { $0.abandon() }
    }

    private func place(of home: ContainerEnvironment) throws -> SQLiteStore.Place {
        guard let folder else { return .memory }
        let path = Self.path(of: home, in: folder)
        try Self.makeFolder(ofFile: path, in: folder, by: disk)
        return .file(path: path)
    }

    /// Returns the path of a store's file; container names contain only letters, digits, `.`, `-` and `_`, so they are
    /// safe.
    static func path(of home: ContainerEnvironment, in folder: String) -> String {
        "\(folder)/containers/\(home.container.name)/\(home.environment.rawValue).sqlite"
    }

    /// Creates the folders of a store's file.
    static func makeFolder(ofFile path: String, in data: String, by disk: DiskCalls = .system) throws {
        if !FileManager.default.fileExists(atPath: data) {
            try FileManager.default.createDirectory(
                atPath: data,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        }
        try disk.makeFolders((path as NSString).deletingLastPathComponent, within: data)
    }
}
