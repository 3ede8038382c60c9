import Foundation
package import Records

/// When a backup was last verified, and with which result.
///
/// Stored beside the backup, since nothing in a backup is changed.
package struct BackupVerdict: Codable, Hashable, Sendable {
    /// Milliseconds since 1970.
    package var at: Int64
    package var faults: Int

    package init(at: Int64, faults: Int) {
        self.at = at
        self.faults = faults
    }
}

extension Backup {
    private static func verdictPath(_ path: String) -> String { path + ".verdict" }

    /// The result of the last verification; `nil` if the backup has not been verified.
    package var verdict: BackupVerdict? {
        FileManager.default.contents(atPath: Self.verdictPath(path))
            .flatMap { try? JSONDecoder().decode(BackupVerdict.self, from: $0) }
    }

    /// Verifies the backup, stores the result if the folder is writable, and returns a sentence for each fault.
    package func verify(now: Timestamp, step: (String) -> Void = { _ in }) -> [String] {
        let faults = verify(step: step)
        let verdict = BackupVerdict(at: now.milliseconds, faults: faults.count)
        // The backup may be in a folder that cannot be written, which does not make it worse.
        let target = Self.verdictPath(path)
        let files = BackupFiles(disk: .system)
        if let text = try? JSONEncoder().encode(verdict), (try? files.write(text, to: target + ".new")) != nil {
            try? files.rename(target + ".new", to: target)
        }
        return faults
    }

    /// Removes the backup and its verification result.
    func remove() {
        try? FileManager.default.removeItem(atPath: path)
        try? FileManager.default.removeItem(atPath: Self.verdictPath(path))
    }
}
