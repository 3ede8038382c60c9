import Foundation
import GRDB
package import Records
package import RelayCore
import RelaySystem

extension StoreFiles {
    /// The version of SQLite that this program uses.
    package static var engine: String {
        let queue = try? DatabaseQueue()
        return (try? queue?.read { try String.fetchOne($0, sql: "SELECT sqlite_version()") }) ?? "?"
    }

    /// `nil` if the environment is unused.
    ///
    /// - Throws: `DirectoryError` if the file cannot be read.
    package init?(of home: ContainerEnvironment, in folder: String) throws {
        self.init()
        let path = StoreFolder.path(of: home, in: folder)
        if access(path, F_OK) != 0 {
            guard errno == ENOENT else {
                throw DirectoryError.unavailable("\(path): \(String(cString: strerror(errno))).")
            }
            // A lost store is reported below.
            guard StoreMarker.isThere(for: path) else { return nil }
        }
        bytes = Self.size(path)
        logBytes = Self.size(path + "-wal")
        var used: Set<String> = []
        do {
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(10)
            let queue = try DatabaseQueue.ofStore(path, configuration)
            defer { try? queue.close() }
            try queue.read { database in
                layout = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
                let rows = try Row.fetchCursor(database, sql: "SELECT DISTINCT hash FROM asset_use")
                while let row = try rows.next() { used.insert(Hex.encode(row[0] as Data)) }
            }
        } catch {
            throw DirectoryError(error, in: path)
        }
        assets = Self.assets(in: SQLiteStore.Place.assetFolder(ofFile: path), used)
        missing = used.subtracting(assets.map(\.hash)).sorted()
    }

    /// Returns the path of an asset in a data folder or in a backup.
    package static func path(of hash: String, in home: ContainerEnvironment, folder: String) -> String {
        let assets = SQLiteStore.Place.assetFolder(ofFile: StoreFolder.path(of: home, in: folder))
        return "\(assets)/\(hash.prefix(2))/\(hash)"
    }

    /// Returns whether an asset's content matches its name.
    static func isWhole(_ hash: String, in home: ContainerEnvironment, folder: String) -> Bool {
        guard let (checksum, _) = try? BackupFiles.checksum(of: path(of: hash, in: home, folder: folder)) else {
            return false
        }
        return checksum.hasPrefix(hash)
    }

    private static func assets(in folder: String, _ used: Set<String>) -> [Asset] {
        var found: [Asset] = []
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] where name != "incoming" {
            for file in (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/\(name)")) ?? [] {
                let path = "\(folder)/\(name)/\(file)"
                var facts = stat()
                guard Hex.isDigits(file, count: AssetHash.byteCount * 2), stat(path, &facts) == 0 else { continue }
                let came = facts.modified
                found.append(
                    Asset(
                        hash: file,
                        bytes: Int64(facts.st_size),
                        isUsed: used.contains(file),
                        came: Timestamp(milliseconds: Int64(came.tv_sec) * 1000 + Int64(came.tv_nsec) / 1_000_000)
                    )
                )
            }
        }
        return found.sorted { $0.hash < $1.hash }
    }

    private static func size(_ path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }
}
