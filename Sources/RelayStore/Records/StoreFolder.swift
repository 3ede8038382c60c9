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

    private let folder: String?
    private let draw: @Sendable () -> UInt64
    private let onCommit: CommitListener
    private let onCommitTime: @Sendable (Int, Duration) -> Void
    private let onLostWrite: @Sendable () -> Void
    private let open = Mutex<[ContainerEnvironment: SQLiteStore]>([:])

    /// - Parameters:
    ///   - folder: the data folder; `nil` keeps everything in memory.
    ///   - draw: gives random 64 bits.
    ///   - onCommit: hears of every commit.
    ///   - onCommitTime: hears how many writes shared a commit and how long it took.
    ///   - onLostWrite: hears once for each store whose disk failed to keep a commit.
    package init(
        folder: String?,
        draw: @escaping @Sendable () -> UInt64,
        onCommit: @escaping CommitListener = { _, _ in },
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        onLostWrite: @escaping @Sendable () -> Void = {}
    ) {
        self.folder = folder
        self.draw = draw
        self.onCommit = onCommit
        self.onCommitTime = onCommitTime
        self.onLostWrite = onLostWrite
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
        for store in open.withLock({ Array($0.values) }) {
            removed += try await store.removeUnusedAssets(before: limit)
        }
        return removed
    }

    /// The store as what it is, for those who look beneath.
    package func sqliteStore(of home: ContainerEnvironment) throws(RelayError) -> SQLiteStore {
        try open.withLock { (open) throws(RelayError) in
            if let store = open[home] { return store }
            do {
                let place = try place(of: home)
                let onCommit = onCommit
                let store = try SQLiteStore(
                    place,
                    draw: draw,
                    onCommit: { onCommit(home, $0) },
                    onCommitTime: onCommitTime,
                    onLostWrite: onLostWrite
                )
                open[home] = store
                return store
            } catch {
                throw StoreFailure.relayError(for: error)
            }
        }
    }

    /// Whether somebody has used the environment.
    func isThere(_ home: ContainerEnvironment) -> Bool {
        if open.withLock({ $0[home] != nil }) { return true }
        return folder.map { FileManager.default.fileExists(atPath: Self.path(of: home, in: $0)) } ?? false
    }

    /// Finishes what waits to be written and closes every file.
    package func close() {
        let stores = open.withLock { open in
            defer { open = [:] }
            return Array(open.values)
        }
        stores.forEach { $0.close() }
    }

    private func place(of home: ContainerEnvironment) throws -> SQLiteStore.Place {
        guard let folder else { return .memory }
        let path = Self.path(of: home, in: folder)
        try Self.makeFolder(ofFile: path)
        return .file(path: path)
    }

    /// Container names hold only letters, digits, dots, dashes and underscores, so they are safe as folder names.
    static func path(of home: ContainerEnvironment, in folder: String) -> String {
        "\(folder)/containers/\(home.container.name)/\(home.environment.rawValue).sqlite"
    }

    static func makeFolder(ofFile path: String) throws {
        try FileManager.default.createDirectory(
            atPath: (path as NSString).deletingLastPathComponent,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
    }
}
