import Foundation
package import Records
package import RelayCore

/// Copies the assets of a data folder into a backup.
///
/// An asset that an earlier backup of the folder contains is linked to the copy there, at no cost; others are copied. A
/// backup never links to the live file: damage to that file would damage every backup. Both the live file and the copy
/// are verified against the hash in their name, so that a failing disk is noticed while there is still an intact copy.
struct BackupAssets {
    let files: BackupFiles
    let data: String
    /// The folder in which the backup is being made.
    let target: String
    /// The existing backups, newest first.
    let earlier: [Backup]

    enum Outcome {
        case kept
        /// An earlier backup had it; in the data folder it is missing or damaged.
        case rescued
        /// The file has been changed or damaged; it is not copied.
        case damaged
        case missing
    }

    /// Puts an asset into the backup.
    ///
    /// - Parameters:
    ///   - asset: its hash, in hex.
    ///   - place: its path in a data folder, and in a backup.
    /// - Returns: the outcome.
    /// - Throws: `BackupFailure` if the backup cannot be written.
    func keep(_ asset: String, at place: String) throws -> Outcome {
        let (live, goal) = ("\(data)/\(place)", "\(target)/\(place)")
        let isThere = FileManager.default.fileExists(atPath: live)
        let isSound = isThere && Self.isSound(live, asset)
        if let copy = copies(of: place).first(where: { Self.isSound($0, asset) }) {
            try files.copyAsset(copy, to: goal)
            return isSound ? .kept : .rescued
        }
        guard isThere else { return .missing }
        guard isSound else { return .damaged }
        try files.makeFolder((goal as NSString).deletingLastPathComponent)
        guard try files.copyHashing(live, to: goal).hasPrefix(asset) else {
            unlink(goal)
            return .damaged
        }
        return .kept
    }

    /// Returns how many bytes in a folder of assets are in no backup yet, at most.
    func newBytes(in folder: String) -> Int64 {
        var (walk, bytes) = (FileWalk("\(data)/\(folder)"), Int64(0))
        while let file = try? walk.next() {
            if copies(of: "\(folder)/\(file.path)").isEmpty { bytes += file.size }
        }
        return bytes
    }

    /// Returns the copies in earlier backups, newest first.
    private func copies(of place: String) -> [String] {
        earlier.map { "\($0.path)/\(place)" }.filter { FileManager.default.fileExists(atPath: $0) }
    }

    /// Returns `false` also for an unreadable file: one bad place on a disk must not prevent the backup of everything
    /// else.
    static func isSound(_ path: String, _ asset: String) -> Bool {
        (try? BackupFiles.checksum(of: path).hex.hasPrefix(asset)) ?? false
    }
}

extension Backup {
    /// Returns the paths of intact copies of an asset in a folder's backups, newest first; `asset` is its hash, in hex.
    package static func copies(
        of asset: String,
        in home: ContainerEnvironment,
        among folder: String
    ) -> [String] {
        all(in: folder).reversed().map { StoreFiles.path(of: asset, in: home, folder: $0.path) }
            .filter { BackupAssets.isSound($0, asset) }
    }
}
