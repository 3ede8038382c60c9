import Foundation
import RelayStore

/// Where a relay is and who speaks to it, kept for later commands: `~/.config/zonecast/profiles.json`, for its owner alone.
struct Profile: Codable, Hashable, Sendable {
    static let standardName = "default"

    var url: String
    var apiToken: String?
    var webToken: String?
    /// The container and environment that it was made for; `nil` in files of earlier versions.
    var container: String?
    var environment: String?

    /// The profile of this name; `nil` where none is saved, which for any other name than the standard one is a mistake.
    static func named(_ name: String?) throws -> Profile? {
        let environment = ProcessInfo.processInfo.environment
        let wanted = name ?? environment["ZONECAST_PROFILE"]
        let all = try all()
        if let found = all[wanted ?? standardName] { return found }
        guard let wanted, wanted != standardName else { return nil }
        let known = all.keys.sorted().joined(separator: ", ")
        throw CommandFailure(
            .usage,
            "There is no profile \(wanted)\(known.isEmpty ? "" : ", only \(known)"). Make it with: zonecast login --profile \(wanted)"
        )
    }

    static func all() throws -> [String: Profile] {
        guard FileManager.default.fileExists(atPath: path) else { return [:] }
        do {
            // What is no file at all, such as a folder, is no text either.
            let data = FileManager.default.contents(atPath: path) ?? Data()
            return try JSONDecoder().decode([String: Profile].self, from: data)
        } catch {
            throw CommandFailure(
                .failed,
                "\(path) is no file of profiles that you may read. Move it away and sign in again: zonecast login"
            )
        }
    }

    /// Keeps this under a name; `nil` forgets what was kept.
    static func keep(_ profile: Profile?, as name: String) throws {
        var all = try all()
        all[name] = profile
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
        do {
            let folder = (path as NSString).deletingLastPathComponent
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            // Never there with the rights of others, not for a moment.
            let fresh = path + ".new"
            unlink(fresh)
            guard
                FileManager.default.createFile(
                    atPath: fresh,
                    contents: try encoder.encode(all),
                    attributes: [.posixPermissions: 0o600]
                ), rename(fresh, path) == 0
            else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        } catch {
            throw CommandFailure(.failed, "\(path) cannot be written: \(FolderAccess.reason(error))")
        }
    }

    private static var path: String {
        let environment = ProcessInfo.processInfo.environment
        let base = environment["XDG_CONFIG_HOME"] ?? "\(environment["HOME"] ?? ".")/.config"
        return "\(base)/zonecast/profiles.json"
    }
}
