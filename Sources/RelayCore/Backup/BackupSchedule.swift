/// When a running relay makes backups automatically.
///
/// Stored with the data, so that a change takes effect without a restart.
package struct BackupSchedule: Codable, Hashable, Sendable {
    package enum Interval: String, Codable, Hashable, Sendable, CaseIterable {
        case hourly, daily, weekly

        package var milliseconds: Int64 {
            switch self {
            case .hourly: 3_600_000
            case .daily: 86_400_000
            case .weekly: 604_800_000
            }
        }
    }

    package var interval: Interval
    /// The number of backups to keep.
    package var keep: Int
    /// The folder for the backups.
    package var folder: String
    /// The storage that gets a copy of each backup, such as `s3://bucket/prefix`; `nil` for none.
    package var remote: String?

    package init(_ interval: Interval, keep: Int, folder: String, remote: String? = nil) {
        self.interval = interval
        self.keep = keep
        self.folder = folder
        self.remote = remote
    }

    /// The allowed numbers of backups to keep.
    package static let keepRange = 1...1_000
}
