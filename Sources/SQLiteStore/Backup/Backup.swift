import Foundation
import GRDB
package import Records
package import RelayCore
import RelaySystem

extension Backup {
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
        self.init(path: path, manifest: manifest)
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

extension Backup {
    /// Returns the unusable backups of a folder, by name.
    package static func unusable(in folder: String) -> [Unusable] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasSuffix(suffix) }.sorted().compactMap { name in
            do throws(BackupFailure) {
                _ = try Backup(at: "\(folder)/\(name)")
                return nil
            } catch {
                guard case .missing = error else { return Unusable(name: name, reason: error) }
                let manifest = "\(folder)/\(name)/\(manifestName)"
                // The manifest does not exist, or the caller may not read it.
                let fault = access(manifest, R_OK) == 0 ? EIO : errno
                return Unusable(name: name, reason: .unreadable(manifest, String(cString: strerror(fault)) + "."))
            }
        }
    }

    /// Returns the unusable backup that is newer than all others of a folder, by the time in its name.
    ///
    /// Ignores names that are later than `now`: such backups, of a clock that was ahead, count as the oldest.
    package static func newestUnusable(in folder: String, at now: Timestamp) -> Unusable? {
        // The second backup of a second has a number after the time.
        let timestampPart = { (name: String) in String(name.dropLast(suffix.count)) }
        let made = unusable(in: folder).filter { unusable in
            unusable.name.first?.isNumber == true && timestampPart(unusable.name).prefix(18) <= name(of: now)
        }
        guard let last = made.max(by: { timestampPart($0.name) < timestampPart($1.name) }) else { return nil }
        return all(in: folder, at: now).last.map { timestampPart($0.name) < timestampPart(last.name) } ?? true
            ? last : nil
    }
}

extension Backup {
    /// Reads the whole backup and compares it with its manifest; returns a sentence for each fault.
    ///
    /// Opens files as a restore would, has SQLite check them, and compares every zone's change numbers with its log,
    /// and every asset with the hash in its name. Changes nothing in the backup.
    package func verify(step: (String) -> Void = { _ in }) -> [String] {
        faults(manifest.files, step) { try faults(of: $0) }
            + faults(manifest.settings, step) { try checksumFault(of: $0).map { [$0] } ?? [] }
    }

    /// Returns the used assets that were missing or damaged when the backup was made.
    ///
    /// They are not faults of the backup.
    package func lackedAssets() -> [String] {
        guard manifest.lackedAssets > 0 else { return [] }
        return manifest.files.filter { $0.path != "relay.sqlite" }.flatMap { file -> [String] in
            let folder = "\(path)/\(SQLiteStore.Place.assetFolder(ofFile: file.path))"
            let used = (try? StoreContents(ofFile: "\(path)/\(file.path)").assets) ?? []
            return used.filter { !FileManager.default.fileExists(atPath: "\(folder)/\($0.prefix(2))/\($0)") }
        }
    }

    private func faults(
        _ files: [Manifest.File],
        _ step: (String) -> Void,
        _ look: (Manifest.File) throws -> [String]
    ) -> [String] {
        files.flatMap { file -> [String] in
            step(file.path)
            do {
                return try look(file)
            } catch {
                return ["\(file.path) cannot be read: \(error)"]
            }
        }
    }

    /// `nil` if the file is as it was written.
    private func checksumFault(of file: Manifest.File) throws -> String? {
        let (checksum, bytes) = try BackupFiles.checksum(of: "\(path)/\(file.path)")
        guard checksum == file.checksum, bytes == file.bytes else {
            return "\(file.path) was changed after it was written: its checksum differs."
        }
        return nil
    }

    private func faults(of file: Manifest.File) throws -> [String] {
        if let fault = try checksumFault(of: file) { return [fault] }
        var configuration = Configuration()
        configuration.readonly = true
        let address = CheckedVFS.address(of: "\(path)/\(file.path)")
        let queue = try DatabaseQueue(path: address, configuration: configuration)
        defer { try? queue.close() }
        return try queue.inDatabase { database in
            let report = try String.fetchOne(database, sql: "PRAGMA integrity_check") ?? "no answer"
            var faults = report == "ok" ? [] : ["\(file.path) is damaged: \(report)"]
            do {
                _ = try FileLayout.of(file.path).version(of: database)
            } catch let error as LayoutError {
                return faults + ["\(file.path): \(error)."]
            }
            guard file.path != "relay.sqlite" else { return faults }
            faults += try Self.logFaults(database).map { "\(file.path): \($0)" }
            return try faults + assetFaults(file, database)
        }
    }

    /// Finds records that a feed could not read; the public zone has no feed.
    private static func logFaults(_ database: Database) throws -> [String] {
        let checks = [
            (
                "SELECT count(*) FROM record r JOIN zone z ON z.id = r.zone WHERE r.change > z.last_change",
                "records are newer than their zone's log"
            ),
            (
                """
                SELECT count(*) FROM record r WHERE zone <> 1 AND NOT EXISTS (
                    SELECT 1 FROM zone_run z WHERE z.zone = r.zone AND z.run = r.run)
                """,
                "records are missing from their zone's log"
            ),
            ("SELECT count(*) FROM record WHERE zone NOT IN (SELECT id FROM zone)", "records belong to no zone"),
        ]
        return try checks.compactMap { sql, words in
            let count = try Int.fetchOne(database, sql: sql) ?? 0
            return count == 0 ? nil : "\(count) \(words)"
        }
    }

    private func assetFaults(_ file: Manifest.File, _ database: Database) throws -> [String] {
        let assets = try StoreContents(ofFile: "\(path)/\(file.path)").assets
        let folder = "\(path)/\(SQLiteStore.Place.assetFolder(ofFile: file.path))"
        var faults: [String] = []
        var found = 0
        for asset in assets {
            let place = "\(folder)/\(asset.prefix(2))/\(asset)"
            guard FileManager.default.fileExists(atPath: place) else { continue }
            found += 1
            if try BackupFiles.checksum(of: place).hex.hasPrefix(asset) { continue }
            faults.append("The asset \(asset) is damaged.")
        }
        if found < file.assets {
            faults.append("\(file.path): \(file.assets - found) of its assets are missing from the backup.")
        }
        return faults
    }
}

extension Backup {
    private static func verdictPath(_ path: String) -> String { path + ".verdict" }

    /// The result of the last verification; `nil` if the backup has not been verified.
    package var verdict: BackupVerdict? {
        FileManager.default.contents(atPath: Self.verdictPath(path))
            .flatMap { try? JSONDecoder().decode(BackupVerdict.self, from: $0) }
    }

    /// Verifies the backup, stores the result if the folder is writable, and returns a sentence for each fault.
    package func verify(now: Timestamp, step: (String) -> Void = { _ in }) -> [String] {
        let faults = verify(step: step)
        let verdict = BackupVerdict(at: now.milliseconds, faults: faults.count)
        // The backup may be in a folder that cannot be written, which does not make it worse.
        let target = Self.verdictPath(path)
        let files = BackupFiles(disk: .system)
        if let text = try? JSONEncoder().encode(verdict), (try? files.write(text, to: target + ".new")) != nil {
            try? files.rename(target + ".new", to: target)
        }
        return faults
    }

    /// Removes the backup, its verification result, and the note about its copy.
    func remove() {
        try? FileManager.default.removeItem(atPath: path)
        try? FileManager.default.removeItem(atPath: Self.verdictPath(path))
        try? FileManager.default.removeItem(atPath: path + Self.remoteSuffix)
    }
}
