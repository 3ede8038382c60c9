package import Records
package import RelayCore
package import RelaySystem

/// A data folder with SQLite files.
package struct FolderHome: RelayHome {
    private let folder: String
    private let disk: DiskCalls

    /// Opens nothing yet.
    ///
    /// - Parameters:
    ///   - folder: the data folder.
    ///   - disk: the calls that write backups, copies and settings, and read backups.
    package init(_ folder: String, disk: DiskCalls = .system) {
        self.folder = folder
        self.disk = disk
    }

    package func accounts(onLostWrite: (@Sendable () -> Void)?) throws(DirectoryError) -> any AccountDirectory {
        try AccountStore(folder: folder, onLostWrite: onLostWrite)
    }

    package func stores(_ options: StoreOptions) -> any ServedStores {
        let events = options.events
        return StoreFolder(
            folder: folder,
            draw: options.draw,
            tuning: options.tuning,
            maxOpen: options.mostOpen,
            onCommit: events.committed,
            onCommitTime: events.commitTook,
            onLostWrite: events.lostWrite,
            onDamage: events.foundDamage,
            onShortage: events.lacksDescriptors
        )
    }

    package func schemas(of container: ContainerID) -> any ContainerSchemas {
        SchemaFolder(folder: folder, container: container)
    }

    package var upkeep: any StorageUpkeep { FolderUpkeep(folder: folder, disk: disk) }

    package var backups: any Backups { FolderBackups(data: folder, disk: disk) }

    package func alertOverrides() throws(BackupFailure) -> AlertOverrides { try AlertOverrides.read(from: folder) }

    package func setAlertOverrides(_ overrides: AlertOverrides) throws(BackupFailure) {
        try overrides.save(to: folder, disk: disk)
    }
}
