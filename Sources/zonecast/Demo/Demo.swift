import ArgumentParser
import Foundation

/// `zonecast demo`: a relay and its clients, live.
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Watch a change on one client reach the others.",
        discussion: """
            Starts a relay of its own on this machine with three clients: alice/phone, alice/laptop and bob/tablet, each with
            its own database file and connection. In a terminal: panes and keys; --script tour plays the scenes there.
            Without a terminal the tour runs once as plain lines; exit code 0 only if every check held.
            """
    )

    enum Script: String, ExpressibleByArgument, CaseIterable { case tour }

    @Option(help: "Play a script instead of waiting for keys: tour.")
    var script: Script?

    @Flag(help: "Plain lines, no panes; the same as without a terminal.")
    var plain = false

    @Option(help: ArgumentHelp("How many clients, 3 to 100.", valueName: "n"))
    var clients = 3

    @Option(
        help: ArgumentHelp(
            "Seconds between two polls of the public board; 30 minutes in an application.",
            valueName: "n"
        )
    )
    var boardSeconds = 5

    @Option(help: "A relay that is running elsewhere, instead of one of the demo's own.")
    var url: String?

    @Option(help: "The container to play in.")
    var container = "iCloud.org.zonecast.demo"

    @Option(help: "The container's API token, for a relay that is not in --dev.")
    var apiToken: String?

    @Option(help: "USER=WEBAUTHTOKEN for alice and for bob, for a relay that is not in --dev.")
    var webToken: [String] = []

    func validate() throws {
        guard (3...100).contains(clients) else { throw ValidationError("--clients takes 3 to 100.") }
        for token in webToken where !token.contains("=") { throw ValidationError("--web-token takes USER=TOKEN.") }
        guard (1...3600).contains(boardSeconds) else { throw ValidationError("--board-seconds takes 1 to 3600.") }
    }

    func run() async throws {
        let hasTerminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1
        let isPlain = plain || !hasTerminal
        let journal = DemoJournal(isPlain: isPlain)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-demo-\(UUID().uuidString)")
            .path
        try FileManager.default.createDirectory(atPath: folder + "/relay", withIntermediateDirectories: true)
        let relay = url == nil ? DemoRelay(folder: folder + "/relay") : nil
        let signals = DemoSignals {
            relay?.stop()
            try? FileManager.default.removeItem(atPath: folder)
        }
        defer { signals.end() }
        let world = try await open(relay, folder, journal)
        let held: Bool
        do {
            try await world.checkRelay()
            try await world.ready()
            held =
                isPlain ? await DemoTour(world: world).play() : try await DemoStage(world: world).play(script: script)
        } catch {
            await world.close()
            throw error
        }
        await world.close()
        guard held else { throw CommandFailure(.failed, "A check did not hold; the line with ✘ says which.") }
    }

    private func open(_ relay: DemoRelay?, _ folder: String, _ journal: DemoJournal) async throws -> DemoWorld {
        try await relay?.start()
        guard let address = relay?.url ?? url.flatMap({ URL(string: $0) }), address.scheme?.hasPrefix("http") == true
        else {
            throw CommandFailure(.usage, "\(url ?? "") is no address. Try: --url http://127.0.0.1:8080")
        }
        journal.note(
            "demo",
            "relay",
            "\(address.absoluteString)  storage: sqlite (\(relay == nil ? "elsewhere" : folder))"
        )
        if relay != nil {
            journal.note("demo", "panes", "\(address.absoluteString)/demo/  (three clients in one page)")
        }
        var tokens: [String: String] = [:]
        for token in webToken {
            let parts = token.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2 { tokens[parts[0]] = parts[1] }
        }
        let place = DemoPlace(
            url: address,
            container: container,
            apiToken: apiToken,
            webTokens: tokens,
            folder: folder,
            run: String(UUID().uuidString.prefix(6)).lowercased(),
            boardInterval: .seconds(boardSeconds),
            journal: journal
        )
        return try DemoWorld(place, relay: relay, clients: clients)
    }
}
