import Foundation
import RelayStore

extension FolderChecks {
    /// Returns a finding for a file or folder that the relay's user cannot use, such as one created by root; `nil` if
    /// there is none.
    ///
    /// Uses `access(2)`: opening and closing a file of SQLite would release the locks of a relay in this process.
    func strange() -> Finding? {
        guard let path = used.first(where: isShut) else { return nil }
        let (owner, relay) = (Self.owner(of: path), Self.owner(of: folder))
        guard owner != relay else {
            return Finding(
                "storage",
                .problem,
                "\(path) is not readable and writable for its owner",
                next: "chmod -R u+rwX \(folder.shellWord)"
            )
        }
        return Finding(
            "storage",
            .problem,
            "\(path) belongs to \(owner), so a relay that runs as \(relay) cannot use it",
            next: "sudo chown -R \(relay): \(folder.shellWord)"
        )
    }

    /// The files and folders that a relay reads and writes, except assets.
    private var used: [String] {
        let own = ["relay.sqlite", "relay.sqlite-wal", "relay.sqlite-shm", "relay.lock", "assets.lock", "alerts.json"]
        let containers = "\(folder)/containers"
        let places = Self.contents(containers).map { "\(containers)/\($0)" }
        return own.map { "\(folder)/\($0)" } + [containers] + places + places.flatMap(Self.databases)
    }

    private static func databases(in place: String) -> [String] {
        contents(place).filter { $0.contains(".sqlite") }.map { "\(place)/\($0)" }
    }

    private static func contents(_ folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted()
    }

    private func isShut(_ path: String) -> Bool {
        guard let status = FileStatus(path: path) else { return false }
        return access(path, R_OK | W_OK | (status.kind == S_IFDIR ? X_OK : 0)) != 0 && errno == EACCES
    }

    private static func owner(of path: String) -> String {
        let facts = try? FileManager.default.attributesOfItem(atPath: path)
        return facts?[.ownerAccountName] as? String
            ?? (facts?[.ownerAccountID] as? NSNumber).map { "\($0)" } ?? "another user"
    }
}
