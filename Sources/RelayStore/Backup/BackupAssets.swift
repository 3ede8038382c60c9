import Foundation
package import Records

/// The assets of a data folder on their way into a backup.
///
/// What an earlier backup of the same folder holds is linked to the copy there, and costs nothing; the rest is copied. Never is
/// it a link to the live file: what damages that would damage every backup with it. Each is read and held against the hash in
/// its name, the live one and the one that is kept: a disk that forgets is told of while there is still a good copy.
struct BackupAssets {
    let files: BackupFiles
    let data: String
    /// Where the backup is gathered.
    let target: String
    /// The backups there are, the newest first.
    let earlier: [Backup]

    enum Outcome {
        case kept
        /// An earlier backup had it; the data folder has it no more, or damaged.
        case rescued
        /// Nothing is kept of what is not as it was written.
        case damaged
        case missing
    }

    /// Puts one into the backup.
    ///
    /// - Parameters:
    ///   - asset: its hash, in hex.
    ///   - place: where it lies in a data folder, and in a backup.
    /// - Returns: what became of it.
    /// - Throws: `BackupFailure` where the backup cannot be written.
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

    /// How many bytes of the files in a folder of assets are in no backup yet, at the most.
    func newBytes(in folder: String) -> Int64 {
        var (walk, bytes) = (FileWalk("\(data)/\(folder)"), Int64(0))
        while let file = try? walk.next() {
            if copies(of: "\(folder)/\(file.path)").isEmpty { bytes += file.size }
        }
        return bytes
    }

    /// In earlier backups, the newest first; those that versions before this one made as links to the live file are none.
    private func copies(of place: String) -> [String] {
        let live = Identity("\(data)/\(place)")
        return earlier.map { "\($0.path)/\(place)" }.filter { path in
            Identity(path).map { $0 != live } ?? false
        }
    }

    /// Also what cannot be read is not sound: one bad spot of a disk must not keep all else from being backed up.
    static func isSound(_ path: String, _ asset: String) -> Bool {
        (try? BackupFiles.checksum(of: path).hex.hasPrefix(asset)) ?? false
    }

    /// Which file it is, whatever its name.
    private struct Identity: Equatable {
        let device: UInt64
        let node: UInt64

        /// `nil` where there is none.
        init?(_ path: String) {
            var facts = stat()
            guard stat(path, &facts) == 0 else { return nil }
            device = UInt64(truncatingIfNeeded: facts.st_dev)
            node = UInt64(facts.st_ino)
        }
    }
}

extension Backup {
    /// Where an asset lies whole in a folder's backups, the newest first; `asset` is its hash, in hex.
    package static func copies(
        of asset: String,
        in home: ContainerEnvironment,
        among folder: String
    ) -> [String] {
        all(in: folder).reversed().map { StoreFiles.path(of: asset, in: home, folder: $0.path) }
            .filter { BackupAssets.isSound($0, asset) }
    }
}
