import Crypto
import Foundation
import GRDB
import Records
package import RelayCore
package import RelaySystem

/// Moves a data folder to another place: another disk, file system or network mount.
///
/// Unlike a restored backup, the copy keeps every store's epoch, so the tokens of devices stay valid. This is correct
/// only if nothing is written to the first folder any more.
package enum FolderCopy {
    /// Copies everything but backups and their schedule, and compares each row and asset of the copy with its source.
    ///
    /// What exists at `target` when this returns is complete and on disk; before that, nothing has that name. No relay
    /// may run on either folder.
    ///
    /// - Parameters:
    ///   - data: the data folder.
    ///   - target: the path for the copy: nothing, or an empty folder.
    ///   - disk: the calls that write files.
    ///   - step: called with a description of each step, file by file.
    /// - Returns: what was copied.
    /// - Throws: `BackupFailure`; nothing is left at `target` then.
    package static func make(
        of data: String,
        at target: String,
        disk: DiskCalls = .system,
        step: (String) -> Void = { _ in }
    ) throws(BackupFailure) -> CopySummary {
        let files = BackupFiles(disk: disk)
        guard FileManager.default.fileExists(atPath: "\(data)/relay.sqlite") else { throw .noData(in: data) }
        guard !FolderLayout.isForeign(data) else { throw .foreign("\(data)/relay.sqlite") }
        return try BackupFiles.wrapping(target) {
            let target = URL(fileURLWithPath: target).standardizedFileURL.path
            // A relay would take the copy for part of its own folder.
            guard !"\(target)/".hasPrefix("\(URL(fileURLWithPath: data).standardizedFileURL.path)/") else {
                throw BackupFailure.unreadable(target, "it is inside the folder to copy. Name a folder outside of it.")
            }
            if let there = try? FileManager.default.contentsOfDirectory(atPath: target), !there.isEmpty {
                throw BackupFailure.unreadable(target, "it is not empty. Name a new folder.")
            }
            let partial = target + ".partial"
            try? FileManager.default.removeItem(atPath: partial)
            defer { try? FileManager.default.removeItem(atPath: partial) }
            var summary = CopySummary()
            for path in try BackupFiles.databases(in: data) {
                step("copying \(path)")
                try copy(path, of: data, to: partial, files, &summary)
                step("comparing \(path)")
                try compare(path, data, partial, &summary)
            }
            for path in BackupFiles.settings(in: data) { try files.copy("\(data)/\(path)", to: "\(partial)/\(path)") }
            chmod(partial, 0o700)
            try files.flushFolders(partial)
            // Replaces an empty folder, if there is one.
            try files.rename(partial, to: target)
            try files.flush((target as NSString).deletingLastPathComponent)
            return summary
        }
    }

    private static func copy(
        _ path: String,
        of data: String,
        to target: String,
        _ files: BackupFiles,
        _ summary: inout CopySummary
    ) throws {
        let copied = "\(target)/\(path)"
        try files.makeFolder((copied as NSString).deletingLastPathComponent)
        try Backup.copyFile("\(data)/\(path)", to: copied, files)
        summary.files += 1
        summary.bytes += Int64((try FileManager.default.attributesOfItem(atPath: copied)[.size] as? Int) ?? 0)
        guard path != "relay.sqlite" else { return }
        StoreMarker.make(for: copied)
        let contents = try StoreContents(ofFile: copied)
        summary.zones += contents.zones
        summary.records += contents.records
        for asset in contents.assets {
            let place = "\(SQLiteStore.Place.assetFolder(ofFile: path))/\(asset.prefix(2))/\(asset)"
            guard FileManager.default.fileExists(atPath: "\(data)/\(place)") else {
                throw BackupFailure.unreadable(
                    "\(data)/\(place)",
                    "a record uses this asset, but it does not exist. See: zonecast asset verify"
                )
            }
            try files.copyAsset("\(data)/\(place)", to: "\(target)/\(place)")
            let (checksum, bytes) = try BackupFiles.checksum(of: "\(target)/\(place)")
            guard checksum.hasPrefix(asset) else {
                throw BackupFailure.unreadable(
                    "\(data)/\(place)",
                    "its content does not match its name, so the folder is not copied. To find intact copies of it: "
                        + "zonecast asset verify"
                )
            }
            summary.assets += 1
            summary.bytes += bytes
        }
    }

    /// Throws if the copy does not equal its source, or SQLite finds it damaged.
    private static func compare(_ path: String, _ data: String, _ target: String, _ summary: inout CopySummary) throws {
        let (before, after) = (
            try TableDigest.all(ofFile: "\(data)/\(path)"), try TableDigest.all(ofFile: "\(target)/\(path)")
        )
        let differing = Set(before.keys).union(after.keys).filter { before[$0] != after[$0] }.sorted()
        guard differing.isEmpty else {
            throw BackupFailure.unreadable(
                "\(target)/\(path)",
                "it differs from its source in \(differing.joined(separator: ", ")). It may have been written to in the meantime. Retry."
            )
        }
        if let fault = StoreCheck.fault(ofFile: "\(target)/\(path)") {
            throw BackupFailure.unreadable("\(target)/\(path)", "\(fault).")
        }
        summary.rows += after.values.reduce(0) { $0 + $1.rows }
    }
}

/// A digest of a table's rows: equal for two files exactly if they contain the same rows, in any order.
struct TableDigest: Hashable, Sendable {
    private(set) var rows = 0
    /// The sum of the hashes of all rows, word by word: independent of the order, and equal rows count each time.
    private var sums: [UInt64] = [0, 0, 0, 0]

    /// Returns the digests of all tables of a file, by name.
    static func all(ofFile path: String) throws -> [String: TableDigest] {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(30)
        configuration.prepareDatabase { CheckedVFS.reserveChecksumSpace($0) }
        let queue = try DatabaseQueue.ofStore(path, configuration)
        defer { try? queue.close() }
        return try queue.read { database in
            let names = try String.fetchAll(
                database,
                sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
            )
            var digests: [String: TableDigest] = [:]
            for name in names { digests[name] = try TableDigest(of: name, in: database) }
            return digests
        }
    }

    private init(of table: String, in database: Database) throws {
        let rows = try Row.fetchCursor(database, sql: "SELECT * FROM \(table.quotedDatabaseIdentifier)")
        while let row = try rows.next() {
            self.rows += 1
            var hasher = SHA256()
            for value in row.databaseValues { Self.update(&hasher, with: value) }
            let hash = Array(hasher.finalize())
            for sum in sums.indices {
                let word = hash[(sum * 8)..<(sum * 8 + 8)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                sums[sum] &+= word
            }
        }
    }

    /// Hashes the type, the length and the bytes, so that no two different rows have the same input.
    private static func update(_ hasher: inout SHA256, with value: DatabaseValue) {
        let (kind, bytes): (UInt8, [UInt8]) =
            switch value.storage {
            case .null: (0, [])
            case .int64(let number): (1, withUnsafeBytes(of: number.bigEndian) { Array($0) })
            case .double(let number): (2, withUnsafeBytes(of: number.bitPattern.bigEndian) { Array($0) })
            case .string(let text): (3, Array(text.utf8))
            case .blob(let data): (4, Array(data))
            }
        hasher.update(data: [kind])
        withUnsafeBytes(of: UInt64(bytes.count).bigEndian) { hasher.update(bufferPointer: $0) }
        hasher.update(data: bytes)
    }
}
