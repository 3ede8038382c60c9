import Floors
import Foundation
import Sockets

/// What rows use: a folder, the servers they start, and the report.
struct Bench {
    let options: Options
    var report: Report
    private let folder: URL
    /// The servers that the current row has started.
    ///
    /// A server ends with its last reference, and a row's own reference may be released before its last measurement.
    private var running: [AnyObject] = []

    init(_ options: Options) throws {
        self.options = options
        report = Report(asJSON: options.isJSON)
        folder = URL(fileURLWithPath: options.folder).appendingPathComponent("zonecast-bench-\(getpid())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    func removeFolder() { try? FileManager.default.removeItem(at: folder) }

    /// Returns an amount for a full run or for a quick one.
    func scale<Value>(_ full: Value, quick: Value) -> Value { options.isQuick ? quick : full }

    /// Returns a path in the row's folder.
    func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

    mutating func startRelay() throws -> Relay {
        let relay = try Relay(program: options.relay, folder: folder)
        running.append(relay)
        return relay
    }

    /// Starts nodes on one new database; `nil`, with a skipped row, if PostgreSQL is not installed or the relay was
    /// built without it.
    mutating func startCluster(of count: Int, for row: String) throws -> [Relay]? {
        guard let postgres = try startPostgres(for: row) else { return nil }
        let database = try postgres.makeDatabase()
        let first: Relay
        do {
            first = try Relay(program: options.relay, folder: folder, database: database)
        } catch let error as LoadError where "\(error)".contains("built without PostgreSQL") {
            report.skip(row, because: "The relay was built without PostgreSQL: ZONECAST_POSTGRES=1 builds it with.")
            return nil
        }
        var nodes = [first]
        for node in 1..<max(1, count) {
            nodes.append(
                try Relay(
                    node: node + 1,
                    beside: first,
                    program: options.relay,
                    folder: folder,
                    database: database
                )
            )
        }
        running += nodes
        return nodes
    }

    /// Ends the servers that a row has started.
    mutating func endRow() {
        // In reverse order: nodes need their database until they have ended.
        while running.popLast() != nil {}
    }

    /// Starts PostgreSQL; `nil`, with a skipped row, if it is not installed.
    mutating func startPostgres(for row: String) throws -> Postgres? {
        let postgres = try Postgres(folder: folder.appendingPathComponent("postgres-\(row)"))
        if let postgres { running.append(postgres) } else { report.skip(row, because: Postgres.installation) }
        return postgres
    }

    /// Starts this program as a bare server, which does only what every server must do.
    mutating func startBareServer(feed: String? = nil) throws -> BareProcess {
        let server = try BareProcess(log: path("bare-\(UUID().uuidString).log"), feed: feed, errors: folder)
        running.append(server)
        return server
    }
}

/// A bare server in its own process.
final class BareProcess {
    let requests: Endpoint
    let listeners: Endpoint
    let meter: ProcessMeter
    private let process: ServerProcess

    init(log: String, feed: String?, errors: URL) throws {
        process = try ServerProcess(
            "/proc/self/exe",
            ["bare-server", "4", log] + (feed.map { [$0] } ?? []),
            errors: errors.appendingPathComponent("bare.log")
        )
        let ports = process.readyLine.split(separator: " ").compactMap { UInt16($0) }
        guard ports.count == 2 else { throw LoadError.missing("The bare server named no ports.") }
        requests = Endpoint(port: ports[0])
        listeners = Endpoint(port: ports[1])
        meter = ProcessMeter(process.identifier)
    }

    deinit { process.stop() }

    static func serve(_ arguments: ArraySlice<String>) throws {
        let arguments = Array(arguments)
        guard arguments.count >= 2, let threads = Int(arguments[0]) else {
            throw LoadError.missing("bare-server THREADS LOG [FEED]")
        }
        try BareServer.serve(
            BareServer.Settings(
                noticeThreads: threads,
                logPath: arguments[1],
                feedPath: arguments.count > 2 ? arguments[2] : nil
            )
        )
    }
}

/// The command line.
struct Options {
    static let usage = """
        Measures a release build of `zonecast serve` beside its floors, all on this machine.

            Tests/Benchmarks/run [--quick] [--only ROW]... [--json] [--folder DIR] [--relay FILE] [--list]

        --quick        one or two minutes instead of ten: fewer rounds, smaller ones
        --only ROW     only this row; may be repeated
        --json         one JSON document on standard output
        --folder DIR   where the relay, SQLite and PostgreSQL keep their files; a real disk (/var/tmp)
        --relay FILE   the relay's program (the root package's .build/release/zonecast)
        --list         the rows' names
        """

    var isQuick = false
    var only: Set<String> = []
    var isJSON = false
    var folder = "/var/tmp"
    var relay = ".build/release/zonecast"
    var isList = false
    var isHelp = false

    init(_ arguments: [String]) throws(LoadError) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--quick": isQuick = true
            case "--json": isJSON = true
            case "--list": isList = true
            case "--help", "-h": isHelp = true
            case "--only": only.insert(try Self.value(of: argument, &rest))
            case "--folder": folder = try Self.value(of: argument, &rest)
            case "--relay": relay = try Self.value(of: argument, &rest)
            default: throw .missing("\(argument) is not an option.\n\n\(Self.usage)")
            }
        }
    }

    private static func value(of name: String, _ rest: inout ArraySlice<String>) throws(LoadError) -> String {
        guard let value = rest.popFirst() else { throw .missing("\(name) needs a value.\n\n\(usage)") }
        return value
    }
}
