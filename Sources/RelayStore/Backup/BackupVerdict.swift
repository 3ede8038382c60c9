import Foundation
package import Records

/// When a backup was last read from end to end, and whether it was good; kept beside it, as nothing in a backup is changed.
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

    /// The last one; `nil` for a backup that nobody has verified since it was made.
    package var verdict: BackupVerdict? {
        FileManager.default.contents(atPath: Self.verdictPath(path))
            .flatMap { try? JSONDecoder().decode(BackupVerdict.self, from: $0) }
    }

    /// Verifies, and writes down what came of it where the folder can be written: gives each fault as a sentence.
    package func verify(now: Timestamp, step: (String) -> Void = { _ in }) -> [String] {
        let faults = verify(step: step)
        let verdict = BackupVerdict(at: now.milliseconds, faults: faults.count)
        // A backup may lie where nobody can write, and is no worse for it.
        let target = Self.verdictPath(path)
        let files = BackupFiles(disk: .system)
        if let text = try? JSONEncoder().encode(verdict), (try? files.write(text, to: target + ".new")) != nil {
            try? files.rename(target + ".new", to: target)
        }
        return faults
    }

    /// Removes the backup with all that is known of it.
    func remove() {
        try? FileManager.default.removeItem(atPath: path)
        try? FileManager.default.removeItem(atPath: Self.verdictPath(path))
    }
}
