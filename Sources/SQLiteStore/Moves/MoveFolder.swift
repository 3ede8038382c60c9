import Foundation
import GRDB
package import Records
package import RelayCore
package import RelaySystem
package import StoreKit

/// A data folder as the source of an import into a database, or as the target of an export.
package final class MoveFolder {
    private let folder: String
    private let disk: DiskCalls
    private var accounts: DatabaseQueue?

    package init(_ folder: String, disk: DiskCalls = .system) {
        self.folder = folder
        self.disk = disk
    }

    // MARK: The mark

    private static func markPath(_ folder: String) -> String { "\(folder)/moved" }

    /// The sentence that says why no relay may serve the folder; `nil` if one may.
    package static func mark(of folder: String) -> String? {
        let text = FileManager.default.contents(atPath: markPath(folder)).map { String(decoding: $0, as: UTF8.self) }
        return text?.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Writes the sentence; returns when it is on disk.
    package func mark(_ sentence: String) throws {
        try BackupFiles(disk: disk).write(Data("\(sentence)\n".utf8), to: Self.markPath(folder))
        try disk.flush(folder)
    }

    package func removeMark() throws {
        unlink(Self.markPath(folder))
        try disk.flush(folder)
    }

    // MARK: Content

    /// The containers and environments that have a file.
    package func homes() throws -> [ContainerEnvironment] {
        try FolderLayout.storePaths(in: folder).compactMap { path in
            let parts = path.split(separator: "/").map(String.init)
            guard parts.count == 3, parts[2].hasSuffix(".sqlite"), let container = ContainerID(parts[1]),
                let environment = Environment(rawValue: String(parts[2].dropLast(".sqlite".count)))
            else { return nil }
            return ContainerEnvironment(container, environment)
        }
    }

    package func relaySource() throws -> any MoveSource { try SQLiteMoveSource(accountsIn: folder) }
    package func source(of home: ContainerEnvironment) throws -> any MoveSource {
        try SQLiteMoveSource(home, in: folder)
    }

    package func relaySink() throws -> any MoveSink {
        try disk.makeFolders(folder, within: (folder as NSString).deletingLastPathComponent)
        chmod(folder, 0o700)
        return try SQLiteMoveSink(accountsIn: folder)
    }

    package func sink(of home: ContainerEnvironment) throws -> any MoveSink { try SQLiteMoveSink(home, in: folder) }

    /// Keeps everybody from changing accounts until this object goes.
    package func lockAccounts() throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(30)
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue.ofStore("\(folder)/relay.sqlite", configuration)
        try queue.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
        accounts = queue
    }

    package func unlockAccounts() {
        try? accounts?.inDatabase { try $0.execute(sql: "ROLLBACK") }
        accounts = nil
    }

    deinit { unlockAccounts() }

    // MARK: Assets

    /// Copies the assets of the folder into another store, except those of which `known` has the hash and size.
    package func copyAssets(
        of home: ContainerEnvironment,
        to target: any AssetStore,
        except known: [AssetHash: Int64]
    ) throws -> MovedAssets {
        var copied = MovedAssets()
        guard let files = try StoreFiles(of: home, in: folder) else { return copied }
        for asset in files.assets {
            guard let hash = Self.hash(asset.hash), known[hash] != asset.bytes else { continue }
            let path = StoreFiles.path(of: asset.hash, in: home, folder: folder)
            // The relay may have removed one that no record uses.
            guard let size = try Self.copy(path, hash, to: target) else { continue }
            copied.count += 1
            copied.bytes += size
        }
        return copied
    }

    /// Copies assets of another store into the folder, those that it does not have.
    package func takeAssets(
        _ assets: [AssetHash: Int64],
        of home: ContainerEnvironment,
        from source: any AssetStore,
        draw: @escaping @Sendable () -> UInt64
    ) throws -> MovedAssets {
        let place = SQLiteStore.Place.assetFolder(ofFile: StoreFolder.path(of: home, in: folder))
        let target = AssetFolder(folder: place, disk: disk, draw: draw)
        var copied = MovedAssets()
        for (hash, size) in assets where target.file(of: hash)?.size != size {
            guard let file = try source.file(of: hash) else { continue }
            guard let size = try Self.copy(file.path, hash, to: target) else { continue }
            copied.count += 1
            copied.bytes += size
        }
        return copied
    }

    /// Returns the hash that a file has as its name.
    private static func hash(_ name: String) -> AssetHash? {
        let digits = Array(name.utf8)
        let pairs = stride(from: 0, to: digits.count - 1, by: 2)
        return AssetHash(pairs.compactMap { UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16) })
    }

    private static func copy(_ path: String, _ hash: AssetHash, to target: any AssetStore) throws -> Int64? {
        guard let file = FileHandle(forReadingAtPath: path) else { return nil }
        defer { try? file.close() }
        let upload = try target.begin()
        while let piece = try file.read(upToCount: 1 << 20), !piece.isEmpty { try upload.take(Array(piece)) }
        let (found, size) = try upload.finish()
        guard found == hash else {
            throw MoveFailure(
                .inconsistent,
                "\(path) is damaged: its content does not match its name. To find intact copies of it: zonecast asset verify"
            )
        }
        return size
    }
}
