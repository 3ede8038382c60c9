import Foundation
import Records

/// Checks that a data folder has files and folders where the relay expects them.
struct FolderShape {
    let folder: String

    /// The problem that prevents a relay from starting; `nil` if there is none or the folder does not exist.
    var obstacle: String? {
        wrong("\(folder)/relay.lock", isFolder: false) ?? wrong("\(folder)/containers", isFolder: true)
    }

    /// Like `obstacle`, and also problems that affect only one container's records.
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
            ? "\(path) is a file, but the relay needs a folder there"
            : "\(path) is a folder, but the relay needs a file there"
    }
}
