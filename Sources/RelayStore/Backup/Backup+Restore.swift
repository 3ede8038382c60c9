import Foundation
import GRDB
package import Records

extension Backup {
    /// Change numbers go on this much later after a restore.
    ///
    /// What the lost store gave since the backup was taken must not be given again: a device that holds such a tag would
    /// overwrite what it never saw. Nobody makes as many changes in a lifetime, and eight million restores fit.
    private static let jump: Int64 = 1 << 40

    /// Puts the backup in place of what a data folder holds; no relay may run on it.
    ///
    /// Every store gets a new epoch, so that devices which know more than the backup are told to fetch anew. What was there
    /// before is moved, not removed.
    ///
    /// - Parameters:
    ///   - data: the data folder, made where it is missing.
    ///   - now: names the folder for what was there before.
    ///   - draw: gives random 64 bits.
    ///   - step: hears the path of each file before it is put back.
    /// - Returns: where that is; `nil` when there was nothing.
    /// - Throws: `BackupFailure`; unless the disk failed between two renames, the folder is then as it was.
    package func restore(
        to data: String,
        now: Timestamp,
        draw: () -> UInt64,
        step: (String) -> Void = { _ in }
    ) throws(BackupFailure) -> String? {
        try BackupFiles.wrapping(data) {
            try BackupFiles.makeFolder(data)
            let fresh = "\(data)/restoring"
            try? FileManager.default.removeItem(atPath: fresh)
            try BackupFiles.makeFolder(fresh)
            defer { try? FileManager.default.removeItem(atPath: fresh) }
            for file in manifest.files {
                step(file.path)
                try copyBack(file, to: fresh, draw)
            }
            try BackupFiles.flushFolders(fresh)
            let old = try setAside(data, now)
            for name in ["containers", "relay.sqlite"] where FileManager.default.fileExists(atPath: "\(fresh)/\(name)")
            {
                guard rename("\(fresh)/\(name)", "\(data)/\(name)") == 0 else { throw BackupFiles.failure(data) }
            }
            try BackupFiles.flush(data)
            return old
        }
    }

    private func copyBack(_ file: Manifest.File, to fresh: String, _ draw: () -> UInt64) throws {
        let target = "\(fresh)/\(file.path)"
        try BackupFiles.makeFolder((target as NSString).deletingLastPathComponent)
        try FileManager.default.copyItem(atPath: "\(path)/\(file.path)", toPath: target)
        chmod(target, 0o600)
        guard file.path != "relay.sqlite" else { return try BackupFiles.flush(target) }
        let queue = try DatabaseQueue(path: target)
        try queue.write { database in
            try database.execute(
                sql: "UPDATE fact SET value = ? WHERE name = 'epoch'",
                arguments: [Int64(bitPattern: draw())]
            )
            // The public zone keeps no log; its number only holds the place of the last one given.
            try database.execute(
                sql: "UPDATE zone SET last_change = (SELECT max(last_change) FROM zone) + ? WHERE id = 1",
                arguments: [Self.jump]
            )
        }
        try queue.close()
        try BackupFiles.flush(target)
        let assets = SQLiteStore.Place.assetFolder(ofFile: file.path)
        for asset in try StoreContents(ofFile: target).assets {
            let place = "\(assets)/\(asset.prefix(2))/\(asset)"
            guard FileManager.default.fileExists(atPath: "\(path)/\(place)") else { continue }
            try BackupFiles.copyAsset("\(path)/\(place)", to: "\(fresh)/\(place)")
        }
    }

    /// Moves what the folder holds into one of its own; the backups in it stay.
    private func setAside(_ data: String, _ now: Timestamp) throws -> String? {
        let names = ["containers", "relay.sqlite", "relay.sqlite-wal", "relay.sqlite-shm"]
            .filter { FileManager.default.fileExists(atPath: "\(data)/\($0)") }
        guard !names.isEmpty else { return nil }
        let old = "\(data)/before-restore-\(now.milliseconds)"
        try BackupFiles.makeFolder(old)
        for name in names {
            guard rename("\(data)/\(name)", "\(old)/\(name)") == 0 else { throw BackupFiles.failure(data) }
        }
        return old
    }
}
