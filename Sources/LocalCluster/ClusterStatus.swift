import Foundation

/// What runs in a cluster; kept in its folder while it runs.
package struct ClusterStatus: Codable, Hashable, Sendable {
    package struct Node: Codable, Hashable, Sendable {
        package var name: String
        /// Where it listens; `nil` until it is ready.
        package var address: String?
        package var process: Int32?
        package var isReady: Bool
        /// How often it was started again.
        package var restarts: Int
        package var connections: Int
    }

    package enum Role: String, Codable, Sendable {
        case primary, standby, down
    }

    package struct Server: Codable, Hashable, Sendable {
        package var name: String
        package var port: Int
        package var role: Role
        /// Of a primary: the standby that must have each commit before it is confirmed; `nil` for none.
        package var confirmingStandby: String?
    }

    /// The address for clients.
    package var address: String
    package var process: Int32
    package var nodes: [Node] = []
    package var servers: [Server] = []
    /// How often a standby was promoted.
    package var failovers = 0

    /// Whether every node is ready and every server runs.
    package var isComplete: Bool {
        nodes.allSatisfy(\.isReady) && servers.allSatisfy { $0.role != .down }
    }
}

/// The folder of a cluster, which one process at a time may run.
package struct ClusterFolder: Sendable {
    package let path: String

    package init(_ path: String) { self.path = path }

    private var statusFile: String { path + "/cluster.json" }
    private var lockFile: String { path + "/cluster.lock" }

    /// Creates the folder and locks it; returns `nil` if another cluster has it.
    ///
    /// The caller unlocks the folder by closing the descriptor; the end of the process does so too.
    func lock() throws -> Int32? {
        try FileManager.default.createDirectory(
            atPath: path,
            withIntermediateDirectories: true
        )
        let descriptor = open(lockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    /// Whether a process runs the cluster.
    package var isRunning: Bool {
        let descriptor = open(lockFile, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return flock(descriptor, LOCK_EX | LOCK_NB) != 0
    }

    /// What runs; `nil` if nothing does.
    package var status: ClusterStatus? {
        guard isRunning, let data = FileManager.default.contents(atPath: statusFile) else { return nil }
        return try? JSONDecoder().decode(ClusterStatus.self, from: data)
    }

    func write(_ status: ClusterStatus) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try? encoder.encode(status).write(to: URL(fileURLWithPath: statusFile), options: .atomic)
    }

    func removeStatus() { try? FileManager.default.removeItem(atPath: statusFile) }

    private var primaryFile: String { path + "/primary" }

    /// The name of the server that was promoted last; `nil` if none was.
    var primary: String? { try? String(contentsOfFile: primaryFile, encoding: .utf8) }

    func setPrimary(_ name: String) throws {
        try Data(name.utf8).write(to: URL(fileURLWithPath: primaryFile), options: .atomic)
    }

    /// The password of the database, drawn when the folder is first used.
    func password() throws -> String {
        let file = path + "/password"
        if let known = try? String(contentsOfFile: file, encoding: .utf8), !known.isEmpty { return known }
        var random = SystemRandomNumberGenerator()
        let password = (0..<4).map { _ in String(random.next(), radix: 36) }.joined()
        guard
            FileManager.default.createFile(
                atPath: file,
                contents: Data(password.utf8),
                attributes: [.posixPermissions: 0o600]
            )
        else { throw POSIXError(.EACCES) }
        return password
    }
}
