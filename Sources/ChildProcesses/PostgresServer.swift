import Foundation
import Synchronization

/// A PostgreSQL server of this process: one in a temporary folder for tests, or one that keeps its data.
///
/// A shell watches over it: when this process ends, in whatever way, the server stops. A temporary folder is then removed.
package final class PostgresServer: Sendable {
    /// What went wrong, as PostgreSQL's programs said it.
    package struct StartError: Error, CustomStringConvertible {
        package let description: String
    }

    /// A server that keeps its data.
    package struct Place: Sendable {
        /// The folder for the data and the log, which is created if it does not exist.
        package var folder: String
        /// The port on 127.0.0.1.
        package var port: Int
        /// The password of the user `postgres`, which every connection needs.
        package var password: String
        /// The name under which it follows a primary.
        package var name: String

        package init(folder: String, port: Int, password: String, name: String) {
            self.folder = folder
            self.port = port
            self.password = password
            self.name = name
        }
    }

    /// The server for all tests of this process that need no settings of their own.
    ///
    /// Throws away what is written at a loss of power, so that commits are fast.
    package static let shared = Result {
        let server = try PostgresServer()
        try server.execute("CREATE ROLE locked LOGIN PASSWORD '\(lockedPassword)'")
        return server
    }

    /// The password of the role `locked` of the shared server, the only role that needs one.
    package static let lockedPassword = "opensesame"

    /// Whether PostgreSQL is installed.
    package static var isInstalled: Bool { programs != nil }

    /// The reason with which tests are skipped.
    package static let notInstalled: String =
        "PostgreSQL 15 or later is not installed: Deploy/setup --postgres"

    package let folder: String
    private let host: String
    private let port: Int
    private let password: String?
    private let supervisor: ChildProcess
    /// Ends the server when it is closed, as it is when the process ends.
    private let life: Pipe
    private let number = Atomic<Int>(0)

    /// Returns the path of one of PostgreSQL's programs.
    package static func program(_ name: String) -> String { "\(programs ?? "")/\(name)" }

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

    /// Creates the data folder if there is none, as a copy of `source` if that is given, and runs the server until the
    /// input ends.
    private static let script = """
        folder=$1 programs=$2 keeps=$3 source=$4; shift 4
        umask 077
        run=
        if [ "$(id -u)" = 0 ]; then
            chown postgres "$folder"
            [ ! -f "$folder/password" ] || chown postgres "$folder/password"
            run='setpriv --reuid postgres --regid postgres --init-groups'
        fi
        cd "$folder"
        sync=
        case "$*" in *fsync=off*) sync=--no-sync ;; esac
        [ "$keeps" = yes ] || trap 'rm -rf "$folder"' EXIT
        if [ ! -f data/PG_VERSION ]; then
            rm -rf data
            if [ -n "$source" ]; then
                $run "$programs/pg_basebackup" -D data -R -X stream -c fast $sync -d "$source" >> log 2>&1 \
                    || { tail -n 3 log; exit 1; }
            elif [ "$keeps" = yes ]; then
                $run "$programs/initdb" -D data --no-locale --encoding=UTF8 --auth=scram-sha-256 -U postgres \
                    $sync --pwfile=password > log 2>&1 || { tail -n 3 log; exit 1; }
            else
                $run "$programs/initdb" -D data --no-locale --encoding=UTF8 --auth=trust -U postgres --no-sync \
                    > log 2>&1 || { tail -n 3 log; exit 1; }
                printf '%s\\n' 'local all locked scram-sha-256' 'local all all trust' 'local replication all trust' \
                    > data/pg_hba.conf
            fi
        fi
        $run "$programs/postgres" -D data "$@" >> log 2>&1 &
        server=$!
        tries=3000
        until $run "$programs/pg_isready" -q; do
            tries=$((tries - 1))
            [ $tries -gt 0 ] && kill -0 $server 2> /dev/null || { tail -n 3 log; kill $server 2> /dev/null; exit 1; }
            sleep 0.02
        done
        echo ready
        exec 3<&0 >&-
        { read -r end <&3; kill -INT $server; } &
        reader=$!
        wait $server
        kill $reader 2> /dev/null
        """

    /// Where the files of a server go that need not survive: in memory, if there is enough.
    ///
    /// A test run has some ten thousand files in hundreds of databases, which take minutes to remove from a busy disk.
    private static let folderWithoutSync: String = {
        let memory = "/dev/shm"
        let space = try? FileManager.default.attributesOfFileSystem(forPath: memory)[.systemFreeSize] as? Int64
        return (space ?? 0) >= 8 << 30 ? memory : folderWithSync
    }()
    private static let folderWithSync = URL(fileURLWithPath: NSTemporaryDirectory()).path

    /// Starts a server in a temporary folder, reached through a socket there.
    ///
    /// - Parameter settings: additional ones, each as `name=value`.
    /// - Throws: `StartError`.
    package convenience init(settings: [String] = ["fsync=off"]) throws {
        try self.init(source: nil, settings)
    }

    /// Starts a hot standby of a server in a temporary folder, in another one.
    ///
    /// - Parameters:
    ///   - primary: the server that it copies and follows.
    ///   - settings: additional ones, each as `name=value`.
    /// - Throws: `StartError`.
    package convenience init(following primary: PostgresServer, settings: [String] = ["fsync=off"]) throws {
        try self.init(source: "host=\(primary.host) port=\(primary.port) user=postgres", settings)
    }

    private convenience init(source: String?, _ settings: [String]) throws {
        let isSynced = !settings.contains("fsync=off")
        let parent = isSynced ? Self.folderWithSync : Self.folderWithoutSync
        let folder = parent + "/zpg-" + UUID().uuidString.prefix(8).lowercased()
        let own = [
            "unix_socket_directories=\(folder)", "listen_addresses=", "max_connections=1000", "full_page_writes=off",
            "autovacuum=off",
        ]
        try self.init(folder: folder, host: folder, port: 5432, password: nil, source: source, settings: own + settings)
    }

    /// Starts a server that keeps its data.
    ///
    /// - Parameters:
    ///   - place: its folder and port.
    ///   - primary: the server that it copies and follows, if its folder is empty.
    ///   - proxy: the port of a proxy in front of the primary; `nil` for the primary's own.
    ///   - settings: additional ones, each as `name=value`.
    /// - Throws: `StartError`.
    package convenience init(
        _ place: Place,
        following primary: PostgresServer? = nil,
        through proxy: Int? = nil,
        settings: [String] = []
    ) throws {
        let own = [
            "unix_socket_directories=", "listen_addresses=127.0.0.1", "port=\(place.port)", "max_connections=500",
            "wal_keep_size=256MB", "wal_receiver_timeout=5s", "wal_sender_timeout=5s", "timezone=UTC",
        ]
        try self.init(
            folder: place.folder,
            host: "127.0.0.1",
            port: place.port,
            password: place.password,
            source: primary.map {
                "host=\($0.host) port=\(proxy ?? $0.port) user=postgres application_name=\(place.name)"
            },
            settings: own + settings
        )
    }

    private init(
        folder: String,
        host: String,
        port: Int,
        password: String?,
        source: String?,
        settings: [String]
    ) throws {
        guard let programs = Self.programs else { throw StartError(description: Self.notInstalled) }
        (self.folder, self.host, self.port, self.password) = (folder, host, port, password)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if let password {
            // Readable by its owner only from the beginning.
            let file = FileManager.default.createFile(
                atPath: folder + "/password",
                contents: Data(password.utf8),
                attributes: [.posixPermissions: 0o600]
            )
            guard file else { throw StartError(description: "\(folder) cannot be written.") }
        }
        supervisor = ChildProcess()
        life = Pipe()
        let output = Pipe()
        supervisor.mostSeconds = nil
        supervisor.executableURL = URL(fileURLWithPath: "/bin/sh")
        supervisor.arguments =
            ["-c", Self.script, "sh", folder, programs, password == nil ? "no" : "yes", source ?? ""]
            + settings.flatMap { ["-c", $0] }
        supervisor.environment = Self.environment(host, port, password)
        supervisor.standardInput = life
        supervisor.standardOutput = output
        // The shell would report each signal that ends the server.
        supervisor.standardError = FileHandle.nullDevice
        try supervisor.run()
        var text = ""
        while !text.hasSuffix("ready\n") {
            let part = output.fileHandleForReading.availableData
            guard !part.isEmpty else {
                supervisor.waitUntilExit()
                throw StartError(description: "PostgreSQL did not start: \(text)")
            }
            text += String(decoding: part, as: UTF8.self)
        }
    }

    deinit { stop() }

    /// The environment of PostgreSQL's programs, which also keeps the password out of the list of processes.
    private static func environment(_ host: String, _ port: Int, _ password: String?) -> [String: String] {
        var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("PG") }
        environment["PGHOST"] = host
        environment["PGPORT"] = "\(port)"
        environment["PGUSER"] = "postgres"
        environment["PGCONNECT_TIMEOUT"] = "3"
        environment["PGPASSWORD"] = password
        return environment
    }

    /// Whether the server's main process runs, or stands still.
    package var isRunning: Bool { supervisor.isRunning }

    /// Stops the server, with its connections, and removes a temporary folder.
    package func stop() {
        signal(SIGCONT)
        try? life.fileHandleForWriting.close()
        supervisor.waitUntilExit()
    }

    /// Kills all of the server's processes, as a loss of power does.
    package func kill() {
        signal(SIGKILL)
        try? life.fileHandleForWriting.close()
        supervisor.waitUntilExit()
    }

    /// Sends SIGSTOP, SIGCONT or SIGKILL to all of the server's processes.
    package func signal(_ number: Int32) {
        guard supervisor.isRunning,
            let text = try? String(contentsOfFile: folder + "/data/postmaster.pid", encoding: .utf8),
            let main = text.split(separator: "\n").first.flatMap({ pid_t($0) }), main > 1
        else { return }
        // The main process stands still, so that it starts no more of them; once it is gone, they have another parent.
        if number != SIGCONT { _ = Foundation.kill(main, SIGSTOP) }
        for (process, parent) in Self.processes() where parent == main { _ = Foundation.kill(process, number) }
        _ = Foundation.kill(main, number)
    }

    /// Returns all processes of the system with their parents.
    private static func processes() -> [(process: pid_t, parent: pid_t)] {
        let process = ChildProcess()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/bin/ps")
        process.arguments = ["-A", "-o", "pid=,ppid="]
        process.standardOutput = output
        guard (try? process.run()) != nil else { return [] }
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return text.split(separator: "\n").compactMap { line in
            let numbers = line.split(separator: " ").compactMap { pid_t($0) }
            return numbers.count == 2 ? (numbers[0], numbers[1]) : nil
        }
    }

    // MARK: Replication

    /// Returns whether the server answers within three seconds.
    package func answers() -> Bool {
        let process = ChildProcess()
        process.executableURL = URL(fileURLWithPath: (Self.programs ?? "") + "/pg_isready")
        process.arguments = ["-q", "-t", "3"]
        process.environment = Self.environment(host, port, password)
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    /// Makes a standby the primary, and waits until it is.
    package func promote() throws {
        guard try execute("SELECT pg_promote(true, 60)") == "t" else {
            throw StartError(description: "The standby in \(folder) was not promoted.")
        }
    }

    /// Sets which standby must have a commit before the commit is confirmed; `nil` for none.
    package func requireStandby(_ name: String?) throws {
        let names = name.map { "FIRST 1 (\"\($0)\")" } ?? ""
        try execute("ALTER SYSTEM SET synchronous_standby_names = '\(names)'")
        try execute("SELECT pg_reload_conf()")
    }

    /// The standbys that follow this primary, and how each does: `sync`, `async` or `potential`.
    package func standbys() throws -> [String: String] {
        let rows = try execute("SELECT application_name, sync_state FROM pg_stat_replication WHERE state = 'streaming'")
        return rows.split(separator: "\n").reduce(into: [:]) { standbys, row in
            let columns = row.split(separator: "|").map(String.init)
            if columns.count == 2 { standbys[columns[0]] = columns[1] }
        }
    }

    // MARK: Databases

    /// Returns the URL of a database in a temporary server.
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

    /// Runs statements in a database, and returns the rows as text, with `|` between columns.
    @discardableResult
    package func execute(_ sql: String, in database: String = "postgres") throws -> String {
        let process = ChildProcess()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: (Self.programs ?? "") + "/psql")
        process.arguments = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]
        process.environment = Self.environment(host, port, password)
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw StartError(description: text) }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
