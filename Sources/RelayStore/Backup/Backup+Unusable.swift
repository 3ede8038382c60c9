import Foundation
package import Records

extension Backup {
    /// A finished backup whose content is unknown.
    package struct Unusable: Sendable {
        package var name: String
        package var reason: BackupFailure
    }

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
        let moment = { (name: String) in String(name.dropLast(suffix.count)) }
        let made = unusable(in: folder).filter { unusable in
            unusable.name.first?.isNumber == true && moment(unusable.name).prefix(18) <= name(of: now)
        }
        guard let last = made.max(by: { moment($0.name) < moment($1.name) }) else { return nil }
        return all(in: folder, at: now).last.map { moment($0.name) < moment(last.name) } ?? true ? last : nil
    }
}
