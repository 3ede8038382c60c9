import ArgumentParser
import Foundation
import Records

/// `zonecast bench`: puts a bounded load on a relay and reports throughput and latency.
struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Put a bounded load on a relay and measure throughput and latency.",
        discussion: """
            writes    each client saves one record at a time
            changes   each client fetches a zone of 2,000 records in pages
            notices   one device saves, the others receive notices
            public    each client queries the public database
            mixed     four fetches and queries per save

            Without --url, it starts a temporary relay. \
            Clients and relay then share the machine, so the results include \
            both. It uses a temporary zone (for public: temporary records), \
            deleted afterwards. In an app's container it saves records of a type \
            that exists there, without fields, so that the schema stays unchanged.
            """
    )

    @Argument(help: ArgumentHelp("The kind of load.", valueName: "load"))
    var load: BenchLoad = .mixed

    @Option(help: "The relay. (default: $ZONECAST_URL, else a temporary one)")
    var url: String?
    @Option(name: .container, help: ArgumentHelp("The container.", valueName: "id"))
    var container = Self.ownContainer
    @Option(help: ArgumentHelp("A record type of that container, unless it is the default one.", valueName: "type"))
    var type: String?
    @Option(name: .environment, help: "development or production.")
    var environment: Records.Environment = .development
    @Option(
        help:
            "The user's web auth token; dev-NAME for a relay with --dev. (default: $ZONECAST_WEB_TOKEN or $ZONECAST_DEV_USER)"
    )
    var webToken: String?
    @Option(help: "The container's API token; a relay with --dev needs none. (default: $ZONECAST_API_TOKEN)")
    var apiToken: String?
    @Option(help: ArgumentHelp("How long, 1s to 1m; a bare number counts seconds.", valueName: "duration"))
    var seconds: Seconds = 5
    @Option(help: ArgumentHelp("The number of concurrent clients, 1 to 64.", valueName: "count"))
    var clients = 8
    @Flag(help: "Print one line of JSON.")
    var json = false

    private static let ownContainer = "iCloud.zonecast.bench"

    func validate() throws {
        guard type != nil || container == Self.ownContainer else {
            throw ValidationError(
                "Name a record type of \(container) with --type. A new type would stay in its schema."
            )
        }
        guard ContainerID(container) != nil else { throw ValidationError(ContainerID.rule(brokenBy: container)) }
        guard (1...60).contains(seconds.value) else { throw ValidationError("--seconds takes 1s to 1m.") }
        guard (1...64).contains(clients) else { throw ValidationError("--clients is a number from 1 to 64.") }
    }

    func run() async throws {
        guard let address = url ?? SDKVariables.text("ZONECAST_URL") else {
            return try await onOwnRelay()
        }
        try await measure(address)
    }

    private func onOwnRelay() async throws {
        let folder = NSTemporaryDirectory() + "zonecast-bench-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let relay = DemoRelay(folder: folder, port: 0)
        // Also runs if a signal stops the command early.
        let ending = TerminationSignals {
            relay.stop()
            try? FileManager.default.removeItem(atPath: folder)
        }
        defer { ending.end() }
        try await relay.start()
        try await measure(relay.url.absoluteString)
    }

    private func measure(_ text: String) async throws {
        guard var address = ProbeAddress(text) else {
            throw CommandFailure(.usage, "'\(text)' is not an address such as http://127.0.0.1:8080.")
        }
        // Slow responses must be measured, not time out.
        address.timeout = 120
        let own = "bench-\(UUID().uuidString.prefix(8).lowercased())"
        let run = BenchRun(
            load: load,
            target: BenchClient.Target(
                address: address,
                credentials: DoctorCredentials(
                    container: container,
                    environment: environment.rawValue,
                    apiToken: apiToken ?? SDKVariables.text("ZONECAST_API_TOKEN"),
                    webToken: webToken ?? SDKVariables.webToken ?? "dev-bench"
                ),
                database: load.database,
                zone: load == .public ? ZoneID.defaultName : own,
                mark: own,
                type: type
            ),
            clients: clients,
            time: .seconds(seconds.value)
        )
        let measured = try await carryOut(run)
        let report = BenchReport(load, measured.times, url: "\(address)", clients: clients, seconds: measured.seconds)
        if json { try Terminal.say(json: report) } else { report.lines.forEach { Terminal.say($0) } }
        let failed = report.refused.keys.filter { $0 != "THROTTLED" }.sorted()
        guard failed.isEmpty, report.done > 0 else {
            let what =
                failed.isEmpty
                ? "No request was completed." : "The relay refused some: \(failed.joined(separator: ", "))."
            throw CommandFailure(.failed, "\(what) See the relay's log; log.access: true logs each request.")
        }
    }

    private func carryOut(_ run: BenchRun) async throws -> (times: BenchTimes, seconds: Double) {
        do {
            return try await run.run()
        } catch let refusal as WireConnection.Refusal {
            let isAboutPeople = refusal.status == 401 || refusal.status == 421 || refusal.status == 403
            throw CommandFailure(
                isAboutPeople ? .notAllowed : .failed,
                "\(refusal.reason) (\(refusal.code))"
                    + (isAboutPeople ? " Add --container, and --api-token and --web-token of a user there." : "")
            )
        } catch let fault as ProbeFault {
            throw CommandFailure(.unreachable, "The relay at \(run.target.address) \(fault).")
        }
    }
}

/// The kinds of load.
enum BenchLoad: String, CaseIterable, ExpressibleByArgument {
    case writes
    case changes
    case notices
    case `public`
    case mixed

    /// The unit that is counted.
    var counted: String {
        switch self {
        case .writes: "writes"
        case .changes: "records"
        case .notices: "notices"
        case .public: "queries"
        case .mixed: "requests"
        }
    }

    /// A description of the operation that is timed.
    var timed: String {
        switch self {
        case .writes: "one record saved, on disk"
        case .changes: "one page of 200 records fetched"
        case .notices: "from the start of a save to its notice on a device"
        case .public: "one query answered"
        case .mixed: "one request: four fetches or queries, then a save"
        }
    }

    /// The database that the load uses.
    var database: String { self == .public ? "public" : "private" }

    /// The number of records created before the measurement.
    var prepared: Int {
        switch self {
        case .writes, .notices: 0
        case .changes: 2_000
        case .public, .mixed: 400
        }
    }
}
