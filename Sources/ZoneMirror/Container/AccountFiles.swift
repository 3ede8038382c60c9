import Foundation
import GRDB

/// Which account's data are in which file: the first account's in the store's own, others' beside it.
///
/// Nobody counts as one.
///
/// Kept in a small file next to the store, so that the right one is opened without asking the relay.
struct AccountFiles: Codable {
    /// File names by user record name.
    private var files: [String: String] = [:]
    /// Whose file was open last.
    private var last: String?

    private static func place(_ url: URL) -> URL { url.appendingPathExtension("accounts") }

    static func load(_ url: URL) -> AccountFiles {
        guard let data = try? Data(contentsOf: place(url)),
            let known = try? JSONDecoder().decode(AccountFiles.self, from: data)
        else { return AccountFiles(ofStoreAt: url) }
        return known
    }

    init() {}

    /// Of a store whose small file is not there, or cannot be read: whose data are in the store's own file stands in that.
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

    /// Stands for nobody, who is signed in as long as no user is.
    static let nobody = ""

    var lastUser: String? { last == Self.nobody ? nil : last }

    /// Where nobody's data are; `nil` where there never were any.
    func nobodysPath(of url: URL) -> String? { files[Self.nobody] == nil ? nil : path(for: Self.nobody, of: url) }

    /// Forgets a user whose files are gone.
    mutating func forget(_ user: String) {
        // The store's own file is not given to another: its name alone is free.
        if files[user] != nil { files[user] = nil }
        if last == user { last = Self.nobody }
    }

    /// The file to open for a user; `nil`: whoever was here last, or nobody yet.
    func path(for user: String?, of url: URL) -> String {
        guard let user = user ?? last, let name = files[user] else { return url.path }
        return url.deletingLastPathComponent().appendingPathComponent(name).path
    }

    /// Notes that a user's data are in a file; says which, for one not seen before.
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
