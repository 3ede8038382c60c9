#if Postgres
    import Records
    import RelayCore

    /// The backups of a cluster, which PostgreSQL makes itself: a base backup and the archived log after it.
    ///
    /// Nothing here makes or changes one; each call says how PostgreSQL's own programs do.
    struct PostgresBackups: Backups {
        private static let elsewhere = BackupFailure.elsewhere(
            "The data is in PostgreSQL, which makes its own backups: archive its log (archive_mode = on) and make a base backup with pg_basebackup or pgBackRest. zonecast doctor checks that archiving works."
        )

        var areElsewhere: Bool { true }

        var standardFolder: String { "the backups of PostgreSQL" }

        func schedule() throws(BackupFailure) -> BackupSchedule? { nil }

        func setSchedule(_ schedule: BackupSchedule?) throws(BackupFailure) { throw Self.elsewhere }

        var scheduleChanged: Int64? { nil }

        func tryFolder(of schedule: BackupSchedule) throws(BackupFailure) { throw Self.elsewhere }

        func makeDue(_ schedule: BackupSchedule, at now: Timestamp) throws(BackupFailure) -> Backup? { nil }

        func create(in folder: String, now: Timestamp, step: (String) -> Void) throws(BackupFailure) -> Backup {
            throw Self.elsewhere
        }

        func all(in folder: String) -> [Backup] { [] }

        func all(in folder: String, at now: Timestamp) -> [Backup] { [] }

        func unusable(in folder: String) -> [Backup.Unusable] { [] }

        func newestUnusable(in folder: String, at now: Timestamp) -> Backup.Unusable? { nil }

        func named(_ name: String, in folder: String, at now: Timestamp) throws(BackupFailure) -> Backup {
            throw Self.elsewhere
        }

        func verify(_ backup: Backup, now: Timestamp?, step: (String) -> Void) -> [String] {
            [Self.elsewhere.description]
        }

        func verdict(on backup: Backup) -> BackupVerdict? { nil }

        func lackedAssets(of backup: Backup) -> [String] { [] }

        func copies(ofAsset hash: String, in home: ContainerEnvironment, among folder: String) -> [String] { [] }

        func stream(_ backup: Backup) throws(BackupFailure) -> any BackupStream { throw Self.elsewhere }

        func stores(in backup: Backup, of container: ContainerID, created: Timestamp) throws(BackupFailure)
            -> [ContainerEnvironment]
        { throw Self.elsewhere }

        func restore(
            _ backup: Backup,
            _ homes: [ContainerEnvironment]?,
            now: Timestamp,
            draw: () -> UInt64,
            step: (String) -> Void
        ) throws(BackupFailure) -> String? { throw Self.elsewhere }

        func finishRestore() throws(BackupFailure) {}
    }
#endif
