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

    /// Ends the servers that a row has started.
    mutating func endRow() { running = [] }

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
