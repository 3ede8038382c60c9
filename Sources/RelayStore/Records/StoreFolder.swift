import Foundation
package import Records
package import RelayCore
import Synchronization

/// A data folder's stores: `containers/<container>/<environment>.sqlite`, each opened when it is first asked for.
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
    private let later: CommitLater?
    private let disk: DiskCalls
    private let checkpointPages: Int
    private struct Open {
        var stores: [ContainerEnvironment: SQLiteStore] = [:]
        /// The one that was asked for last, which mostly is the next one too.
        var latest: (home: ContainerEnvironment, store: SQLiteStore)?
    }

    private let open = Mutex(Open())

    /// - Parameters:
    ///   - folder: the data folder; `nil` keeps everything in memory.
    ///   - draw: gives random 64 bits.
    ///   - disk: what folders and assets are written by.
    ///   - checkpointPages: so many pages of a store's log are written back into its file at once.
    ///   - onCommit: hears of every commit.
    ///   - onCommitTime: hears how many writes shared a commit and how long it took.
    ///   - onLostWrite: hears once for each store whose disk failed to keep a commit.
    ///   - onDamage: hears of each request that needed what the disk has damaged.
    ///   - later: commits in place of the stores' own threads.
    package init(
        folder: String?,
        draw: @escaping @Sendable () -> UInt64,
        disk: DiskCalls = .system,
        checkpointPages: Int = 8_000,
        onCommit: @escaping CommitListener = { _, _ in },
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        onLostWrite: @escaping @Sendable () -> Void = {},
        onDamage: @escaping DamageListener = { _, _, _ in },
        later: CommitLater? = nil
    ) {
        self.folder = folder
        self.later = later
        self.draw = draw
        self.disk = disk
        self.checkpointPages = checkpointPages
        self.onCommit = onCommit
        self.onCommitTime = onCommitTime
        self.onLostWrite = onLostWrite
        self.onDamage = onDamage
    }

    package func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
        try sqliteStore(of: home)
    }

    package func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetKeep {
        try sqliteStore(of: home).assets
    }

    /// Removes the assets of the open stores that came before `limit` and that no record uses; tells how many.
    package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
        var removed = 0
        for store in open.withLock({ Array($0.stores.values) }) {
            removed += try await store.removeUnusedAssets(before: limit)
        }
        return removed
    }

    /// The store as what it is, for those who look beneath.
    package func sqliteStore(of home: ContainerEnvironment) throws(RelayError) -> SQLiteStore {
        try open.withLock { (open) throws(RelayError) in
            if let latest = open.latest, latest.home == home { return latest.store }
            let store = if let store = open.stores[home] { store } else { try openStore(of: home) }
            open.stores[home] = store
            open.latest = (home, store)
            return store
        }
    }

    private func openStore(of home: ContainerEnvironment) throws(RelayError) -> SQLiteStore {
        let tell = { @Sendable [onDamage, folder] in
            guard let path = folder.map({ Self.path(of: home, in: $0) }) else { return }
            onDamage(home, path, DamageLedger.places(of: path))
        }
        do {
            let place = try place(of: home)
            let onCommit = onCommit
            return try SQLiteStore(
                place,
                draw: draw,
                disk: disk,
                checkpointPages: checkpointPages,
                onCommit: { onCommit(home, $0) },
                onCommitTime: onCommitTime,
                onLostWrite: onLostWrite,
                onDamage: tell,
                later: later
            )
        } catch {
            if StoreFailure.isDamage(error) { tell() }
            throw StoreFailure.relayError(for: error)
        }
    }

    /// Writes that wait for their commits, in all open stores.
    package var waitingWrites: Int { open.withLock { Array($0.stores.values) }.reduce(0) { $0 + $1.waitingWrites } }

    package func isThere(_ home: ContainerEnvironment) -> Bool {
        if open.withLock({ $0.stores[home] != nil }) { return true }
        return folder.map { FileManager.default.fileExists(atPath: Self.path(of: home, in: $0)) } ?? false
    }

    /// Finishes what waits to be written and closes every file.
    package func close() {
        let stores = open.withLock { open in
            defer { open = Open() }
            return Array(open.stores.values)
        }
        stores.forEach { $0.close() }
    }

    /// Ends every token of the open stores.
    package func renewEpochs() throws {
        for store in open.withLock({ Array($0.stores.values) }) { try store.renewEpoch() }
    }

    /// Closes every file as the end of the process would.
    package func abandon() {
        let stores = open.withLock { open in
            defer { open = Open() }
            return Array(open.stores.values)
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
