import Foundation

/// Why a backup could not be made, verified or restored; each description is one sentence for the user.
package enum BackupFailure: Error, CustomStringConvertible {
    /// There is no relay data in the folder; the text says that the caller may not look there.
    case nothingThere(String, refusal: String? = nil)
    /// The file for the relay's accounts belongs to another program.
    case foreign(String)
    /// There is no such backup.
    case missing(String)
    /// The file or folder could not be read or written.
    case unreadable(String, String)
    /// A file to copy is damaged.
    case damaged(String, [String])
    /// Another backup is being made in the folder.
    case busy(String)
    /// The folder's disk would be full, or nearly full.
    case noRoom(String, needed: Int64)
    /// A later version made the backup.
    case tooNew(String)
    /// The storage away from the machine cannot be used; the text says why.
    case remote(String)
    /// The relay's store has backups of its own, which its own programs make; the text names them.
    case elsewhere(String)

    package var description: String {
        switch self {
        case .nothingThere(let folder, let refusal):
            refusal ?? "There is no relay data in \(folder). Name the folder with --data."
        case .foreign(let path):
            "\(path) is not a relay's file: another program created it. Name the relay's folder with --data."
        case .missing(let name): "There is no backup \(name). List the existing ones: zonecast backup list"
        case .unreadable(let path, let why): "\(path) cannot be used: \(why)"
        case .damaged(let path, let places):
            "\(path) is damaged\(places.isEmpty ? "" : " (\(places.joined(separator: ", ")))"), so it cannot be backed up. "
                + "Restore the last good one: zonecast backup restore latest"
        case .busy(let folder): "Another backup is being created in \(folder). Retry when it is finished."
        case .noRoom(let folder, let needed):
            "A backup in \(folder) needs \(needed.formatted(.byteCount(style: .file))) of free disk space. Free space, keep fewer "
                + "backups with zonecast backup schedule --keep, or choose another folder with --backups."
        case .remote(let text), .elsewhere(let text): text
        case .tooNew(let name): "\(name) was created by a later version of zonecast. Restore it with that version."
        }
    }
}
