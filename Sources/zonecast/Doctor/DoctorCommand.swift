import ArgumentParser
import Foundation
import Records
import RelayAPI
import RelayCore
import RelayServer

/// `zonecast doctor`: checks whether a relay works, and suggests commands that fix what does not.
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check a relay: configuration, disk, address, certificate, sockets, clock, a real sync, backups.",
        discussion: """
            Checks the data folder and the relay that runs on it, if any; with --url, a relay elsewhere. The real \
            save, notice and fetch use a separate container, _doctor, and leave no record behind; with --url they need \
            --container, --api-token and --web-token of a user.
            Exits with 0 if there is no problem (advice is allowed), with 1 if something does not work.
            """
    )

    @OptionGroup var folder: FolderOptions

    @Option(
        help: ArgumentHelp("The relay's configuration file. (default: $ZONECAST_CONFIG)", valueName: "file"),
        completion: .file()
    )
    var config: String?

    @Option(help: ArgumentHelp("Check the relay at this address, as its clients reach it.", valueName: "url"))
    var url: String?

    @Option(
        name: .container,
        help: ArgumentHelp("With --url: the container to use. (default: $ZONECAST_CONTAINER)", valueName: "id")
    )
    var container: ContainerID?

    @Option(help: "With --url: the container's API token. (default: $ZONECAST_API_TOKEN)")
    var apiToken: String?

    @Option(
        help:
            "With --url: a user's web auth token; dev-NAME for a relay with --dev. (default: $ZONECAST_WEB_TOKEN or $ZONECAST_DEV_USER)"
    )
    var webToken: String?

    @Option(
        help: ArgumentHelp(
            "PEM file of the certificate authorities to trust instead of the system's.",
            valueName: "file"
        ),
        completion: .file()
    )
    var authorities: String?

    @Option(
        help: ArgumentHelp("The timeout of each step, 1s to 10m; a bare number counts seconds.", valueName: "duration")
    )
    var timeout: Seconds = 5

    @Flag(
        help: "For health checks: only whether the relay is running on a usable folder; a stopped relay is a problem."
    )
    var quick = false

    func validate() throws {
        if let url, ProbeAddress(url) == nil {
            throw ValidationError("--url takes an address such as https://sync.example.org.")
        }
        guard (1...600).contains(timeout.value) else { throw ValidationError("--timeout takes 1s to 10m.") }
        if let authorities, !FileManager.default.isReadableFile(atPath: authorities) {
            throw ValidationError("--authorities: \(authorities) cannot be read.")
        }
    }

    func run() async throws {
        var report = DoctorReport(asJSON: folder.json)
        if let url, let address = probeAddress(url) {
            await checkRemoteRelay(address, &report)
        } else {
            await checkFolder(&report)
        }
        try report.end()
    }

    private func probeAddress(_ url: String) -> ProbeAddress? {
        guard var address = ProbeAddress(url, authorities: authorities) else { return nil }
        address.timeout = timeout.whole
        return address
    }

    // MARK: Elsewhere

    private func checkRemoteRelay(_ address: ProbeAddress, _ report: inout DoctorReport) async {
        let checks = RelayChecks(address: address)
        let answers = await within(8, "public address") { await checks.publicAddress() }
        report.add(answers)
        guard !quick, answers.grade != .problem else { return }
        report.add(await within(4, "WebSocket") { await checks.webSocket() })
        report.add(await within(4, "clock") { await checks.clock() })
        report.add(await remoteRoundTrip(address))
    }

    private func remoteRoundTrip(_ address: ProbeAddress) async -> Finding {
        guard let webToken = webToken ?? SDKVariables.webToken else {
            return Finding(
                "round trip",
                .advice,
                "not tested: it needs a user",
                next: "zonecast doctor --url \(address) --container ID --api-token … --web-token …"
            )
        }
        let credentials = DoctorCredentials(
            container: (container ?? SDKVariables.container)?.name ?? "_doctor",
            apiToken: apiToken ?? SDKVariables.text("ZONECAST_API_TOKEN"),
            webToken: webToken
        )
        return await within(20, "round trip") { await RoundTrip(address: address, credentials: credentials).check() }
    }

    /// Returns the finding of a check, or a problem if the check does not end.
    ///
    /// Each of its steps has a time limit, and this one holds even if one of those does not.
    private func within(
        _ steps: Int,
        _ check: String,
        _ body: @escaping @Sendable () async -> Finding
    ) async -> Finding {
        let seconds = steps * timeout.whole
        do {
            return try await Deadline.run(for: seconds, orThrow: CancellationError(), body)
        } catch {
            return Finding(
                check,
                .problem,
                "the check did not end within \(seconds) s",
                next: "repeat it with a longer limit: zonecast doctor --timeout 30s"
            )
        }
    }

    // MARK: Here

    private func checkFolder(_ report: inout DoctorReport) async {
        guard let settings = await settings(&report) else { return }
        let checks = FolderChecks(folder: settings.data, isThorough: !quick, configuration: config)
        let database = checks.database()
        for finding in database { report.add(finding) }
        if database.isEmpty {
            let storage = checks.storage()
            report.add(storage)
            guard storage.grade != .problem || checks.isReadable else { return }
        }
        if let running = await runningRelay(in: settings.data) {
            await checkRelay(running, settings, &report)
            if let process = FolderLock.runningProcess(in: settings.data), let files = OpenFiles(process: process) {
                let connections = settings.server.limits.connections
                report.add(files.finding(connections: connections, stores: checks.storeCount))
            }
        } else {
            report.add(await notRunning(settings))
        }
        if let certificate = checks.certificate(of: settings, now: Date()) { report.add(certificate) }
        if database.isEmpty { report.add(checks.backup(now: Date())) }
        report.add(checks.push(settings.push))
        // Without an answer of the database, its one finding says everything.
        if database.count != 1, let alerts = checks.alerts() { report.add(alerts) }
        if let traces = await checks.traces(settings.traces) { report.add(traces) }
    }

    /// Returns the settings that a relay would start with; `nil`, with a finding added, if it could not start.
    private func settings(_ report: inout DoctorReport) async -> ServeSettings? {
        let environment = ProcessInfo.processInfo.environment
        let file = file
        do {
            var flags: [String: String] = [:]
            flags["data"] = folder.data
            flags["store"] = folder.store
            let reading = try await ConfigurationReading(flags: flags, environment: environment, file: file)
            try DataFolder.choose(reading.settings)
            FolderOwner.become(ownerOf: reading.settings.data)
            report.add(startFault(reading.settings) ?? configuration(reading))
            return reading.settings
        } catch {
            report.add(configurationFault(error))
            return nil
        }
    }

    private func configuration(_ reading: ConfigurationReading) -> Finding {
        let set = reading.origins.values.count { $0 != .standard }
        return Finding(
            "configuration",
            .good,
            "\(set.of("key")) set, 0 unknown\(file.map { " (\($0))" } ?? ", no file")"
        )
    }

    /// Runs as the relay's user, since files that this user cannot read are unreadable for the relay too.
    private func startFault(_ settings: ServeSettings) -> Finding? {
        guard !quick else { return nil }
        do {
            try settings.checkStart()
            return nil
        } catch {
            return configurationFault(error)
        }
    }

    private func configurationFault(_ error: any Error) -> Finding {
        let found = "\(error)".split(separator: "\n").joined(separator: " ")
        return Finding("configuration", .problem, found, next: "zonecast config reference lists what can be set")
    }

    /// The configuration file: the one named on the command line or in the environment, else the package's.
    private var file: String? { PackageFiles.settings(named: config, data: folder.data) }

    /// Returns the address of the running relay; waits for one that is starting.
    ///
    /// `systemctl start` returns before the relay listens, and `doctor` is often the next command.
    private func runningRelay(in data: String) async -> String?? {
        let deadline = ContinuousClock.now + .seconds(timeout.value)
        while true {
            let running = FolderLock.runningRelay(in: data)
            let isStarting = running.map { $0 == nil } ?? isEnabledService
            guard isStarting, !quick, ContinuousClock.now < deadline else { return running }
            try? await Task.sleep(for: .milliseconds(100))
        }
    }

    private func notRunning(_ settings: ServeSettings) async -> Finding {
        if let fault = await ListenError.ofTrying(settings.server) {
            // The service may be allowed to use low ports that this user may not; a port in use is a problem for every
            // user.
            if case .notAllowed = fault, !quick { return cannotStart(.advice, settings, fault) }
            return cannotStart(.problem, settings, fault)
        }
        if isEnabledService {
            return Finding(
                "listening",
                .problem,
                "no relay is running on \(settings.data), although its service is enabled",
                next: "systemctl start zonecast; why it ended: journalctl -u zonecast -n 50"
            )
        }
        return Finding(
            "listening",
            quick ? .problem : .advice,
            "no relay is running on \(settings.data); only the folder was checked",
            next: PackageFiles.start(on: settings.data, by: file)
        )
    }

    private func cannotStart(_ grade: Finding.Grade, _ settings: ServeSettings, _ fault: ListenError) -> Finding {
        Finding(
            "listening",
            grade,
            "no relay is running on \(settings.data), and none could start with these settings: \(fault)",
            next: "set listen: HOST:PORT in the configuration; find the program that uses the port: ss -ltnp"
        )
    }

    /// Whether the settings are those of the package's service and systemd starts the service at boot.
    private var isEnabledService: Bool {
        file == PackageFiles.configuration && FileManager.default.fileExists(atPath: PackageFiles.enabledService)
    }

    private func checkRelay(_ running: String?, _ settings: ServeSettings, _ report: inout DoctorReport) async {
        guard var local = probeAddress(running ?? "http://\(settings.address)") else { return }
        local.resolveWildcard()
        let checks = RelayChecks(address: local)
        let listening = await within(4, "listening") { await checks.listening() }
        report.add(listening)
        guard !quick, listening.grade != .problem else { return }
        // A relay started with flags may use certificate files that these settings do not name.
        if settings.server.tls == nil, let shown = await checks.servedCertificate() { report.add(shown) }
        let outside = settings.signIn.publicURL.flatMap { probeAddress($0) }
        let publicChecks = RelayChecks(address: outside ?? local)
        report.add(
            outside == nil
                ? noPublicAddress : await within(8, "public address") { await publicChecks.publicAddress() }
        )
        report.add(await within(4, "WebSocket") { await publicChecks.webSocket() })
        report.add(await within(4, "clock") { await publicChecks.clock() })
        report.add(await roundTrip(through: publicChecks.address, data: settings.data))
    }

    private var noPublicAddress: Finding {
        Finding(
            "public address",
            .advice,
            "not set: only the relay's own address was checked",
            next: "set public-url: https://NAME in the configuration, or run: zonecast doctor --url https://NAME"
        )
    }

    private func roundTrip(through address: ProbeAddress, data: String) async -> Finding {
        guard FolderChecks(folder: data, isThorough: false).isCurrent else {
            let found = "not tested: the running relay is of another version than this program"
            return Finding("round trip", .advice, found, next: "restart the relay, then: zonecast doctor")
        }
        do {
            let accounts = try DataFolder.home(data).accounts()
            let session = try DoctorSession(accounts)
            defer { session.end(accounts) }
            let trip = RoundTrip(address: address, credentials: session.credentials)
            return await within(20, "round trip") { await trip.check() }
        } catch {
            return Self.signInFailed(error, in: data)
        }
    }

    static func signInFailed(_ error: any Error, in data: String) -> Finding {
        let reason =
            switch error {
            case DirectoryError.unavailable(let text): text
            case let error as DirectoryError: CommandFailure(error, folder: data).description
            default: "\(error)"
            }
        return Finding("round trip", .problem, "cannot sign in in \(data): \(reason)")
    }
}

/// The doctor's output: a line for each finding as it is made, or all findings as JSON at the end.
struct DoctorReport {
    let asJSON: Bool
    private var diagnosis = Diagnosis()

    init(asJSON: Bool) { self.asJSON = asJSON }

    mutating func add(_ finding: Finding) {
        diagnosis.add(finding)
        guard !asJSON, !(Terminal.isQuiet && finding.grade == .good) else { return }
        finding.lines(marks: isatty(STDOUT_FILENO) == 1).forEach(Terminal.say)
    }

    /// Prints the summary.
    ///
    /// - Throws: `CommandFailure` if there is a problem.
    func end() throws {
        if asJSON { try Terminal.say(json: diagnosis) } else { Terminal.tell(diagnosis.summary) }
        let problems = diagnosis.count(.problem)
        guard problems == 0 else {
            throw CommandFailure(.failed, "\(problems == 1 ? "One check" : "\(problems) checks") failed; see above.")
        }
    }
}
