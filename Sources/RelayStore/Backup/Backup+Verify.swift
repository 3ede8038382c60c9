import Foundation
import GRDB

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
