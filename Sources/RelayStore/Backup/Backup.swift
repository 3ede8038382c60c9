import Foundation
package import Records

/// One backup: a folder with a copy of each SQLite file, the assets that their records use, and a manifest.
///
/// A folder and not an archive, since assets never change: each is copied once, later backups link to the copy of the one
/// before and cost nothing, and whoever copies backups elsewhere copies only what is new.
///
/// Not in it: the lock, what SQLite keeps beside its files, assets that no record uses, uploads under
/// way, other backups and their schedule
/// (which names a place of this machine), and what lies outside of the data folder, such as the configuration.
package struct Backup: Sendable {
    /// Ends every backup's name.
    package static let suffix = ".zonecastbak"
    static let manifestName = "manifest.json"

    package let path: String
    package let manifest: Manifest

    package var name: String { (path as NSString).lastPathComponent }

    /// What was copied, and how it looked then.
    package struct Manifest: Codable, Hashable, Sendable {
        static let currentFormat = 1

        package var format = currentFormat
        /// Milliseconds since 1970-01-01 UTC: the moment it was begun.
        package var made: Int64
        package var files: [File]
        /// The small files beside them that people have set things in; `nil` in backups of versions that left those out.
        package var settings: [File]?
        /// Assets that records used and that were not there to be copied.
        package var missingAssets: Int
        /// Assets that records used and whose files were not what their names say: they are not in the backup either.
        package var damagedAssets: Int?
        /// Assets that are in the backup only because an earlier one had them.
        package var rescuedAssets: Int?

        /// One file, by its path in the data folder; what it counts are zeros where it is no store.
        package struct File: Codable, Hashable, Sendable {
            package var path: String
            package var bytes: Int64
            /// SHA-256 in hex.
            package var checksum: String
            package var zones: Int
            package var records: Int
            package var assets: Int
            /// What the copied assets take; `nil` in backups of versions that did not count it.
            package var assetBytes: Int64?
        }

        /// Whether its numbers can be those of a backup: they are added up, and it may come from somebody else.
        var isPlausible: Bool {
            let own = [Int64(missingAssets), Int64(damagedAssets ?? 0), Int64(rescuedAssets ?? 0)]
            let counts = (files + (settings ?? [])).flatMap { file -> [Int64] in
                [file.bytes, Int64(file.zones), Int64(file.records), Int64(file.assets), file.assetBytes ?? 0]
            }
            // Up to the year 9999; no sum of so many of these overflows.
            return (0...253_402_300_799_999).contains(made) && paths.count <= 30_000
                && (own + counts).allSatisfy { (0...1 << 48).contains($0) }
        }

        var paths: [String] { (files + (settings ?? [])).map(\.path) }

        /// Whether a path leads to a place in a data folder, and nowhere else: a backup may come from somebody else.
        static func belongs(_ path: String) -> Bool {
            path.split(separator: "/", omittingEmptySubsequences: false)
                .allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." }
        }

        package var zones: Int { files.reduce(0) { $0 + $1.zones } }
        package var records: Int { files.reduce(0) { $0 + $1.records } }
        package var assets: Int { files.reduce(0) { $0 + $1.assets } }
        /// What records use and the backup has not.
        package var lackedAssets: Int { missingAssets + (damagedAssets ?? 0) }
    }

    /// What it takes to keep it elsewhere: files and assets.
    package var bytes: Int64 {
        let files = (manifest.files + (manifest.settings ?? [])).reduce(0) { $0 + $1.bytes }
        guard manifest.files.allSatisfy({ $0.assets == 0 || $0.assetBytes != nil }) else { return walkedBytes }
        return manifest.files.reduce(files) { $0 + ($1.assetBytes ?? 0) }
    }

    private var walkedBytes: Int64 {
        var (walk, bytes) = (FileWalk(path), Int64(0))
        while let file = try? walk.next() {
            if file.path != Self.manifestName { bytes += file.size }
        }
        return bytes
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
            throw .unreadable("\(path)/\(Self.manifestName)", "its numbers cannot be right.")
        }
        if let stray = manifest.paths.first(where: { !Manifest.belongs($0) }) {
            throw .unreadable("\(path)/\(Self.manifestName)", "it names \(stray), which is no file of a relay's.")
        }
        self.path = path
        self.manifest = manifest
    }

    /// The whole backups in a folder, the oldest first; what was broken off is not among them.
    package static func all(in folder: String) -> [Backup] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasSuffix(suffix) }.compactMap { try? Backup(at: "\(folder)/\($0)") }
            .sorted { $0.order < $1.order }
    }

    /// The same, those from a clock that was ahead of `now` before all others: they were made earlier than they say.
    package static func all(in folder: String, at now: Timestamp) -> [Backup] {
        let all = all(in: folder)
        let isAhead = { (backup: Backup) in backup.manifest.made > now.milliseconds }
        return all.filter(isAhead) + all.filter { !isAhead($0) }
    }

    /// By the moment and not by the name alone: the second one of a second has a number, and comes before the first there.
    private var order: (Int64, Int, String) { (manifest.made, name.count, name) }

    /// The backup of this name in a folder, with or without its ending; `latest` is the newest.
    package static func named(_ name: String, in folder: String, at now: Timestamp) throws(BackupFailure) -> Backup {
        if name == "latest" {
            guard let latest = all(in: folder, at: now).last else { throw .missing("in \(folder)") }
            return latest
        }
        if name.contains("/") {
            guard FileManager.default.fileExists(atPath: "\(name)/\(manifestName)") else {
                throw .unreadable(name, "it is no backup.")
            }
            return try Backup(at: name)
        }
        let path = "\(folder)/\(name.hasSuffix(suffix) ? name : name + suffix)"
        // One that was brought from elsewhere and unpacked here.
        let isHere = FileManager.default.fileExists(atPath: "\(name)/\(manifestName)")
        return try Backup(at: isHere && !FileManager.default.fileExists(atPath: path) ? name : path)
    }

    /// Whether all that records used is in it, and nobody has found a fault since.
    package var isGood: Bool { manifest.lackedAssets == 0 && (verdict?.faults ?? 0) == 0 }

    /// Removes all but the newest `count` of the folder; tells how many went.
    ///
    /// Where none of those is good, the newest good one stays besides: it may be the last.
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
