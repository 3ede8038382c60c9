import Foundation
import GRDB
package import Records
package import RelayCore
package import RelaySystem

extension Backup {
    /// Creates a backup of a data folder in another one, which may be inside it; a relay may run and write meanwhile.
    ///
    /// Each SQLite file is copied as of one commit. Assets are copied after the records that use them, and none is
    /// removed meanwhile, so none is missed. The manifest counts the assets of which there was no intact copy. What
    /// exists under the backup's name when this returns is complete and on disk.
    ///
    /// - Parameters:
    ///   - data: the data folder.
    ///   - folder: the folder for backups, created if it is missing.
    ///   - now: the time, which gives the backup its name.
    ///   - disk: the calls that write files.
    ///   - freeBytes: returns the free bytes on a folder's disk; `nil` if unknown.
    ///   - step: called with the path of each file before it is copied.
    /// - Returns: the finished backup.
    /// - Throws: `BackupFailure`: `busy` if another backup is being made there, `noRoom` if it would fill the disk.
    ///   Nothing is left in `folder` then.
    package static func create(
        of data: String,
        in folder: String,
        now: Timestamp,
        disk: DiskCalls = .system,
        freeBytes: (_ folder: String) -> UInt64? = { FreeSpace.bytes(in: $0) },
        step: (String) -> Void = { _ in }
    ) throws(BackupFailure) -> Backup {
        let files = BackupFiles(disk: disk)
        guard FileManager.default.fileExists(atPath: "\(data)/relay.sqlite") else { throw .noData(in: data) }
        guard !FolderLayout.isForeign(data) else { throw .foreign("\(data)/relay.sqlite") }
        try requireWritable(folder)
        return try BackupFiles.wrapping(folder) {
            try files.makeFolder(folder)
            let lock = try BackupLock(on: folder)
            defer { lock.release() }
            if lock.isHeld { removeBrokenOff(in: folder) }
            let earlier = Array(all(in: folder, at: now).reversed())
            let hold = AssetLock.copying(of: data)
            defer { hold?.release() }
            let final = freePath(in: folder, at: now)
            let partial = final + ".partial"
            let assets = BackupAssets(files: files, data: data, target: partial, earlier: earlier)
            try requireSpace(for: assets, in: folder, freeBytes)
            defer { try? FileManager.default.removeItem(atPath: partial) }
            var manifest = Manifest(made: now.milliseconds)
            for path in try BackupFiles.databases(in: data) {
                step(path)
                try copy(path, assets, &manifest)
            }
            manifest.settings = try BackupFiles.settings(in: data).map { path in
                step(path)
                // A changed file replaces the old one by a rename, so the copy is always complete.
                try files.copy("\(data)/\(path)", to: "\(partial)/\(path)")
                return try file(path, copied: "\(partial)/\(path)")
            }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
            try files.write(encoder.encode(manifest), to: "\(partial)/\(manifestName)")
            try files.flushFolders(partial)
            try files.rename(partial, to: final)
            try files.flush(folder)
            return try Backup(at: final)
        }
    }

    /// Throws if the disk is read-only: the backup of a failing disk must go to another one.
    private static func requireWritable(_ folder: String) throws(BackupFailure) {
        let isThere = FileManager.default.fileExists(atPath: folder)
        guard FreeSpace.isReadOnly(isThere ? folder : (folder as NSString).deletingLastPathComponent) else { return }
        throw .unreadable(folder, "its disk is mounted read-only. Name a folder on another disk with --backups.")
    }

    /// Throws if the backup would fill the disk, which would interrupt it and the writes of a running relay.
    ///
    /// As much again as it takes must stay free, at most 0.5 GB.
    private static func requireSpace(
        for assets: BackupAssets,
        in folder: String,
        _ freeBytes: (_ folder: String) -> UInt64?
    ) throws {
        guard let free = freeBytes(folder) else { return }
        let bytes = try BackupFiles.databases(in: assets.data).reduce(into: Int64(0)) { sum, path in
            for part in ["", "-wal"] { sum += (try? BackupFiles.size(of: "\(assets.data)/\(path)\(part)")) ?? 0 }
            guard path != "relay.sqlite" else { return }
            sum += assets.newBytes(in: SQLiteStore.Place.assetFolder(ofFile: path))
        }
        let needed = bytes + min(bytes, 500_000_000)
        if free < UInt64(needed) { throw BackupFailure.noRoom(folder, needed: needed) }
    }

    /// Removes interrupted backups; the caller has the lock, so that no backup is being made.
    private static func removeBrokenOff(in folder: String) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        for name in names where name.hasSuffix(suffix + ".partial") {
            try? FileManager.default.removeItem(atPath: "\(folder)/\(name)")
        }
    }

    /// Returns `2026-05-01T100000Z.zonecastbak`, with a number if there is a backup of that second.
    private static func freePath(in folder: String, at now: Timestamp) -> String {
        let base = "\(folder)/\(name(of: now))"
        var path = base + suffix
        var number = 1
        while FileManager.default.fileExists(atPath: path) {
            number += 1
            path = "\(base)-\(number)\(suffix)"
        }
        return path
    }

    /// `2026-05-01T100000Z`.
    static func name(of timestamp: Timestamp) -> String {
        let date = Date(timeIntervalSince1970: Double(timestamp.milliseconds) / 1000)
        return date.formatted(.iso8601).replacing(":", with: "")
    }

    private static func file(_ path: String, copied: String) throws -> Manifest.File {
        let (checksum, bytes) = try BackupFiles.checksum(of: copied)
        return Manifest.File(path: path, bytes: bytes, checksum: checksum)
    }

    private static func copy(_ path: String, _ assets: BackupAssets, _ manifest: inout Manifest) throws {
        let copied = "\(assets.target)/\(path)"
        try assets.files.makeFolder((copied as NSString).deletingLastPathComponent)
        try copyFile("\(assets.data)/\(path)", to: copied, assets.files)

        var file = try file(path, copied: copied)
        if path != "relay.sqlite" {
            let contents = try StoreContents(ofFile: copied)
            file.zones = contents.zones
            file.records = contents.records
            try keep(contents.assets, assets, of: &file, &manifest)
        }
        manifest.files.append(file)
    }

    private static func keep(
        _ used: [String],
        _ assets: BackupAssets,
        of file: inout Manifest.File,
        _ manifest: inout Manifest
    ) throws {
        let folder = SQLiteStore.Place.assetFolder(ofFile: file.path)
        var bytes: Int64 = 0
        for asset in used {
            let place = "\(folder)/\(asset.prefix(2))/\(asset)"
            switch try assets.keep(asset, at: place) {
            case .missing: manifest.missingAssets += 1
            case .damaged: manifest.damagedAssets = (manifest.damagedAssets ?? 0) + 1
            case .rescued:
                manifest.rescuedAssets = (manifest.rescuedAssets ?? 0) + 1
                fallthrough
            case .kept:
                file.assets += 1
                bytes += try BackupFiles.size(of: "\(assets.target)/\(place)")
            }
        }
        file.assetBytes = bytes
    }

    /// Copies a SQLite file as of one commit, while others may write to it; the copy is on disk, and the owner's alone.
    static func copyFile(_ path: String, to target: String, _ files: BackupFiles) throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(30)
        configuration.prepareDatabase { CheckedVFS.reserveChecksumSpace($0) }
        do {
            let source = try opened(path, configuration)
            try source.inDatabase { try $0.execute(sql: "VACUUM INTO ?", arguments: [target]) }
            try source.close()
        } catch  where StoreFailure.isDamage(error) {
            throw BackupFailure.damaged(path, DamageLog.places(of: path))
        }
        chmod(target, 0o600)
        try files.flush(target)
    }

    /// Opens the source and reads from it, so that its errors are not reported for the copy.
    private static func opened(_ path: String, _ configuration: Configuration) throws -> DatabaseQueue {
        do {
            let source = try DatabaseQueue.ofStore(path, configuration)
            do {
                try source.read { try FolderLayout.requireOwnFile($0, path) }
            } catch let error as LayoutError where error.isNewer {
                // Another version can use the copy as it can use its source.
            }
            return source
        } catch  where !StoreFailure.isDamage(error) {
            throw BackupFailure.unreadable(path, FolderAccess.words(for: error))
        }
    }
}

/// A lock held while a backup is made in a folder; the system releases it with the process.
private struct BackupLock {
    private let descriptor: Int32
    /// `false` if the file system has no locks: another backup may be running.
    let isHeld: Bool

    init(on folder: String) throws {
        descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw BackupFiles.failure(folder) }
        isHeld = flock(descriptor, LOCK_EX | LOCK_NB) == 0
        guard !isHeld, errno == EWOULDBLOCK else { return }
        close(descriptor)
        throw BackupFailure.busy(folder)
    }

    func release() {
        // A process that is being started has a copy of the descriptor until it runs another program: closing ours
        // would not release the lock at once.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}

/// The content of a copied store.
struct StoreContents {
    var zones = 0
    var records = 0
    /// The hashes of the assets that its records use, in hex.
    var assets: [String] = []

    init(ofFile path: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
        defer { try? queue.close() }
        try queue.inDatabase { database in
            zones = try Int.fetchOne(database, sql: "SELECT count(*) FROM zone WHERE deleted = 0") ?? 0
            records = try Int.fetchOne(database, sql: "SELECT count(*) FROM record WHERE deleted = 0") ?? 0
            assets = try String.fetchAll(database, sql: "SELECT DISTINCT lower(hex(hash)) FROM asset_use ORDER BY 1")
        }
    }
}
