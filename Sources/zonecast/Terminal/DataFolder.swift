import RelayCore
import RelaySystem
import SQLiteStore

/// The only place that says in what kind of store a data folder keeps its data.
enum DataFolder {
    /// Returns what a data folder contains; opens nothing yet.
    ///
    /// `disk` has the calls that write backups, copies and settings, and read backups.
    static func home(_ folder: String, disk: DiskCalls = .system) -> any RelayHome { FolderHome(folder, disk: disk) }
}
