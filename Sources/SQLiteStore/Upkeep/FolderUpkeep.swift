import Records
import RelayCore
import RelaySystem

/// The upkeep of a data folder.
struct FolderUpkeep: StorageUpkeep {
    let folder: String
    let disk: DiskCalls

    var engine: (name: String, version: String) { ("SQLite", StoreFiles.engine) }

    var lacksAccounts: Bool { AccountStore.isLost(in: folder) }

    var isForeign: Bool { FolderLayout.isForeign(folder) }

    func accountsLayout() throws(DirectoryError) -> (file: LayoutStatus, journal: String) {
        try FolderLayout.ofAccounts(in: folder)
    }

    func storeFiles() throws(BackupFailure) -> [String] { try FolderLayout.storePaths(in: folder) }

    func layout(of file: String) throws(DirectoryError) -> LayoutStatus { try FolderLayout.ofStore(file, in: folder) }

    func faults(step: (String) -> Void) throws -> [StorageFault] { try StoreCheck.faults(in: folder, step: step) }

    var remedy: String { StoreCheck.remedy(data: folder) }

    func files(of home: ContainerEnvironment) throws -> StoreFiles? { try StoreFiles(of: home, in: folder) }

    func isWhole(_ asset: StoreFiles.Asset, of home: ContainerEnvironment) -> Bool {
        StoreFiles.isWhole(asset.hash, in: home, folder: folder)
    }

    func path(ofAsset hash: String, in home: ContainerEnvironment) -> String? {
        StoreFiles.path(of: hash, in: home, folder: folder)
    }

    func report(on home: ContainerEnvironment, month: CalendarMonth, naming count: Int) throws -> StorageReport {
        try StorageReport(folder: folder, home: home, month: month, naming: count)
    }

    func use(of user: UserID, in home: ContainerEnvironment) throws -> (bytes: Int64, zones: Int) {
        try StorageReport.use(of: user, in: home, folder: folder)
    }

    func defaultZoneNames(of user: UserID, in home: ContainerEnvironment) throws -> [String] {
        try StorageReport.defaultZoneNames(of: user, in: home, folder: folder)
    }

    func publicNames(madeBy user: UserID, in home: ContainerEnvironment) throws -> [String] {
        try StorageReport.publicNames(madeBy: user, in: home, folder: folder)
    }

    func rooms() throws -> [CompactionRoom] { try StoreCompaction.rooms(in: folder) }

    func compact(_ file: String) throws { try StoreCompaction(file: file, in: folder).vacuum() }

    func compactStepwise(_ file: String, _ step: (_ done: Int64, _ all: Int64) -> Void) throws {
        try StoreCompaction(file: file, in: folder).vacuumIncrementally(step)
    }

    func remove(_ container: ContainerID, from accounts: any AccountDirectory) throws {
        try ContainerRemoval(in: folder).remove(container, from: accounts)
    }

    func finishRemoval(with accounts: any AccountDirectory) throws {
        try ContainerRemoval(in: folder).finish(with: accounts)
    }

    func copy(to target: String, step: (String) -> Void) throws(BackupFailure) -> CopySummary {
        try FolderCopy.make(of: folder, at: target, disk: disk, step: step)
    }
}
