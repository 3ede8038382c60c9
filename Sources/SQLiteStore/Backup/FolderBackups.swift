import Records
import RelayCore
import RelaySystem

/// The backups of a data folder.
struct FolderBackups: Backups {
    let data: String
    let disk: DiskCalls

    var standardFolder: String { BackupSchedule.standardFolder(of: data) }

    func schedule() throws(BackupFailure) -> BackupSchedule? { try BackupSchedule.read(from: data) }

    func setSchedule(_ schedule: BackupSchedule?) throws(BackupFailure) {
        guard let schedule else { return BackupSchedule.remove(from: data) }
        try schedule.save(to: data)
    }

    var scheduleChanged: Int64? { BackupSchedule.changed(in: data) }

    func tryFolder(of schedule: BackupSchedule) throws(BackupFailure) { try schedule.tryFolder(disk: disk) }

    func makeDue(_ schedule: BackupSchedule, at now: Timestamp) throws(BackupFailure) -> Backup? {
        try schedule.makeDue(of: data, at: now)
    }

    func create(in folder: String, now: Timestamp, step: (String) -> Void) throws(BackupFailure) -> Backup {
        try Backup.create(of: data, in: folder, now: now, disk: disk, step: step)
    }

    func all(in folder: String) -> [Backup] { Backup.all(in: folder) }

    func all(in folder: String, at now: Timestamp) -> [Backup] { Backup.all(in: folder, at: now) }

    func unusable(in folder: String) -> [Backup.Unusable] { Backup.unusable(in: folder) }

    func newestUnusable(in folder: String, at now: Timestamp) -> Backup.Unusable? {
        Backup.newestUnusable(in: folder, at: now)
    }

    func named(_ name: String, in folder: String, at now: Timestamp) throws(BackupFailure) -> Backup {
        try Backup.named(name, in: folder, at: now)
    }

    func verify(_ backup: Backup, now: Timestamp?, step: (String) -> Void) -> [String] {
        if let now { backup.verify(now: now, step: step) } else { backup.verify(step: step) }
    }

    func verdict(on backup: Backup) -> BackupVerdict? { backup.verdict }

    func lackedAssets(of backup: Backup) -> [String] { backup.lackedAssets() }

    func copies(ofAsset hash: String, in home: ContainerEnvironment, among folder: String) -> [String] {
        Backup.copies(of: hash, in: home, among: folder)
    }

    func stream(_ backup: Backup) throws(BackupFailure) -> any BackupStream { try BackupArchive(backup) }

    func stores(in backup: Backup, of container: ContainerID, created: Timestamp) throws(BackupFailure)
        -> [ContainerEnvironment]
    {
        try backup.stores(of: container, created: created)
    }

    func restore(
        _ backup: Backup,
        _ homes: [ContainerEnvironment]?,
        now: Timestamp,
        draw: () -> UInt64,
        step: (String) -> Void
    ) throws(BackupFailure) -> String? {
        if let homes { return try backup.restore(homes, to: data, now: now, draw: draw, disk: disk, step: step) }
        return try backup.restore(to: data, now: now, draw: draw, disk: disk, step: step)
    }

    func finishRestore() throws(BackupFailure) { try Backup.finishRestore(in: data) }
}
