import Foundation
import GRDB
package import Records
package import RelayCore
package import RelaySystem

extension Backup {
    /// How many change numbers a restore skips.
    ///
    /// The numbers that the lost store issued after the backup must not be issued again: a device with such a change
    /// tag would overwrite a change that it has not seen. No store makes this many changes, and eight million restores
    /// fit.
    private static let jump: Int64 = 1 << 40

    /// The folder in which a restore prepares the new content.
    private static let freshName = "restoring"
    /// The file in it that marks the new content as complete and on disk; contains the name of the folder for the old, and
    /// the paths that are replaced, one per line.
    private static let readyName = "ready"
    /// The contents of a data folder, SQLite's additional files before the main one.
    private static let names = [
        "containers", StoreMarker.folder, AlertOverrides.fileName, "relay.sqlite-wal", "relay.sqlite-shm",
        "relay.sqlite",
    ]

    /// The paths of one store in a data folder, in the same order.
    ///
    /// Without its mark, which stays: while the store is missing, no relay creates an empty one.
    private static func names(of path: String) -> [String] {
        [SQLiteStore.Place.assetFolder(ofFile: path), "\(path)-wal", "\(path)-shm", path]
    }

    /// The path of a store in a data folder and in a backup.
    private static func path(of home: ContainerEnvironment) -> String {
        String(StoreFolder.path(of: home, in: "").dropFirst())
    }

    /// Replaces the content of a data folder by the backup; no relay may run on it.
    ///
    /// Every store gets a new epoch, so that devices that know more than the backup must fetch again. The old content
    /// is moved, not deleted. If the restore is interrupted, the folder is as before, or `finishRestore` completes it.
    ///
    /// - Parameters:
    ///   - data: the data folder, created if it is missing.
    ///   - now: the time, which gives the folder for the old content its name.
    ///   - draw: returns 64 random bits.
    ///   - disk: the calls that write files.
    ///   - step: called with the path of each file before it is restored.
    /// - Returns: the folder with the old content; `nil` if there was none.
    /// - Throws: `BackupFailure`.
    package func restore(
        to data: String,
        now: Timestamp,
        draw: () -> UInt64,
        disk: DiskCalls = .system,
        step: (String) -> Void = { _ in }
    ) throws(BackupFailure) -> String? {
        // Both folders are created even if the backup has no store: old content is moved only if there is a replacement.
        try replace(Self.names, folders: ["containers", StoreMarker.folder], in: data, now, disk) { files, fresh in
            for file in manifest.files {
                step(file.path)
                try copyBack(file, to: fresh, files, draw)
            }
            for file in manifest.settings {
                step(file.path)
                try files.copy("\(path)/\(file.path)", to: "\(fresh)/\(file.path)")
            }
        }
    }

    /// Replaces single stores of a data folder by those of the backup; no process may have them open.
    ///
    /// Accounts, tokens and all other stores stay as they are. Otherwise like `restore`.
    package func restore(
        _ homes: [ContainerEnvironment],
        to data: String,
        now: Timestamp,
        draw: () -> UInt64,
        disk: DiskCalls = .system,
        step: (String) -> Void = { _ in }
    ) throws(BackupFailure) -> String? {
        let paths = homes.map(Self.path)
        let names = paths.flatMap(Self.names)
        let assets = paths.map(SQLiteStore.Place.assetFolder)
        return try replace(names, folders: assets, in: data, now, disk) { files, fresh in
            for file in manifest.files where paths.contains(file.path) {
                step(file.path)
                try copyBack(file, to: fresh, files, draw)
            }
        }
    }

    /// The environments of a container that the backup has; empty if the container was created again since.
    ///
    /// A container that was deleted and created again has other users, whose names the backup's records do not have.
    package func stores(of container: ContainerID, created: Timestamp) throws(BackupFailure) -> [ContainerEnvironment] {
        let homes = Environment.allCases.map { ContainerEnvironment(container, $0) }
        let kept = homes.filter { home in manifest.files.contains { $0.path == Self.path(of: home) } }
        guard !kept.isEmpty else { return [] }
        return try BackupFiles.wrapping(path) {
            var configuration = Configuration()
            configuration.readonly = true
            let queue = try DatabaseQueue(
                path: CheckedVFS.address(of: "\(path)/relay.sqlite"),
                configuration: configuration
            )
            defer { try? queue.close() }
            let sql = "SELECT created FROM containers WHERE name = ?"
            let then = try queue.read { try Int64.fetchOne($0, sql: sql, arguments: [container.name]) }
            return then == created.milliseconds ? kept : []
        }
    }

    /// Prepares new content for `names` in a data folder, and puts it in their place.
    private func replace(
        _ names: [String],
        folders: [String],
        in data: String,
        _ now: Timestamp,
        _ disk: DiskCalls,
        prepare: (BackupFiles, _ fresh: String) throws -> Void
    ) throws(BackupFailure) -> String? {
        let files = BackupFiles(disk: disk)
        return try BackupFiles.wrapping(data) {
            try files.makeFolder(data)
            _ = try Self.finishRestore(in: data, disk: disk)
            let fresh = "\(data)/\(Self.freshName)"
            do {
                for folder in folders { try files.makeFolder("\(fresh)/\(folder)") }
                try prepare(files, fresh)
                try files.flushFolders(fresh)
                try files.flush(data)
            } catch {
                try? FileManager.default.removeItem(atPath: fresh)
                throw error
            }
            // No backup may copy half of the old content and half of the new.
            let lock: AssetLock?
            do { lock = try AssetLock.replacing(of: data) } catch {
                try? FileManager.default.removeItem(atPath: fresh)
                throw BackupFailure.busy(data)
            }
            defer { lock?.release() }
            // From here on the restore can only be completed.
            let isFull = names.contains { FileManager.default.fileExists(atPath: "\(data)/\($0)") }
            let old = isFull ? "before-restore-\(now.milliseconds)" : ""
            let ready = ([old] + names).joined(separator: "\n")
            try files.write(Data(ready.utf8), to: "\(fresh)/\(Self.readyName).new")
            try files.rename("\(fresh)/\(Self.readyName).new", to: "\(fresh)/\(Self.readyName)")
            try files.flush(fresh)
            return try Self.finishRestore(in: data, disk: disk)
        }
    }

    /// Completes an interrupted restore, or undoes it if nothing has been replaced; does nothing if there was none.
    ///
    /// Must be called before the folder's files are opened.
    ///
    /// - Returns: the folder with the old content; `nil` if there was none.
    @discardableResult
    package static func finishRestore(in data: String, disk: DiskCalls = .system) throws(BackupFailure) -> String? {
        let files = BackupFiles(disk: disk)
        let fresh = "\(data)/\(freshName)"
        guard FileManager.default.fileExists(atPath: fresh) else { return nil }
        return try BackupFiles.wrapping(data) {
            guard let ready = FileManager.default.contents(atPath: "\(fresh)/\(readyName)") else {
                // Nothing has been moved yet.
                try FileManager.default.removeItem(atPath: fresh)
                return nil
            }
            let lines = String(decoding: ready, as: UTF8.self).components(separatedBy: "\n")
            let (old, names) = (lines[0], Array(lines.dropFirst()))
            if !old.isEmpty { try setAside(names, data, fresh, "\(data)/\(old)", files) }
            for name in names where FileManager.default.fileExists(atPath: "\(fresh)/\(name)") {
                try files.makeFolder(folder(of: "\(data)/\(name)"))
                try files.rename("\(fresh)/\(name)", to: "\(data)/\(name)")
            }
            try flushFolders(of: names, in: [data], files)
            try FileManager.default.removeItem(atPath: fresh)
            return old.isEmpty ? nil : "\(data)/\(old)"
        }
    }

    /// Moves the old content into a folder of its own; new content that is in place already and the backups stay.
    private static func setAside(
        _ names: [String],
        _ data: String,
        _ fresh: String,
        _ old: String,
        _ files: BackupFiles
    ) throws {
        try files.makeFolder(old)
        for name in names {
            // The files beside a database belong to the old one until the new one is in place.
            let isBeside = name.hasSuffix("-wal") || name.hasSuffix("-shm")
            let owner = isBeside ? String(name.dropLast(4)) : name
            guard FileManager.default.fileExists(atPath: "\(fresh)/\(owner)"),
                FileManager.default.fileExists(atPath: "\(data)/\(name)")
            else { continue }
            try files.makeFolder(folder(of: "\(old)/\(name)"))
            try files.rename("\(data)/\(name)", to: "\(old)/\(name)")
        }
        // The old content is safe under its other name before new content takes its name.
        try flushFolders(of: names, in: [old, data], files)
    }

    private static func folder(of path: String) -> String { (path as NSString).deletingLastPathComponent }

    /// Flushes the folders that contain `names` in each of these folders.
    private static func flushFolders(of names: [String], in roots: [String], _ files: BackupFiles) throws {
        for root in roots {
            let folders = Set(names.map { folder(of: "\(root)/\($0)") } + [root])
            for folder in folders.sorted() where files.exists(folder) { try files.flush(folder) }
        }
    }

    private func copyBack(
        _ file: Manifest.File,
        to fresh: String,
        _ files: BackupFiles,
        _ draw: () -> UInt64
    ) throws {
        let target = "\(fresh)/\(file.path)"
        try files.makeFolder((target as NSString).deletingLastPathComponent)
        try files.copy("\(path)/\(file.path)", to: target)
        let isStore = file.path != "relay.sqlite"
        if isStore { StoreMarker.make(for: target) }
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: target))
        // The backup may be of an earlier version.
        try BackupFiles.wrapping("\(path)/\(file.path)") {
            try queue.inDatabase { try FileLayout.of(file.path).migrate($0) }
        }
        if isStore { try Self.renewEpoch(of: queue, draw) }
        try queue.close()
        try files.flush(target)
        if isStore { try copyAssets(of: file, to: fresh, files) }
    }

    private static func renewEpoch(of store: DatabaseQueue, _ draw: () -> UInt64) throws {
        try store.write { database in
            if renewsEpochs { try Epochs.replace(by: draw(), in: database) }
            // The public zone has no log; its change number only records the last number used.
            try database.execute(
                sql: "UPDATE zone_stamp SET last_change = (SELECT max(last_change) FROM zone_stamp) + ? WHERE zone = 1",
                arguments: [jump]
            )
        }
    }

    private func copyAssets(of file: Manifest.File, to fresh: String, _ files: BackupFiles) throws {
        let assets = SQLiteStore.Place.assetFolder(ofFile: file.path)
        for asset in try StoreContents(ofFile: "\(fresh)/\(file.path)").assets {
            let place = "\(assets)/\(asset.prefix(2))/\(asset)"
            guard files.exists("\(path)/\(place)") else { continue }
            // A copy, not a link: damage to the live file must not damage the backup.
            try files.makeFolder(("\(fresh)/\(place)" as NSString).deletingLastPathComponent)
            try files.copy("\(path)/\(place)", to: "\(fresh)/\(place)")
        }
    }
}
