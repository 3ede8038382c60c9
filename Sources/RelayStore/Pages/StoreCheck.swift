import Foundation
import GRDB

/// Reads every page of a data folder's SQLite files, as a relay that runs does now and then and `doctor` on demand.
package enum StoreCheck {
    /// What is wrong with one file.
    package struct Fault: Hashable, Sendable, CustomStringConvertible {
        /// In the data folder.
        package var file: String
        /// What SQLite and the pages' sums say, in a few words.
        package var what: String

        package var description: String { "\(file) is damaged: \(what)" }
    }

    /// What is wrong with the files of a data folder, which a relay may be using.
    ///
    /// - Parameters:
    ///   - data: the data folder.
    ///   - step: hears the path of each file before it is read.
    /// - Returns: one for each file that is not as it was written.
    /// - Throws: where the folder cannot be listed.
    package static func faults(in data: String, step: (String) -> Void = { _ in }) throws -> [Fault] {
        try BackupFiles.databases(in: data).compactMap { file in
            step(file)
            return fault(ofFile: "\(data)/\(file)").map { Fault(file: file, what: $0) }
        }
    }

    /// What is wrong with a file; `nil` where all of it is as it was written, or somebody keeps it locked.
    static func fault(ofFile path: String) -> String? {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        do {
            let queue = try DatabaseQueue.ofStore(path, configuration)
            defer { try? queue.close() }
            let report = try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA integrity_check(1)") }
            let places = DamageLedger.places(of: path)
            if !places.isEmpty { return places.joined(separator: ", ") }
            guard report == "ok" else { return report ?? "no answer" }
            try StoreLayout.demandOurs(queue, path)
            return nil
        } catch  where StoreFailure.isDamage(error) {
            let places = DamageLedger.places(of: path)
            return places.isEmpty ? "SQLite cannot read it" : places.joined(separator: ", ")
        } catch {
            return nil
        }
    }

    /// What an operator can do about it, to follow the sentence that says what is wrong.
    package static func remedy(data: String) -> String {
        "Look at the disk, and restore a backup: zonecast backup restore latest --data \(data.shellWord). "
            + "If another program has written to the file and it is as you want it: sqlite3 FILE VACUUM."
    }
}
