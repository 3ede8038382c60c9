import Foundation
package import Records

extension Backup {
    /// A finished backup of which nobody can tell what is in it.
    package struct Unusable: Sendable {
        package var name: String
        package var reason: BackupFailure
    }

    /// Those of a folder, by their names.
    package static func unusable(in folder: String) -> [Unusable] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasSuffix(suffix) }.sorted().compactMap { name in
            do throws(BackupFailure) {
                _ = try Backup(at: "\(folder)/\(name)")
                return nil
            } catch {
                guard case .missing = error else { return Unusable(name: name, reason: error) }
                let manifest = "\(folder)/\(name)/\(manifestName)"
                // Not there, or not for whoever asks.
                let fault = access(manifest, R_OK) == 0 ? EIO : errno
                return Unusable(name: name, reason: .unreadable(manifest, String(cString: strerror(fault)) + "."))
            }
        }
    }

    /// The one that would be the newest of a folder, were it sound: by its name, which is the moment that it was made.
    ///
    /// Not what a clock that was ahead has named: those count as the oldest.
    package static func newestUnusable(in folder: String, at now: Timestamp) -> Unusable? {
        // The second one of a second has a number behind its moment.
        let moment = { (name: String) in String(name.dropLast(suffix.count)) }
        let made = unusable(in: folder).filter { unusable in
            unusable.name.first?.isNumber == true && moment(unusable.name).prefix(18) <= name(of: now)
        }
        guard let last = made.max(by: { moment($0.name) < moment($1.name) }) else { return nil }
        return all(in: folder, at: now).last.map { moment($0.name) < moment(last.name) } ?? true ? last : nil
    }
}
