package import Records

/// The backups of a relay's data.
///
/// A store whose database makes backups of its own has none here: it returns none, and whatever would make, change or
/// restore one throws `BackupFailure.elsewhere`, whose text says what to do instead. Calls block their thread, some for
/// as long as it takes to read everything.
package protocol Backups: Sendable {
    /// Whether the store's database makes the backups, so that there are none here.
    var areElsewhere: Bool { get }

    /// The folder for backups if none is named.
    var standardFolder: String { get }

    // MARK: Schedule

    /// Returns when a running relay makes backups; `nil` if there is no schedule.
    ///
    /// - Throws: `BackupFailure.unreadable` if it is damaged.
    func schedule() throws(BackupFailure) -> BackupSchedule?

    /// Sets the schedule, or removes it; a running relay follows within a minute.
    func setSchedule(_ schedule: BackupSchedule?) throws(BackupFailure)

    /// When the schedule was last changed, in milliseconds since 1970.
    var scheduleChanged: Int64? { get }

    /// Creates the schedule's folder if it is missing, and throws if nothing can be written there.
    func tryFolder(of schedule: BackupSchedule) throws(BackupFailure)

    /// Makes a backup if one is due, and removes the oldest; `nil` if none is due.
    func makeDue(_ schedule: BackupSchedule, at now: Timestamp) throws(BackupFailure) -> Backup?

    // MARK: Backups

    /// Creates a backup in a folder; a relay may run and write meanwhile.
    ///
    /// `step` is called before each file is copied.
    func create(in folder: String, now: Timestamp, step: (String) -> Void) throws(BackupFailure) -> Backup

    /// Returns the complete backups in a folder, oldest first.
    func all(in folder: String) -> [Backup]

    /// Returns the same, but first those that are newer than `now`: their clock was ahead, so they are older than they
    /// say.
    func all(in folder: String, at now: Timestamp) -> [Backup]

    /// Returns the unusable backups of a folder, by name.
    func unusable(in folder: String) -> [Backup.Unusable]

    /// Returns the unusable backup that is newer than all others of a folder, by the time in its name.
    func newestUnusable(in folder: String, at now: Timestamp) -> Backup.Unusable?

    /// Returns the backup with this name in a folder, with or without its suffix; `latest` is the newest.
    func named(_ name: String, in folder: String, at now: Timestamp) throws(BackupFailure) -> Backup

    /// Reads the whole backup, compares it with its manifest, and returns a sentence for each fault.
    ///
    /// With `now`, stores the result as the backup's verdict if its folder is writable.
    func verify(_ backup: Backup, now: Timestamp?, step: (String) -> Void) -> [String]

    /// The result of a backup's last verification; `nil` if it was not verified.
    func verdict(on backup: Backup) -> BackupVerdict?

    /// Returns the used assets that were missing or damaged when the backup was made.
    func lackedAssets(of backup: Backup) -> [String]

    /// Returns the paths of intact copies of an asset in a folder's backups, newest first; `hash` is in hex.
    func copies(ofAsset hash: String, in home: ContainerEnvironment, among folder: String) -> [String]

    /// Returns the backup as one stream of bytes.
    func stream(_ backup: Backup) throws(BackupFailure) -> any BackupStream

    // MARK: Restore

    /// The environments of a container that the backup has; empty if the container was created again since.
    func stores(in backup: Backup, of container: ContainerID, created: Timestamp) throws(BackupFailure)
        -> [ContainerEnvironment]

    /// Replaces the data by the backup, or only the stores `homes`; no process may have them open.
    ///
    /// Every restored store gets a new epoch. The old content is moved, not deleted. If the restore is interrupted, the
    /// data is as before, or `finishRestore` completes it.
    ///
    /// - Parameters:
    ///   - backup: the backup.
    ///   - homes: the stores; `nil` restores everything.
    ///   - now: the time, which names the place of the old content.
    ///   - draw: returns 64 random bits.
    ///   - step: called with the path of each file before it is restored.
    /// - Returns: where the old content is; `nil` if there was none.
    /// - Throws: `BackupFailure`.
    func restore(
        _ backup: Backup,
        _ homes: [ContainerEnvironment]?,
        now: Timestamp,
        draw: () -> UInt64,
        step: (String) -> Void
    ) throws(BackupFailure) -> String?

    /// Completes an interrupted restore, or undoes it if nothing has been replaced; does nothing if there was none.
    ///
    /// Must be called before anything is opened.
    func finishRestore() throws(BackupFailure)
}

extension Backups {
    package var areElsewhere: Bool { false }

    /// The schedule; `nil` if there is none, or it cannot be read.
    package var knownSchedule: BackupSchedule? { (try? schedule()) ?? nil }

    /// The schedule's folder, or the standard one.
    package var currentFolder: String { knownSchedule?.folder ?? standardFolder }
}

/// A backup as one stream, produced in pieces.
package protocol BackupStream: Sendable {
    /// The length of the whole stream in bytes.
    var length: Int64 { get }

    /// Returns the next piece; `nil` after the last.
    ///
    /// - Throws: `BackupFailure` if the backup has changed meanwhile.
    mutating func next() throws(BackupFailure) -> BackupPiece?
}

/// A piece of a `BackupStream`.
package enum BackupPiece: Sendable {
    case bytes([UInt8])
    /// This many bytes from the start of a file.
    case file(path: String, length: Int64)
}
