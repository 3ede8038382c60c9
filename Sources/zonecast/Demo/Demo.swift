import ArgumentParser
import Foundation
import Records
import RelayConsole
import RelayCore
import RelayServer

/// `zonecast demo`: a relay with clients, live.
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Watch a change on one client reach the others.",
        discussion: """
            Starts a relay on this machine with three clients: alice/phone, alice/laptop and bob/tablet, each with \
            its own mirrors (SQLite files) and connection. A terminal shows panes and accepts keys; --script tour plays scenes \
            there. Without a terminal, the tour or the named script runs once and prints lines; exits with 0 only if all checks passed.
            """
    )

    enum Script: String, ExpressibleByArgument, CaseIterable { case tour, chaos }

    @Option(help: "Play a script instead of waiting for keys: tour, or chaos (random cuts, restarts and kills).")
    var script: Script?

    @Option(
        help: ArgumentHelp(
            "How long the chaos lasts, 1s to 10m; a bare number counts seconds. (default: 60s)",
            valueName: "duration"
        )
    )
    var seconds: Seconds?

    @Option(help: ArgumentHelp("Repeat the chaos with this seed, which its first line printed.", valueName: "n"))
    var seed: UInt64?

    @Flag(help: "Print plain lines instead of panes, as without a terminal.")
    var plain = false

    @Flag(help: "Also open this relay's browser demo: three clients in one page.")
    var browser = false

    @Flag(help: "Let an audience on the local network join with a PIN, in the browser. Asks before it listens there.")
    var join = false

    @Option(help: ArgumentHelp("With --join, the address of this machine to listen on.", valueName: "ip"))
    var address: String?

    @Flag(help: "With --join, do not ask.")
    var yes = false

    @Flag(help: "Print one JSON object per line: seconds, who, what, detail. Plays the tour.")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Record the panes to a file: asciinema's .cast, or an animated .svg.",
            valueName: "file"
        ),
        completion: .file()
    )
    var record: String?

    @Option(
        help: ArgumentHelp(
            "The pause between steps, such as 500ms; a bare number counts seconds. (default: 500ms in a terminal or recording, else 0)",
            valueName: "duration"
        )
    )
    var pace: Seconds?

    @Option(help: ArgumentHelp("The number of clients, 3 to 100.", valueName: "n"))
    var clients = 3

    @Option(
        help: ArgumentHelp(
            "The time between two polls of the public board, 1s to 1h; a bare number counts seconds. (Apps use 30m.)",
            valueName: "duration"
        )
    )
    var boardSeconds: Seconds = 5

    @Option(
        help: ArgumentHelp(
            "Start this many relays, 2 to 9, over PostgreSQL with a standby, and kill some in the tour.",
            valueName: "n"
        )
    )
    var cluster: Int?

    @Option(help: ArgumentHelp("The port of the demo's relay; 0 chooses a free one.", valueName: "n"))
    var port = 0

    @Option(help: "Use a relay that is already running instead of starting one.")
    var url: String?

    @Option(
        name: .container,
        help: ArgumentHelp("The container to use. (default: iCloud.org.zonecast.demo)", valueName: "id")
    )
    var container: ContainerID?

    @Option(help: "The container's API token, for a relay without --dev.")
    var apiToken: String?

    @Option(help: "USER=WEBAUTHTOKEN for alice and bob, for a relay without --dev.")
    var webToken: [String] = []

    func validate() throws {
        guard (3...100).contains(clients) else { throw ValidationError("--clients takes 3 to 100.") }
        for token in webToken where !token.contains("=") { throw ValidationError("--web-token takes USER=TOKEN.") }
        guard (1...3600).contains(boardSeconds.value) else { throw ValidationError("--board-seconds takes 1s to 1h.") }
        if let cluster {
            guard (2...9).contains(cluster) else { throw ValidationError("--cluster takes 2 to 9.") }
            guard url == nil, !join, script != .chaos else {
                throw ValidationError("--cluster cannot be used with --url, --join and --script chaos.")
            }
        }
        guard url == nil || port == 0 else {
            throw ValidationError("--port cannot be used with --url.")
        }
        guard url != nil || (apiToken == nil && webToken.isEmpty) else {
            throw ValidationError("--api-token and --web-token require --url.")
        }
        guard (0...65_535).contains(port) else {
            throw ValidationError("--port takes 0 to 65535; 0 chooses a free one.")
        }
        if let pace, !(0...60).contains(pace.value) { throw ValidationError("--pace takes 0 to 60s.") }
        guard script == .chaos || (seconds == nil && seed == nil) else {
            throw ValidationError("--seconds and --seed require --script chaos.")
        }
        if let seconds, !(1...600).contains(seconds.value) { throw ValidationError("--seconds takes 1s to 10m.") }
        guard join || (address == nil && !yes) else { throw ValidationError("--address and --yes require --join.") }
        guard !join || (script == nil && record == nil && url == nil && !json && !plain && clients == 3) else {
            throw ValidationError("--join is used with --address, --port, --yes and --browser only.")
        }
        if let record, DemoRecorder.Form(path: record) == nil {
            throw ValidationError("--record writes .cast and .svg; \(record) is neither.")
        }
    }

    func run() async throws {
        if join { return try await runForAudience() }
        if cluster != nil { try ClusterCommand.requireStore() }
        let hasTerminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !DemoTerminal.isDumb
        let isPlain = plain || json || !hasTerminal
        let journal = DemoJournal(json ? .json : isPlain ? .plain : .none)
        let recorder = try record.flatMap { path in
            try DemoRecorder.Form(path: path).map { try DemoRecorder(path: path, form: $0) }
        }
        if url == nil, port != 0 { try await checkPort(port) }
        let folder = DemoFolder.path()
        let cluster = cluster.map {
            DemoCluster(folder: folder + "/cluster", nodes: $0, port: port, journal: journal)
        }
        let relay = url == nil && cluster == nil ? DemoRelay(folder: folder + "/relay", port: port) : nil
        let signals = TerminationSignals([SIGINT, SIGTERM, SIGHUP, SIGQUIT]) {
            DemoTerminal.restore()
            try? recorder?.end()
            relay?.stop()
            cluster?.stopAndWait()
            // The clients may still be writing, and removing a folder fails if a file appears meanwhile.
            for _ in 0..<200 where FileManager.default.fileExists(atPath: folder) {
                if (try? FileManager.default.removeItem(atPath: folder)) == nil { usleep(5_000) }
            }
        }
        defer { signals.end() }
        // From here on, the signal handlers remove the folder.
        try DemoFolder.make(folder)
        let rest = pace?.value ?? (isPlain && recorder == nil ? 0 : 0.5)
        do {
            let world = DemoWorld(
                try await settings(relay, cluster, folder, journal),
                relay: relay,
                cluster: cluster,
                clients: clients,
                pace: .milliseconds(Int(rest * 1000))
            )
            try await play(world, isPlain: isPlain, recorder)
        } catch {
            await cluster?.stop()
            throw DemoFolder.problem(in: folder) ?? error
        }
    }

    /// Serves an audience until a signal ends the demo.
    private func runForAudience() async throws {
        var audience = try DemoJoin(address: address, port: port)
        if port != 0 {
            try await checkPort(port, on: audience.host)
        } else if (try? await checkPort(DemoJoin.usualPort, on: audience.host)) != nil {
            audience.port = DemoJoin.usualPort
        }
        if !yes { try audience.askBeforeListening() }
        let folder = DemoFolder.path()
        let relay = DemoRelay(
            folder: folder + "/relay",
            host: audience.host,
            port: audience.port,
            guests: folder + "/guests.json"
        )
        let signals = TerminationSignals([SIGINT, SIGTERM, SIGHUP, SIGQUIT]) {
            relay.stop()
            try? FileManager.default.removeItem(atPath: folder)
        }
        defer {
            signals.end()
            relay.stop()
            try? FileManager.default.removeItem(atPath: folder)
        }
        try DemoFolder.make(folder)
        let secrets = try audience.prepare(in: folder)
        try await relay.start()
        let hasTerminal = isatty(STDOUT_FILENO) == 1 && !DemoTerminal.isDumb
        let lines = DemoJoin.lines(
            relay.url.absoluteString,
            pin: secrets.pin,
            hostSecret: secrets.hostSecret,
            width: hasTerminal ? DemoTerminal.size.width : nil,
            hasColour: DemoTerminal.hasColour
        )
        lines.forEach(Terminal.say)
        if browser { Self.open("\(relay.url.absoluteString)/demo/?host#\(secrets.hostSecret)") }
        try await relay.throwWhenEnded()
    }

    /// The relay's own error text would be that of `zonecast serve`.
    private func checkPort(_ port: Int, on host: String = "127.0.0.1") async throws {
        var wanted = ServerConfiguration()
        (wanted.host, wanted.port) = (host, port)
        if case .portTaken(let address)? = await ListenError.ofTrying(wanted) {
            throw CommandFailure(
                .failed,
                "\(address) is in use by another program. "
                    + (join ? "Name another one with --port." : "Without --port, the demo uses a free one.")
            )
        }
    }

    /// Runs the demo and throws if a check failed.
    private func play(_ world: DemoWorld, isPlain: Bool, _ recorder: DemoRecorder?) async throws {
        let passed: Bool
        do {
            try await world.checkRelay()
            passed = try await show(world, isPlain: isPlain, recorder)
        } catch {
            await world.close()
            throw error
        }
        await world.close()
        guard passed else { throw CommandFailure(.failed, "A check failed. See the line marked ✘.") }
    }

    private func show(_ world: DemoWorld, isPlain: Bool, _ recorder: DemoRecorder?) async throws -> Bool {
        let stage = DemoPresenter(world: world, recorder: recorder)
        let opening = { try await world.whileRelayAnswers { try await world.openClients() } }
        var passed = false
        if isPlain {
            try await opening()
            let drawing = recorder.map { _ in Task { await stage.draw() } }
            passed = await run(script ?? .tour, in: world)
            drawing?.cancel()
            await drawing?.value
            await stage.drawLast()
        } else {
            let play = script.map { script in { await run(script, in: world) } }
            passed = try await stage.play(opening: opening, script: play)
        }
        try recorder?.end()
        return passed
    }

    /// Plays a script; returns `false` if the relay stops answering meanwhile.
    private func run(_ script: Script, in world: DemoWorld) async -> Bool {
        let (length, seed) = (Duration.seconds(seconds?.value ?? 60), seed ?? UInt64.random(in: 0..<1_000_000))
        do {
            return try await world.whileRelayAnswers {
                switch script {
                case .tour: await DemoTour(world: world).play()
                case .chaos: await DemoChaos(world: world, length: length, seed: seed).play()
                }
            }
        } catch {
            world.journal.conclude(script.rawValue, "✘ \(DemoTour.words(error))")
            return false
        }
    }

    /// Opens an address with the system's default program; if there is none, the address is on the screen anyway.
    private static func open(_ address: String) {
        #if os(macOS)
            let opener = "open"
        #else
            let opener = "xdg-open"
        #endif
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [opener, address]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try? process.run()
    }

    private func settings(
        _ relay: DemoRelay?,
        _ cluster: DemoCluster?,
        _ folder: String,
        _ journal: DemoJournal
    ) async throws -> DemoSettings {
        try await relay?.start()
        let balancer = try await cluster?.start()
        let address = try relay?.url ?? RelayAddress(balancer ?? url ?? "").url
        journal.note(
            "demo",
            "relay",
            "zonecast \(Zonecast.version)  \(address.absoluteString)"
                + (cluster != nil
                    ? "  storage: postgres (\(folder)/cluster)"
                    : relay == nil ? "  running elsewhere" : "  storage: sqlite (\(folder)/relay)")
        )
        if relay != nil {
            if let code = try? DataFolder.home(folder + "/relay").accounts().makeOperatorLink() {
                let link = ConsoleLink.address(address.absoluteString, code)
                journal.note("demo", "console", "\(link)  (one use, 15 minutes)")
            }
            journal.note("demo", "panes", "\(address.absoluteString)/demo/  (three clients in one page)")
        }
        if browser { Self.open("\(address.absoluteString)/demo/") }
        var tokens: [String: String] = [:]
        for token in webToken {
            let parts = token.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2 { tokens[parts[0]] = parts[1] }
        }
        return DemoSettings(
            url: address,
            container: container?.name ?? "iCloud.org.zonecast.demo",
            apiToken: apiToken,
            webTokens: tokens,
            folder: folder,
            run: String(UUID().uuidString.prefix(6)).lowercased(),
            isOwnRelay: relay != nil || cluster != nil,
            boardInterval: .seconds(boardSeconds.value),
            journal: journal
        )
    }
}
