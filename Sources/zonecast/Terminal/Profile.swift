import Foundation
import RelayCore
import RelaySystem

/// A relay's address and credentials, saved for later commands in `~/.config/zonecast/profiles.json`, readable only by
/// its owner.
struct Profile: Codable, Hashable, Sendable {
    static let standardName = "default"

    var url: String
    var apiToken: String?
    var webToken: String?
    /// The identifier and the file of a server key, which signs requests instead of tokens; never saved.
    var keyID: String?
    var keyFile: String?
    /// The container and environment of the credentials; every saved profile has both.
    var container: String?
    var environment: String?

    /// Returns the profile with this name, or the default one; `nil` if no default profile is saved.
    ///
    /// - Throws: `CommandFailure` if a named profile does not exist.
    static func named(_ name: String?) throws -> Profile? {
        let environment = ProcessInfo.processInfo.environment
        let wanted = name ?? environment["ZONECAST_PROFILE"]
        let all = try all()
        if let found = all[wanted ?? standardName] { return found }
        guard let wanted, wanted != standardName else { return nil }
        let known = all.keys.sorted().joined(separator: ", ")
        throw CommandFailure(
            .usage,
            "There is no profile \(wanted)\(known.isEmpty ? "" : ", only \(known)"). Create it: zonecast login --profile \(wanted)"
        )
    }

    static func all() throws -> [String: Profile] {
        guard FileManager.default.fileExists(atPath: path) else { return [:] }
        do {
            // A path that is not a file, such as a folder, fails to decode too.
            let data = FileManager.default.contents(atPath: path) ?? Data()
            return try JSONDecoder().decode([String: Profile].self, from: data)
        } catch {
            throw CommandFailure(
                .failed,
                "\(path) is not a readable profile file. Move it to another place and sign in again: zonecast login"
            )
        }
    }

    /// Saves a profile under a name; `nil` deletes it.
    static func save(_ profile: Profile?, as name: String) throws {
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
            // Symbolic links stay.
            let place = ConfigurationFileReplacement(path).path
            // The file is never readable for others, not even briefly.
            let fresh = place + ".new"
            unlink(fresh)
            guard
                FileManager.default.createFile(
                    atPath: fresh,
                    contents: try encoder.encode(all),
                    attributes: [.posixPermissions: 0o600]
                ), rename(fresh, place) == 0
            else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        } catch {
            throw CommandFailure(
                .failed,
                "\(path) cannot be written: \(FolderAccess.reason(error)). Check its owner and the free space."
            )
        }
    }

    private static var path: String {
        let environment = ProcessInfo.processInfo.environment
        let base = environment["XDG_CONFIG_HOME"] ?? "\(environment["HOME"] ?? ".")/.config"
        return "\(base)/zonecast/profiles.json"
    }
}
