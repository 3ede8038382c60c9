import Foundation
package import Records

/// What operators have said about alerts: limits of their own, and which to be silent about until when.
///
/// Kept as `alerts.json` in the data folder, so that it holds for a relay that runs, from its next look on.
package struct AlertBook: Codable, Hashable, Sendable {
    /// By the rules' identifiers, in the rules' units.
    package var limits: [String: Double] = [:]
    /// By the rules' identifiers: milliseconds since 1970-01-01 UTC.
    package var muted: [String: Int64] = [:]

    package init() {}

    static let fileName = "alerts.json"

    private static func path(_ data: String) -> String { "\(data)/\(fileName)" }

    /// That of a data folder; an empty one where there is none.
    ///
    /// - Throws: `BackupFailure.unreadable` where there is a file and it is none: whoever took it for an empty one and wrote
    ///   that would take the operators' limits away.
    package static func read(from data: String) throws(BackupFailure) -> AlertBook {
        let path = path(data)
        guard access(path, F_OK) == 0 || errno != ENOENT else { return AlertBook() }
        guard let text = FileManager.default.contents(atPath: path) else {
            throw .unreadable(
                path,
                "it cannot be read, so alerts go by their usual limits. Look who owns it: ls -l \(path.shellWord)"
            )
        }
        guard let book = try? JSONDecoder().decode(Self.self, from: text) else {
            throw .unreadable(
                path,
                "it does not say what zonecast wrote there, so alerts go by their usual limits. Mend it, or move it away and set them anew: zonecast alerts limit --help"
            )
        }
        return book
    }

    package func isMuted(_ rule: String, at now: Timestamp) -> Bool {
        muted[rule].map { $0 > now.milliseconds } ?? false
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
