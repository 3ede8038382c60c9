import Foundation
import GRDB
package import RelayCore
import RelaySystem
import Synchronization

/// Reads every page of a data folder's SQLite files, periodically in a running relay and on demand in `doctor`.
package enum StoreCheck {
    /// Checks the files of a data folder, which a relay may be using.
    ///
    /// - Parameters:
    ///   - data: the data folder.
    ///   - step: called with the path of each file before it is read.
    /// - Returns: one fault for each file that is not as it was written.
    /// - Throws: an error if the folder cannot be listed.
    package static func faults(in data: String, step: (String) -> Void = { _ in }) throws -> [StorageFault] {
        try BackupFiles.databases(in: data).compactMap { file in
            step(file)
            // A command may be replacing the store.
            let lock = AssetLock.copying(of: data)
            defer { lock?.release() }
            return fault(ofFile: "\(data)/\(file)").map { StorageFault(file: file, what: $0) }
        }
    }

    /// Returns what is wrong with a file; `nil` if it is as it was written, or locked by another process.
    static func fault(ofFile path: String) -> String? {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        do {
            let queue = try DatabaseQueue.ofStore(path, configuration)
            defer { try? queue.close() }
            let report = try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA integrity_check(1)") }
            let places = DamageLog.places(of: path)
            if !places.isEmpty { return places.joined(separator: ", ") }
            guard report == "ok" else { return report ?? "no answer" }
            try queue.read { try StoreLayout.requireOwnFile($0, path) }
            return nil
        } catch  where StoreFailure.isDamage(error) {
            let places = DamageLog.places(of: path)
            return places.isEmpty ? "SQLite cannot read it" : places.joined(separator: ", ")
        } catch {
            return nil
        }
    }

    /// What the operator can do, as a sentence to follow the description of a fault.
    package static func remedy(data: String) -> String {
        "Check the disk, and restore a backup: zonecast backup restore latest --data \(data.shellWord). "
            + "If another program changed the file on purpose, accept its changes: sqlite3 FILE VACUUM."
    }
}

/// The damaged places that have been found, by file, to report them to the operator.
///
/// SQLite's errors say only that something is damaged.
package enum DamageLog {
    private static let places = Mutex<[String: Set<String>]>([:])
    /// A failing disk may damage everything.
    private static let most = 100

    static func note(_ place: String, of path: String) {
        let path = real(path)
        places.withLock { places in
            guard places[path, default: []].count < most else { return }
            places[path, default: []].insert(place)
        }
    }

    /// Returns the known damaged places of a file, in words.
    package static func places(of path: String) -> [String] {
        let path = real(path)
        return places.withLock { ($0[path] ?? []).sorted() }
    }

    /// Removes the entries of a file that another one has replaced.
    static func forget(_ path: String) {
        let path = real(path)
        places.withLock { $0[path] = nil }
    }

    /// Returns the path in the form that SQLite uses.
    private static func real(_ path: String) -> String {
        guard let name = realpath(path, nil) else { return path }
        defer { free(name) }
        return String(cString: name)
    }
}
