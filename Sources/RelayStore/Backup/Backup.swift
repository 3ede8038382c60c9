import Foundation
package import Records

/// A backup: a folder with a copy of each SQLite file, the assets that records use, and a manifest.
///
/// It is a folder rather than an archive because assets never change: each is copied once, later backups link to the
/// copy in an earlier one at no cost, and a copy of the backups elsewhere transfers only what is new.
///
/// It does not contain the lock, SQLite's files beside its databases, unused assets, unfinished uploads, other backups,
/// their schedule (which names a folder of this machine), or anything outside the data folder, such as the
/// configuration.
package struct Backup: Sendable {
    /// The suffix of every backup's name.
    package static let suffix = ".zonecastbak"
    static let manifestName = "manifest.json"

    package let path: String
    package let manifest: Manifest

    package var name: String { (path as NSString).lastPathComponent }

    /// What was copied, with sizes and checksums.
    package struct Manifest: Codable, Hashable, Sendable {
        static let currentFormat = 1

        package var format = currentFormat
        /// When the backup was started, in milliseconds since 1970-01-01 UTC.
        package var made: Int64
        package var files: [File]
        /// Small files with settings made by operators.
        package var settings: [File]
        /// The number of used assets that did not exist.
        package var missingAssets: Int
        /// The number of used assets whose files did not match their names; they are not in the backup.
        package var damagedAssets: Int?
        /// The number of assets that are in the backup only because an earlier one had them.
        package var rescuedAssets: Int?

        /// One file, by its path in the data folder; its counts are 0 if it is not a store.
        package struct File: Codable, Hashable, Sendable {
            package var path: String
            package var bytes: Int64
            /// SHA-256 in hex.
            package var checksum: String
            package var zones: Int
            package var records: Int
            package var assets: Int
            /// The size of the copied assets; `nil` if it is not a store.
            package var assetBytes: Int64?
        }

        /// Whether its numbers are plausible: they are added up, and the backup may come from somebody else.
        var isPlausible: Bool {
            let own = [Int64(missingAssets), Int64(damagedAssets ?? 0), Int64(rescuedAssets ?? 0)]
            let counts = (files + settings).flatMap { file -> [Int64] in
                [file.bytes, Int64(file.zones), Int64(file.records), Int64(file.assets), file.assetBytes ?? 0]
            }
            // Up to the year 9999; the sum of so many numbers does not overflow.
            return (0...253_402_300_799_999).contains(made) && paths.count <= 30_000
                && (own + counts).allSatisfy { (0...1 << 48).contains($0) }
        }

        var paths: [String] { (files + settings).map(\.path) }

        /// Returns whether a path stays inside a data folder: a backup may come from somebody else.
        static func belongs(_ path: String) -> Bool {
            path.split(separator: "/", omittingEmptySubsequences: false)
                .allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." }
        }

        package var zones: Int { files.reduce(0) { $0 + $1.zones } }
        package var records: Int { files.reduce(0) { $0 + $1.records } }
        package var assets: Int { files.reduce(0) { $0 + $1.assets } }
        /// The number of used assets that the backup does not contain.
        package var lackedAssets: Int { missingAssets + (damagedAssets ?? 0) }
    }

    /// The size of its files and assets in bytes.
    package var bytes: Int64 {
        (manifest.files + manifest.settings).reduce(0) { $0 + $1.bytes + ($1.assetBytes ?? 0) }
    }

    /// Reads the manifest of the backup at `path`.
    package init(at path: String) throws(BackupFailure) {
        let name = (path as NSString).lastPathComponent
        guard let data = FileManager.default.contents(atPath: "\(path)/\(Self.manifestName)") else {
            throw .missing(name)
        }
        guard let manifest = try? JSONDecoder().decode(Manifest.self, from: data) else {
            throw .unreadable("\(path)/\(Self.manifestName)", "it is damaged.")
        }
        guard manifest.format <= Manifest.currentFormat else { throw .tooNew(name) }
        guard manifest.isPlausible else {
            throw .unreadable("\(path)/\(Self.manifestName)", "its numbers are not plausible.")
        }
        if let stray = manifest.paths.first(where: { !Manifest.belongs($0) }) {
            let words = "it names \(stray), which is not a path in a data folder."
            throw .unreadable("\(path)/\(Self.manifestName)", words)
        }
        self.path = path
        self.manifest = manifest
    }

    /// Returns the complete backups in a folder, oldest first, without interrupted ones.
    package static func all(in folder: String) -> [Backup] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasSuffix(suffix) }.compactMap { try? Backup(at: "\(folder)/\($0)") }
            .sorted { $0.order < $1.order }
    }

    /// Returns the same, but first those that are newer than `now`: their clock was ahead, so they are older than they
    /// say.
    package static func all(in folder: String, at now: Timestamp) -> [Backup] {
        let all = all(in: folder)
        let isAhead = { (backup: Backup) in backup.manifest.made > now.milliseconds }
        return all.filter(isAhead) + all.filter { !isAhead($0) }
    }

    /// By time and then by name: the second backup of the same second has a number, which sorts before the first as
    /// text.
    private var order: (Int64, Int, String) { (manifest.made, name.count, name) }

    /// Returns the backup with this name in a folder, with or without its suffix; `latest` is the newest.
    package static func named(_ name: String, in folder: String, at now: Timestamp) throws(BackupFailure) -> Backup {
        if name == "latest" {
            guard let latest = all(in: folder, at: now).last else { throw .missing("in \(folder)") }
            return latest
        }
        if name.contains("/") {
            guard FileManager.default.fileExists(atPath: "\(name)/\(manifestName)") else {
                throw .unreadable(name, "it is not a backup.")
            }
            return try Backup(at: name)
        }
        let path = "\(folder)/\(name.hasSuffix(suffix) ? name : name + suffix)"
        // A backup that was copied from elsewhere and unpacked here.
        let isHere = FileManager.default.fileExists(atPath: "\(name)/\(manifestName)")
        return try Backup(at: isHere && !FileManager.default.fileExists(atPath: path) ? name : path)
    }

    /// Whether it contains every used asset, and has no fault in its last verification.
    package var isGood: Bool { manifest.lackedAssets == 0 && (verdict?.faults ?? 0) == 0 }

    /// Removes all but the newest `count` backups of the folder; returns how many it removed.
    ///
    /// If none of those is good, the newest good one is kept as well: it may be the last.
    @discardableResult
    package static func keep(_ count: Int, in folder: String, at now: Timestamp) -> Int {
        let all = all(in: folder, at: now)
        let kept = all.suffix(max(1, count))
        var old = Array(all.dropLast(kept.count))
        if !kept.contains(where: \.isGood), let last = old.lastIndex(where: \.isGood) { old.remove(at: last) }
        for backup in old { backup.remove() }
        return old.count
    }
}
