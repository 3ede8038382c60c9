package import Foundation
import Sockets

/// Debian's PostgreSQL with its default settings, started on a folder of its own and reached by a unix socket.
package final class Postgres {
    private let folder: URL
    private let binaries: String
    private var server: Process?

    /// `nil` where it is not installed.
    package init?(folder: URL) throws {
        guard let binaries = Self.installed else { return nil }
        self.binaries = binaries
        self.folder = folder
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        if geteuid() == 0 { try Shell.run("chown", ["postgres", folder.path]) }
        try run("initdb", ["-D", data, "--no-locale", "--encoding=UTF8", "--auth=trust", "-U", "postgres"])
        server = try start()
        try awaitReady()
        try run("psql", login + ["-c", BareRows.table])
    }

    deinit {
        // Without clients its answer to SIGTERM, the "smart" shutdown, comes at once.
        server?.terminate()
        server?.waitUntilExit()
    }

    /// What to tell a person who wants this peer.
    package static let installation = "PostgreSQL is not installed (Debian: apt install postgresql)"

    /// Rows per second that `connections` clients of pgbench insert, `rowsPerInsert` with each statement and commit.
    ///
    /// The values travel with each statement, as they do with each request to the relay.
    package func insert(_ body: String, rowsPerInsert: Int, connections: Int, seconds: Double) throws -> Double {
        let values = (0..<rowsPerInsert).map { "(1, 'record-' || (:first + \($0)), '\(body)')" }
        let script = folder.appendingPathComponent("insert-\(rowsPerInsert).sql")
        let text =
            "\\set first random(1, 9000000000000000)\nINSERT INTO record VALUES " + values.joined(separator: ", ")
            + ";\n"
        try text.write(to: script, atomically: true, encoding: .utf8)
        let output = try run(
            "pgbench",
            login.dropLast(2) + [
                "-n", "-f", script.path, "-c", "\(connections)", "-j", "\(min(2, connections))", "-T",
                "\(max(1, Int(seconds.rounded())))", "postgres",
            ]
        )
        for line in output.split(separator: "\n") where line.hasPrefix("tps = ") {
            if let value = line.split(separator: " ").dropFirst(2).first.flatMap({ Double($0) }) {
                return value * Double(rowsPerInsert)
            }
        }
        throw LoadError.missing("pgbench printed no rate: \(output.suffix(500))")
    }

    /// As a child and not by `pg_ctl start`: Foundation waits for a process until all that it left behind have ended.
    private func start() throws -> Process {
        let command = command(
            "postgres",
            ["-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories=\(folder.path)"]
                + ["-c", "max_connections=200"]
        )
        let server = Process()
        server.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        server.arguments = command
        server.currentDirectoryURL = URL(fileURLWithPath: "/")
        server.standardOutput = FileHandle.nullDevice
        server.standardError = FileHandle.nullDevice
        try server.run()
        return server
    }

    private func awaitReady() throws {
        let start = Monotonic.nanoseconds
        while (try? run("pg_isready", ["-h", folder.path])) == nil {
            guard Monotonic.seconds(since: start) < 30 else { throw LoadError.timedOut("PostgreSQL to start") }
            pause(microseconds: 50_000)
        }
    }

    private var data: String { folder.path + "/data" }
    private var login: [String] { ["-h", folder.path, "-U", "postgres", "-d", "postgres"] }

    @discardableResult
    private func run(_ tool: String, _ arguments: [String]) throws -> String {
        let command = command(tool, arguments)
        return try Shell.run(command[0], Array(command.dropFirst()))
    }

    private func command(_ tool: String, _ arguments: [String]) -> [String] {
        // It refuses to run as root; Debian's package makes a user for it.
        (geteuid() == 0 ? ["runuser", "-u", "postgres", "--"] : []) + ["\(binaries)/\(tool)"] + arguments
    }

    /// The folder with the newest installed version's programs.
    private static var installed: String? {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "\(root)/\($0)/bin" }.first {
            FileManager.default.isExecutableFile(atPath: $0 + "/pgbench")
                && FileManager.default.isExecutableFile(atPath: $0 + "/initdb")
        }
    }
}
