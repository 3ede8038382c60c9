import Foundation
import GRDB

/// Maps accounts to the files of a store: the first account uses the store's own file, the others use files in the
/// same folder.
///
/// Having no user counts as an account. The map is stored in a small file beside the store, so that the right file can
/// be opened without a request.
struct AccountFiles: Codable {
    /// File names by user record name.
    private var files: [String: String] = [:]
    /// The user whose file was open last.
    private var last: String?

    private static func place(_ url: URL) -> URL { url.appendingPathExtension("accounts") }

    static func load(_ url: URL) -> AccountFiles {
        guard let data = try? Data(contentsOf: place(url)),
            let known = try? JSONDecoder().decode(AccountFiles.self, from: data)
        else { return AccountFiles(ofStoreAt: url) }
        return known
    }

    init() {}

    /// Restores the map if its file is missing or damaged: the store's own file contains the name of its user.
    private init(ofStoreAt url: URL) {
        guard FileManager.default.fileExists(atPath: url.path) else { return }
        var configuration = Configuration()
        configuration.readonly = true
        let user = try? DatabaseQueue(path: url.path, configuration: configuration).read {
            try State.text($0, .account)
        }
        guard let user = user ?? nil else { return }
        files[user] = url.lastPathComponent
        last = user
    }

    func store(_ url: URL) throws { try JSONEncoder().encode(self).write(to: Self.place(url), options: .atomic) }

    /// The account used while no user is signed in.
    static let nobody = ""

    var lastUser: String? { last == Self.nobody ? nil : last }

    /// The path of the data written without a user; `nil` if there never were any.
    func nobodysPath(of url: URL) -> String? { files[Self.nobody] == nil ? nil : path(for: Self.nobody, of: url) }

    /// Forgets a user whose files were deleted.
    mutating func forget(_ user: String) {
        // The store's own file is not given to another user; only its name is free.
        if files[user] != nil { files[user] = nil }
        if last == user { last = Self.nobody }
    }

    /// Returns the path of a user's file; `nil` means the last user, or none yet.
    func path(for user: String?, of url: URL) -> String {
        guard let user = user ?? last, let name = files[user] else { return url.path }
        return url.deletingLastPathComponent().appendingPathComponent(name).path
    }

    /// Assigns a user to a file and returns its path; a new user gets a new file.
    mutating func assign(_ user: String, of url: URL) -> String {
        last = user
        if files[user] == nil {
            let isFirst = files.isEmpty
            let name = url.lastPathComponent
            files[user] =
                isFirst
                ? name
                : "\(url.deletingPathExtension().lastPathComponent)-\(user.isEmpty ? "nobody" : user).\(url.pathExtension)"
        }
        return path(for: user, of: url)
    }
}
