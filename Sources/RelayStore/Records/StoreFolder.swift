import Dispatch
import Foundation
package import Records
package import RelayCore
import Synchronization

/// A data folder's stores: `containers/<container>/<environment>.sqlite`, each opened when it is asked for.
///
/// An open store takes descriptors, a thread and memory, so only so many are open at once: for another one those are closed
/// that nobody has asked for longest and nobody uses. They are opened again when they are asked for, and nobody can tell.
package final class StoreFolder: StoreCatalog {
    /// Hears of commits: whose they are and what they changed.
    ///
    /// On the commit thread, so it must not wait.
    package typealias CommitListener = @Sendable (ContainerEnvironment, Commit) -> Void

    /// Hears of a store's damage, for each request that met it: whose it is, in which file, and where in it if that is
    /// known.
    package typealias DamageListener = @Sendable (ContainerEnvironment, _ path: String, _ places: [String]) -> Void

    private let folder: String?
    private let draw: @Sendable () -> UInt64
    private let onCommit: CommitListener
    private let onCommitTime: @Sendable (Int, Duration) -> Void
    private let onLostWrite: @Sendable () -> Void
    private let onDamage: DamageListener
    private let onShortage: @Sendable () -> Void
    private let later: CommitLater?
    private let tuning: QueryTuning
    private let disk: DiskCalls
    private let checkpointPages: Int
    private let mostOpen: Int
    private let freeBytes: @Sendable (_ folder: String) -> UInt64?
    private let places = Mutex(StorePlaces())
    private let closing = DispatchQueue(label: "zonecast-close", qos: .utility)

    /// - Parameters:
    ///   - folder: the data folder; `nil` keeps everything in memory.
    ///   - draw: gives random 64 bits.
    ///   - tuning: how queries choose their ways, and how long they may take.
    ///   - disk: what folders and assets are written by.
    ///   - checkpointPages: so many pages of a store's log are written back into its file at once.
    ///   - mostOpen: so many stores are open at once, and more only while more are in use.
    ///   - onCommit: hears of every commit.
    ///   - onCommitTime: hears how many writes shared a commit and how long it took.
    ///   - onLostWrite: hears once for each store whose disk failed to keep a commit.
    ///   - onDamage: hears of each request that needed what the disk has damaged.
    ///   - onShortage: hears each time that a store could not be opened since the process has no descriptor left.
    ///   - freeBytes: how many are free on a folder's disk; `nil` where that is not known.
    ///   - later: commits in place of the stores' own threads.
    package init(
        folder: String?,
        draw: @escaping @Sendable () -> UInt64,
        tuning: QueryTuning = QueryTuning(),
        disk: DiskCalls = .system,
        checkpointPages: Int = 8_000,
        mostOpen: Int = .max,
        onCommit: @escaping CommitListener = { _, _ in },
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        onLostWrite: @escaping @Sendable () -> Void = {},
        onDamage: @escaping DamageListener = { _, _, _ in },
        onShortage: @escaping @Sendable () -> Void = {},
        freeBytes: @escaping @Sendable (_ folder: String) -> UInt64? = { FreeSpace.bytes(in: $0) },
        later: CommitLater? = nil
    ) {
        self.folder = folder
        self.later = later
        self.draw = draw
        self.tuning = tuning
        self.disk = disk
        self.checkpointPages = checkpointPages
        self.mostOpen = max(1, mostOpen)
        self.freeBytes = freeBytes
        self.onCommit = onCommit
        self.onCommitTime = onCommitTime
        self.onLostWrite = onLostWrite
        self.onDamage = onDamage
        self.onShortage = onShortage
    }

    package func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
        try sqliteStore(of: home)
    }

    package func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetKeep {
        try sqliteStore(of: home).assets
    }

    /// Removes the uploads that were on their way into any store when the relay before this one ended.
    ///
    /// To be called before the first request, by whoever holds the folder. Costs a look into each store's folder.
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

    /// Marks the stores that an earlier version has left unmarked.
    package func markStores() {
        guard let folder, let stores = try? BackupFiles.stores(in: folder) else { return }
        for store in stores where access("\(folder)/\(store)", F_OK) == 0 { StoreMark.make(for: "\(folder)/\(store)") }
    }

    /// Removes the assets of the stores that this process has used, which came before `limit` and which no record uses;
    /// tells how many.
    package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
        let hold = try holdAssets()
        defer { hold?.release() }
        var removed = 0
        var failure: RelayError?
        for (home, use) in places.withLock({ $0.homesWithAssets }) {
            do throws(RelayError) {
                let store = try sqliteStore(of: home, isUse: false)
                removed += try await store.removeUnusedAssets(before: limit)
                if !store.assets.hasAssets(since: limit) { places.withLock { $0.swept(home, asOf: use) } }
            } catch {
                // The others have nothing to do with it.
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return removed
    }

    /// The same of one store.
    package func removeUnusedAssets(
        of home: ContainerEnvironment,
        before limit: Timestamp
    ) async throws(RelayError) -> Int {
        let hold = try holdAssets()
        defer { hold?.release() }
        return try await sqliteStore(of: home).removeUnusedAssets(before: limit)
    }

    /// Forgets the tombstones of what was deleted before `limit` in the stores that are open, which are those in use; tells
    /// how many.
    package func forgetTombstones(before limit: Timestamp) async throws(RelayError) -> Int {
        var forgotten = 0
        var failure: RelayError?
        for home in places.withLock({ $0.openHomes }) {
            do throws(RelayError) {
                forgotten += try await sqliteStore(of: home, isUse: false).forgetTombstones(before: limit)
            } catch {
                // The others have nothing to do with it.
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return forgotten
    }

    /// Whoever copies assets finds all that the copied records use, and of two who clear them none spares what the other is
    /// about to remove.
    private func holdAssets() throws(RelayError) -> AssetHold? {
        guard let folder else { return nil }
        do throws(AssetHold.Busy) { return try AssetHold.clearing(of: folder) } catch {
            throw RelayError(
                .tryAgainLater,
                "Assets are being backed up or cleared away just now. Try again when that is done.",
                retryAfter: .seconds(60)
            )
        }
    }

    /// The store as what it is, for those who look beneath.
    package func sqliteStore(of home: ContainerEnvironment) throws(RelayError) -> SQLiteStore {
        try sqliteStore(of: home, isUse: true)
    }

    /// `isUse`: whether it is not to be the next one that is closed.
    private func sqliteStore(of home: ContainerEnvironment, isUse: Bool) throws(RelayError) -> SQLiteStore {
        if let store = places.withLock({ $0.store(of: home, isUse: isUse) }) { return store }
        if places.withLock({ $0.openCount }) >= mostOpen { closeIdle(downTo: mostOpen - 1) }
        let door = places.withLock { $0.door(of: home) }
        let store = try door.line.withLock { _ throws(RelayError) in
            // Another may have been quicker.
            if let store = places.withLock({ $0.store(of: home, isUse: isUse) }) { return store }
            let pause = places.withLock { $0.pause(of: home) }
            let store = try openStore(of: home, after: pause)
            places.withLock { $0.opened(store, of: home, isUse: isUse) }
            return store
        }
        closeSomeBeside()
        return store
    }

    private func openStore(
        of home: ContainerEnvironment,
        after pause: StorePause?
    ) throws(RelayError) -> SQLiteStore {
        do {
            return try makeStore(of: home, after: pause)
        } catch {
            guard !StoreFailure.isDamage(error), folder != nil, Descriptors.areShort else { throw told(error, home) }
        }
        onShortage()
        closeIdle(downTo: places.withLock { $0.openCount } / 2)
        do {
            return try makeStore(of: home, after: pause)
        } catch {
            throw told(error, home)
        }
    }

    private func makeStore(of home: ContainerEnvironment, after pause: StorePause?) throws -> SQLiteStore {
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
            onDamage: { [onDamage, folder] in Self.tellDamage(home, folder, onDamage) },
            later: later,
            after: pause
        )
    }

    private func told(_ error: any Error, _ home: ContainerEnvironment) -> RelayError {
        if StoreFailure.isDamage(error) { Self.tellDamage(home, folder, onDamage) }
        return StoreFailure.relayError(for: error)
    }

    private static func tellDamage(_ home: ContainerEnvironment, _ folder: String?, _ listener: DamageListener) {
        guard let path = folder.map({ Self.path(of: home, in: $0) }) else { return }
        listener(home, path, DamageLedger.places(of: path))
    }

    /// Writes that wait for their commits, in all open stores.
    package var waitingWrites: Int { places.withLock { $0.openStores }.reduce(0) { $0 + $1.waitingWrites } }

    /// How many stores are open, and how often one was closed to make room for others.
    package var counts: (open: Int, closed: Int) { places.withLock { ($0.openCount, $0.closedCount) } }

    package func isThere(_ home: ContainerEnvironment) -> Bool {
        if places.withLock({ $0.isOpen(home) }) { return true }
        guard let path = folder.map({ Self.path(of: home, in: $0) }) else { return false }
        // One that is lost is there, and cannot be opened.
        return FileManager.default.fileExists(atPath: path) || StoreMark.isThere(for: path)
    }

    // MARK: Making room

    /// Closes half of those that nobody uses, beside what else goes on; for when the process has no descriptor left.
    package func makeRoom() {
        closing.async { [self] in closeIdle(downTo: places.withLock { $0.openCount } / 2) }
    }

    /// Where the most are nearly open, some are closed before somebody has to wait for it.
    private func closeSomeBeside() {
        let comfortable = mostOpen - mostOpen / 8
        guard later == nil, places.withLock({ $0.openCount }) > comfortable else { return }
        closing.async { [self] in closeIdle(downTo: comfortable) }
    }

    /// Closes those that nobody has asked for longest, and nobody uses, until so many are open.
    private func closeIdle(downTo count: Int) {
        // What is in memory would be gone.
        guard let folder, hasRoomToReopen(folder) else { return }
        for home in places.withLock({ $0.openHomes }) {
            guard places.withLock({ $0.openCount }) > count else { return }
            closeIfIdle(home)
        }
    }

    /// To open a store takes a little of the disk, and on a full one reads must go on: what is open there stays so.
    private static let roomToReopen: UInt64 = 64 << 20

    private func hasRoomToReopen(_ folder: String) -> Bool {
        freeBytes(folder).map { $0 >= Self.roomToReopen } ?? true
    }

    private func closeIfIdle(_ home: ContainerEnvironment) {
        let door = places.withLock { $0.door(of: home) }
        // Somebody is opening or closing it: the next one will do, and nobody waits for two doors.
        _ = door.line.withLockIfAvailable { _ in
            guard let store = places.withLock({ $0.takeIfIdle(home) }) else { return }
            let pause = store.pause()
            places.withLock { $0.closed(home, pause) }
        }
    }

    // MARK: The end

    /// Finishes what waits to be written and closes every file.
    ///
    /// - Parameter patience: how long it may take to copy logs into their files. On a slow disk, or with many stores, the rest
    ///   stay beside theirs as after a crash, and nothing is lost: they hold what is committed.
    package func close(patience: Duration = .seconds(1)) {
        let end = ContinuousClock.now + patience
        for (home, door) in places.withLock({ $0.doors }) {
            door.line.withLock { _ in places.withLock { $0.end(home) }?.close(by: end) }
        }
    }

    /// Ends every token of the stores that this process has used.
    package func renewEpochs() throws {
        for home in places.withLock({ $0.usedHomes }) { try sqliteStore(of: home).renewEpoch() }
    }

    /// Closes every file as the end of the process would.
    package func abandon() {
        let stores = places.withLock { places in
            defer { places = StorePlaces() }
            return places.openStores
        }
        stores.forEach { $0.abandon() }
    }

    private func place(of home: ContainerEnvironment) throws -> SQLiteStore.Place {
        guard let folder else { return .memory }
        let path = Self.path(of: home, in: folder)
        try Self.makeFolder(ofFile: path, in: folder, by: disk)
        return .file(path: path)
    }

    /// Container names hold only letters, digits, dots, dashes and underscores, so they are safe as folder names.
    static func path(of home: ContainerEnvironment, in folder: String) -> String {
        "\(folder)/containers/\(home.container.name)/\(home.environment.rawValue).sqlite"
    }

    /// Makes the folders of a store's file.
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
