import Foundation
package import Records
package import RelayCore
package import RelaySystem

// Stored in `backups/schedule.json` in the data folder.
extension BackupSchedule {
    /// Returns the default folder for backups of a data folder.
    package static func standardFolder(of data: String) -> String { "\(data)/backups" }

    private static func path(_ data: String) -> String { "\(standardFolder(of: data))/schedule.json" }

    /// Reads the schedule of a data folder; `nil` if there is none, or it cannot be read.
    package init?(of data: String) {
        guard let schedule = try? Self.read(from: data) else { return nil }
        self = schedule
    }

    /// Reads the schedule of a data folder; `nil` if there is none.
    ///
    /// - Throws: `BackupFailure.unreadable` if the file is not a schedule.
    package static func read(from data: String) throws(BackupFailure) -> BackupSchedule? {
        let path = path(data)
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        guard let text = FileManager.default.contents(atPath: path) else {
            throw .unreadable(path, "it cannot be read, so no automatic backup is created.")
        }
        guard let schedule = try? JSONDecoder().decode(Self.self, from: text) else {
            throw .unreadable(
                path,
                "it is not a schedule, so no automatic backup is created. Set it again: zonecast backup schedule daily"
            )
        }
        return schedule
    }

    package func save(to data: String, disk: DiskCalls = .system) throws(BackupFailure) {
        try BackupFiles.wrapping(Self.path(data)) {
            let files = BackupFiles(disk: disk)
            try files.makeFolder(Self.standardFolder(of: data))
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
            try files.write(encoder.encode(self), to: Self.path(data) + ".new")
            try files.rename(Self.path(data) + ".new", to: Self.path(data))
            try files.flush(Self.standardFolder(of: data))
        }
    }

    /// Returns when the schedule of a data folder was last changed, in milliseconds since 1970.
    package static func changed(in data: String) -> Int64? {
        let facts = try? FileManager.default.attributesOfItem(atPath: path(data))
        return (facts?[.modificationDate] as? Date).map { Int64($0.timeIntervalSince1970 * 1000) }
    }

    /// Creates the folder for the backups if it is missing, and throws if nothing can be written there.
    package func tryFolder(disk: DiskCalls = .system) throws(BackupFailure) {
        try BackupFiles.wrapping(folder) {
            let files = BackupFiles(disk: disk)
            try files.makeFolder(folder)
            let trial = "\(folder)/trial-\(getpid()).tmp"
            defer { unlink(trial) }
            try files.write(Data("trial".utf8), to: trial)
        }
    }

    package static func remove(from data: String) { unlink(path(data)) }

    /// Makes a backup if one is due, and removes the oldest: beforehand if there is no room for one more.
    ///
    /// Returns `nil` if none is due. Throws as `Backup.create` does.
    package func makeDue(
        of data: String,
        at now: Timestamp,
        freeBytes: (_ folder: String) -> UInt64? = { FreeSpace.bytes(in: $0) }
    ) throws(BackupFailure) -> Backup? {
        guard isDue(at: now) else { return nil }
        let backup: Backup
        do {
            backup = try Backup.create(of: data, in: folder, now: now, freeBytes: freeBytes)
        } catch .noRoom where keep > 1 && Backup.keep(keep - 1, in: folder, at: now) > 0 {
            backup = try Backup.create(of: data, in: folder, now: now, freeBytes: freeBytes)
        }
        Backup.keep(keep, in: folder, at: now)
        return backup
    }

    /// Returns whether a backup is due, according to the newest one.
    package func isDue(at now: Timestamp) -> Bool {
        guard let latest = Backup.all(in: folder, at: now).last else { return true }
        let age = now.milliseconds - latest.manifest.made
        return age < 0 || age >= interval.milliseconds
    }
}
