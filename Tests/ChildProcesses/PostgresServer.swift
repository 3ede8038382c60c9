import Foundation
import Synchronization

/// A PostgreSQL server in a temporary folder, reached through a socket in that folder.
///
/// A shell watches over it: when the test's process ends, in whatever way, the server stops and its folder is removed.
package final class PostgresServer: Sendable {
    /// What went wrong at the start, as PostgreSQL's programs said it.
    package struct StartError: Error, CustomStringConvertible {
        package let description: String
    }

    /// The server for all tests of this process that need no settings of their own.
    ///
    /// Throws away what is written at a loss of power, so that commits are fast.
    package static let shared = Result { try PostgresServer() }

    /// Whether PostgreSQL is installed.
    package static var isInstalled: Bool { programs != nil }

    /// The reason with which tests are skipped.
    package static let notInstalled: String =
        "PostgreSQL 15 or later is not installed: Deploy/setup --postgres"

    package let folder: String
    private let supervisor: ChildProcess
    /// Ends the server when it is closed, as it is when the process ends.
    private let life: Pipe
    private let number = Atomic<Int>(0)

    /// Where Debian and others put the programs; the newest version first.
    private static let programs: String? = {
        let versions = (15...30).reversed()
        let places =
            versions.map { "/usr/lib/postgresql/\($0)/bin" } + versions.map { "/opt/homebrew/opt/postgresql@\($0)/bin" }
            + ["/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin"]
        return places.first { place in
            ["initdb", "postgres", "psql"].allSatisfy { FileManager.default.isExecutableFile(atPath: "\(place)/\($0)") }
        }
    }()

    private static let script = """
        folder=$1 programs=$2; shift 2
        run=
        if [ "$(id -u)" = 0 ]; then
            chown postgres "$folder"
            run='setpriv --reuid postgres --regid postgres --init-groups'
        fi
        cd "$folder"
        trap 'rm -rf "$folder"' EXIT
        $run "$programs/initdb" -D data --no-locale --encoding=UTF8 --auth=trust -U postgres --no-sync > log 2>&1 \
            || { tail -n 3 log; exit 1; }
        printf '%s\\n' 'local all locked scram-sha-256' 'local all all trust' 'local replication all trust' > data/pg_hba.conf
        $run "$programs/postgres" -D data -k "$folder" -c listen_addresses= -c max_connections=1000 \
            -c full_page_writes=off -c autovacuum=off "$@" >> log 2>&1 &
        server=$!
        tries=3000
        until $run "$programs/pg_isready" -q -h "$folder"; do
            tries=$((tries - 1))
            [ $tries -gt 0 ] && kill -0 $server 2> /dev/null || { tail -n 3 log; kill $server 2> /dev/null; exit 1; }
            sleep 0.02
        done
        echo ready
        read -r end
        kill -INT $server
        wait $server
        """

    /// Starts a server; `settings` are additional ones, each as `name=value`.
    package init(settings: [String] = ["fsync=off"]) throws {
        guard let programs = Self.programs else { throw StartError(description: Self.notInstalled) }
        folder = NSTemporaryDirectory() + "zpg-" + UUID().uuidString.prefix(8).lowercased()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        supervisor = ChildProcess()
        life = Pipe()
        let output = Pipe()
        supervisor.mostSeconds = nil
        supervisor.executableURL = URL(fileURLWithPath: "/bin/sh")
        supervisor.arguments = ["-c", Self.script, "sh", folder, programs] + settings.flatMap { ["-c", $0] }
        supervisor.standardInput = life
        supervisor.standardOutput = output
        try supervisor.run()
        var text = ""
        while !text.hasSuffix("ready\n") {
            let part = output.fileHandleForReading.availableData
            guard !part.isEmpty else { throw StartError(description: "PostgreSQL did not start: \(text)") }
            text += String(decoding: part, as: UTF8.self)
        }
    }

    deinit { stop() }

    /// Stops the server, with its connections, and removes its folder.
    package func stop() {
        try? life.fileHandleForWriting.close()
        supervisor.waitUntilExit()
    }

    /// Returns the URL of a database.
    package func url(of database: String, user: String = "postgres") -> String {
        let folder = folder.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? folder
        return "postgres://\(user)@/\(database)?host=\(folder)"
    }

    /// Copies `template`, which must have no connections, to a new database for the test, and returns its URL.
    package func makeDatabase(from template: String = "template0") throws -> String {
        let name = "test\(number.add(1, ordering: .relaxed).newValue)"
        try execute("CREATE DATABASE \(name) TEMPLATE \(template)")
        return url(of: name)
    }

    /// Runs statements in a database, and returns the rows as text.
    @discardableResult
    package func execute(_ sql: String, in database: String = "postgres") throws -> String {
        let process = ChildProcess()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: (Self.programs ?? "") + "/psql")
        process.arguments = [
            "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", folder, "-U", "postgres", "-d", database, "-c", sql,
        ]
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw StartError(description: text) }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
