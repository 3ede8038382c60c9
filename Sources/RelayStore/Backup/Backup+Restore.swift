import Foundation
import GRDB
package import Records
import RelayCore

extension Backup {
    /// Change numbers go on this much later after a restore.
    ///
    /// What the lost store gave since the backup was taken must not be given again: a device that holds such a tag would
    /// overwrite what it never saw. Nobody makes as many changes in a lifetime, and eight million restores fit.
    private static let jump: Int64 = 1 << 40

    /// Where a restore gathers what is to take the place of the old.
    private static let freshName = "restoring"
    /// In it, once all is gathered and on the disk: the name of the folder for what was there before.
    private static let readyName = "ready"
    /// What a data folder holds, the files of SQLite's beside the main one first.
    private static let names = [
        "containers", StoreMark.folder, AlertBook.fileName, "relay.sqlite-wal", "relay.sqlite-shm", "relay.sqlite",
    ]

    /// Puts the backup in place of what a data folder holds; no relay may run on it.
    ///
    /// Every store gets a new epoch, so that devices which know more than the backup are told to fetch anew. What was there
    /// before is moved, not removed. However it is broken off, the folder is then as it was, or `finishRestore` brings it
    /// to its end.
    ///
    /// - Parameters:
    ///   - data: the data folder, made where it is missing.
    ///   - now: names the folder for what was there before.
    ///   - draw: gives random 64 bits.
    ///   - disk: what it is written by.
    ///   - step: hears the path of each file before it is put back.
    /// - Returns: where that is; `nil` when there was nothing.
    /// - Throws: `BackupFailure`.
    package func restore(
        to data: String,
        now: Timestamp,
        draw: () -> UInt64,
        disk: DiskCalls = .system,
        step: (String) -> Void = { _ in }
    ) throws(BackupFailure) -> String? {
        let files = BackupFiles(disk: disk)
        return try BackupFiles.wrapping(data) {
            try files.makeFolder(data)
            _ = try Self.finishRestore(in: data, disk: disk)
            let fresh = "\(data)/\(Self.freshName)"
            do {
                // Both are there also where the backup has no store: what the folder holds is moved for what takes its place.
                for name in ["containers", StoreMark.folder] { try files.makeFolder("\(fresh)/\(name)") }
                for file in manifest.files {
                    step(file.path)
                    try copyBack(file, to: fresh, files, draw)
                }
                for file in manifest.settings ?? [] {
                    step(file.path)
                    try files.copy("\(path)/\(file.path)", to: "\(fresh)/\(file.path)")
                }
                try files.flushFolders(fresh)
                try files.flush(data)
            } catch {
                try? FileManager.default.removeItem(atPath: fresh)
                throw error
            }
            // From here on it goes forwards only.
            let isFull = Self.names.contains { FileManager.default.fileExists(atPath: "\(data)/\($0)") }
            let old = isFull ? "before-restore-\(now.milliseconds)" : ""
            try files.write(Data(old.utf8), to: "\(fresh)/\(Self.readyName).new")
            try files.rename("\(fresh)/\(Self.readyName).new", to: "\(fresh)/\(Self.readyName)")
            try files.flush(fresh)
            return try Self.finishRestore(in: data, disk: disk)
        }
    }

    /// Brings a restore to its end that was broken off, or takes back what it had begun; nothing happens where there was none.
    ///
    /// To be called before anybody opens the folder's files.
    ///
    /// - Returns: where is what was there before; `nil` when there was nothing.
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
            let old = String(decoding: ready, as: UTF8.self)
            if !old.isEmpty { try setAside(data, fresh, "\(data)/\(old)", files) }
            for name in names where FileManager.default.fileExists(atPath: "\(fresh)/\(name)") {
                try files.rename("\(fresh)/\(name)", to: "\(data)/\(name)")
            }
            try files.flush(data)
            try FileManager.default.removeItem(atPath: fresh)
            return old.isEmpty ? nil : "\(data)/\(old)"
        }
    }

    /// Moves what the folder holds into one of its own; what has taken its place already, and the backups, stay.
    private static func setAside(_ data: String, _ fresh: String, _ old: String, _ files: BackupFiles) throws {
        try files.makeFolder(old)
        for name in names {
            // The files beside `relay.sqlite` are the old one's until the new one is there.
            let owner = name.hasPrefix("relay.sqlite") ? "relay.sqlite" : name
            guard FileManager.default.fileExists(atPath: "\(fresh)/\(owner)"),
                FileManager.default.fileExists(atPath: "\(data)/\(name)")
            else { continue }
            try files.rename("\(data)/\(name)", to: "\(old)/\(name)")
        }
        // Nothing new takes a name before the old is safe under its other one.
        try files.flush(old)
        try files.flush(data)
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
        guard file.path != "relay.sqlite" else { return }
        StoreMark.make(for: target)
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: target))
        // A backup of an earlier version too.
        try StoreLayout.migrate(queue)
        try queue.write { database in
            if Self.renewsEpochs { try Epochs.replace(by: draw(), in: database) }
            // The public zone keeps no log; its number only holds the place of the last one given.
            try database.execute(
                sql: "UPDATE zone_stamp SET last_change = (SELECT max(last_change) FROM zone_stamp) + ? WHERE zone = 1",
                arguments: [Self.jump]
            )
        }
        try queue.close()
        try files.flush(target)
        let assets = SQLiteStore.Place.assetFolder(ofFile: file.path)
        for asset in try StoreContents(ofFile: target).assets {
            let place = "\(assets)/\(asset.prefix(2))/\(asset)"
            guard files.exists("\(path)/\(place)") else { continue }
            // No link: what damages the live file would damage the backup.
            try files.makeFolder(("\(fresh)/\(place)" as NSString).deletingLastPathComponent)
            try files.copy("\(path)/\(place)", to: "\(fresh)/\(place)")
        }
    }
}
