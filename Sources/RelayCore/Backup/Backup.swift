import Foundation

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
    package static let manifestName = "manifest.json"
    /// The suffix, after a backup's name, of the file that says where it was copied.
    package static let remoteSuffix = ".remote"

    package let path: String
    package let manifest: Manifest

    package init(path: String, manifest: Manifest) {
        self.path = path
        self.manifest = manifest
    }

    package var name: String { (path as NSString).lastPathComponent }

    /// What was copied, with sizes and checksums.
    package struct Manifest: Codable, Hashable, Sendable {
        package static let currentFormat = 1

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

        package init(made: Int64) {
            self.made = made
            files = []
            settings = []
            missingAssets = 0
        }

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

            package init(path: String, bytes: Int64, checksum: String) {
                self.path = path
                self.bytes = bytes
                self.checksum = checksum
                zones = 0
                records = 0
                assets = 0
            }
        }

        /// Whether its numbers are plausible: they are added up, and the backup may come from somebody else.
        package var isPlausible: Bool {
            let own = [Int64(missingAssets), Int64(damagedAssets ?? 0), Int64(rescuedAssets ?? 0)]
            let counts = (files + settings).flatMap { file -> [Int64] in
                [file.bytes, Int64(file.zones), Int64(file.records), Int64(file.assets), file.assetBytes ?? 0]
            }
            // Up to the year 9999; the sum of so many numbers does not overflow.
            return (0...253_402_300_799_999).contains(made) && paths.count <= 30_000
                && (own + counts).allSatisfy { (0...1 << 48).contains($0) }
        }

        package var paths: [String] { (files + settings).map(\.path) }

        /// Returns whether a path stays inside a data folder: a backup may come from somebody else.
        package static func belongs(_ path: String) -> Bool {
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

    /// A finished backup whose content is unknown.
    package struct Unusable: Sendable {
        package var name: String
        package var reason: BackupFailure

        package init(name: String, reason: BackupFailure) {
            self.name = name
            self.reason = reason
        }
    }
}

/// When a backup was last verified, and with which result.
///
/// Stored beside the backup, since nothing in a backup is changed.
package struct BackupVerdict: Codable, Hashable, Sendable {
    /// Milliseconds since 1970.
    package var at: Int64
    package var faults: Int

    package init(at: Int64, faults: Int) {
        self.at = at
        self.faults = faults
    }
}
