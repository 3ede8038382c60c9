import Foundation
package import RelayCore
import RelaySystem

/// A backup as a tar archive, produced in pieces, with at most a folder's names and one small file in memory.
///
/// The length is determined in advance by a separate walk. Contains the plain files in the backup's folder, and does
/// not follow links.
package struct BackupArchive: BackupStream {
    /// Files up to this size are in one piece with their headers.
    private static let small: Int64 = 64 * 1024

    /// The name of the folder in the archive.
    package let name: String
    /// The length of the whole archive in bytes.
    package let length: Int64
    private var walk: FileWalk
    /// The next piece, if it has been prepared.
    private var waiting: BackupPiece?
    /// The number of zeros after the last file.
    private var padding = 0
    private var isOver = false

    /// Determines the length of the archive of a backup.
    ///
    /// - Throws: `BackupFailure` if the backup cannot be read.
    package init(_ backup: Backup) throws(BackupFailure) {
        name = backup.name
        walk = FileWalk(backup.path)
        var length = Int64(TarHeader.end.count)
        var first = walk
        while let file = try first.next() {
            length += Int64(Self.header(of: file, in: name).count) + file.size
            length += Int64(TarHeader.padding(after: file.size))
        }
        self.length = length
    }

    /// Returns the next piece; `nil` after the last.
    ///
    /// - Throws: `BackupFailure` if the backup has changed meanwhile.
    package mutating func next() throws(BackupFailure) -> BackupPiece? {
        if let waiting {
            self.waiting = nil
            return waiting
        }
        guard !isOver else { return nil }
        var bytes = [UInt8](repeating: 0, count: padding)
        padding = 0
        guard let file = try walk.next() else {
            isOver = true
            return .bytes(bytes + TarHeader.end)
        }
        bytes += Self.header(of: file, in: name)
        padding = TarHeader.padding(after: file.size)
        let path = "\(walk.root)/\(file.path)"
        if file.size > Self.small {
            waiting = .file(path: path, length: file.size)
        } else {
            guard let content = FileManager.default.contents(atPath: path), content.count == file.size else {
                throw .unreadable(path, "it was deleted or has changed.")
            }
            bytes += content
        }
        return .bytes(bytes)
    }

    private static func header(of file: FileWalk.File, in name: String) -> [UInt8] {
        TarHeader.of("\(name)/\(file.path)", size: file.size, modified: file.modified)
    }
}

/// The plain files below a folder, ordered by name; skips everything but files and folders.
struct FileWalk: Sendable {
    struct File: Sendable {
        /// The path relative to the root.
        var path: String
        var size: Int64
        /// Seconds since 1970.
        var modified: Int64
    }

    let root: String
    /// Paths still to visit, the next one last.
    private var open: [String] = [""]

    init(_ root: String) { self.root = root }

    mutating func next() throws(BackupFailure) -> File? {
        while let path = open.popLast() {
            let place = path.isEmpty ? root : "\(root)/\(path)"
            var facts = stat()
            guard lstat(place, &facts) == 0 else { throw BackupFiles.failure(place) }
            switch facts.st_mode & S_IFMT {
            case S_IFREG: return File(path: path, size: Int64(facts.st_size), modified: Int64(facts.modified.tv_sec))
            case S_IFDIR:
                let names = try BackupFiles.wrapping(place) {
                    try FileManager.default.contentsOfDirectory(atPath: place)
                }
                open += names.sorted(by: >).map { path.isEmpty ? $0 : "\(path)/\($0)" }
            default: continue
            }
        }
        return nil
    }
}
