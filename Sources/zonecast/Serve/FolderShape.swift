import Foundation
import Records

/// Whether a data folder has files where a relay wants files, and folders where it wants folders.
struct FolderShape {
    let folder: String

    /// What lets no relay begin; `nil` where all is well, or not there yet.
    var obstacle: String? {
        wrong("\(folder)/relay.lock", isFolder: false) ?? wrong("\(folder)/containers", isFolder: true)
    }

    /// The same, and what keeps it from one container's records.
    var fault: String? {
        if let obstacle { return obstacle }
        let containers = "\(folder)/containers"
        for name in ((try? FileManager.default.contentsOfDirectory(atPath: containers)) ?? []).sorted() {
            for environment in Records.Environment.allCases {
                let path = "\(containers)/\(name)/\(environment.rawValue).sqlite"
                if let fault = wrong(path, isFolder: false) { return fault }
            }
        }
        return nil
    }

    private func wrong(_ path: String, isFolder: Bool) -> String? {
        var found: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &found), found.boolValue != isFolder else {
            return nil
        }
        return isFolder
            ? "\(path) is a file, and a relay keeps a folder there"
            : "\(path) is a folder, and a relay keeps a file there"
    }
}
