import Foundation
package import RelayCore
package import RelaySystem

// Stored in `alerts.json` in the data folder.
extension AlertOverrides {
    static let fileName = "alerts.json"

    private static func path(_ data: String) -> String { "\(data)/\(fileName)" }

    /// Reads the settings of a data folder, which are empty if there is no file.
    ///
    /// - Throws: `BackupFailure.unreadable` if the file is invalid: a caller that took it for empty and saved it would
    ///   delete the operators' limits.
    package static func read(from data: String) throws(BackupFailure) -> AlertOverrides {
        let path = path(data)
        guard access(path, F_OK) == 0 || errno != ENOENT else { return AlertOverrides() }
        guard let text = FileManager.default.contents(atPath: path) else {
            throw .unreadable(
                path,
                "it cannot be read, so alerts use their default limits. Check its owner: ls -l \(path.shellWord)"
            )
        }
        guard let book = try? JSONDecoder().decode(Self.self, from: text) else {
            throw .unreadable(
                path,
                "its content is invalid, so alerts use their default limits. Repair it, or move it away and set the limits again: zonecast alert edit --help"
            )
        }
        return book
    }

    package func save(to data: String, disk: DiskCalls = .system) throws(BackupFailure) {
        try BackupFiles.wrapping(Self.path(data)) {
            let files = BackupFiles(disk: disk)
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
            try files.write(encoder.encode(self), to: Self.path(data) + ".new")
            chmod(Self.path(data) + ".new", 0o600)
            try files.rename(Self.path(data) + ".new", to: Self.path(data))
            try files.flush(data)
        }
    }
}
