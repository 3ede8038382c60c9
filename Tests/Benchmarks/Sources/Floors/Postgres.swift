package import Foundation
import Sockets

/// Debian's PostgreSQL with default settings, on a folder of its own, reached by a unix socket.
package final class Postgres {
    private let folder: URL
    private let binaries: String
    private var server: Process?

    /// `nil` if it is not installed.
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
        // SIGTERM starts a "smart" shutdown, which is immediate without clients.
        server?.terminate()
        server?.waitUntilExit()
    }

    /// Creates an empty database and returns its address.
    package func makeDatabase() throws -> String {
        let name = "bench\(UInt32.random(in: 0 ... .max))"
        try run("psql", login + ["-c", "CREATE DATABASE \(name)"])
        return "postgres://postgres@/\(name)?host=\(folder.path)"
    }

    /// How to install PostgreSQL.
    package static let installation = "PostgreSQL is not installed (Debian: apt install postgresql)"

    /// The rows per second that `connections` clients of pgbench insert, `rowsPerInsert` per statement and commit.
    ///
    /// Each statement contains its values, as each request to the relay does.
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

    /// Runs the server as a child instead of with `pg_ctl start`: Foundation waits for all descendants of a process.
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
        // PostgreSQL refuses to run as root; Debian's package creates a user for it.
        (geteuid() == 0 ? ["runuser", "-u", "postgres", "--"] : []) + ["\(binaries)/\(tool)"] + arguments
    }

    /// The folder with the programs of the newest installed version.
    private static var installed: String? {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "\(root)/\($0)/bin" }.first {
            FileManager.default.isExecutableFile(atPath: $0 + "/pgbench")
                && FileManager.default.isExecutableFile(atPath: $0 + "/initdb")
        }
    }
}
