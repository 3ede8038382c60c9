import Foundation
import GRDB

/// What a person can do about a folder or a disk, before SQLite's own words are shown to them.
package enum FolderAccess {
    /// Whether the folder, or one above it, is somebody else's and shut.
    package static func isForbidden(_ folder: String) -> Bool {
        access(folder, R_OK | X_OK) != 0 && errno == EACCES
    }

    /// A sentence for whoever may not look into the folder; `nil` where they may, or it is not there.
    package static func refusal(_ folder: String) -> String? {
        guard isForbidden(folder) else { return nil }
        let owner = (try? FileManager.default.attributesOfItem(atPath: folder))?[.ownerAccountName] as? String
        return "You may not look into \(folder). Run this as \(owner ?? "its owner") or as root: sudo zonecast …"
    }

    /// What went wrong in a file, without the statement that met it.
    static func words(for error: any Error) -> String {
        guard let error = error as? DatabaseError else { return "\(error)." }
        guard error.resultCode != .SQLITE_FULL else { return "the disk is full. Make room on it." }
        return (error.message ?? "SQLite error \(error.resultCode.rawValue)") + "."
    }
}
