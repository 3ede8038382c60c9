import ArgumentParser
import Foundation

/// `zonecast demo`: a relay and several clients side by side, to look at and to play with.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show several clients syncing live through a relay.",
        discussion: """
            Without options: starts a relay of its own and three clients, and gives you the keys.
            Without a terminal the tour is played once as plain lines; the exit code is 0 only if every check held.
            """
    )

    enum Script: String, ExpressibleByArgument, CaseIterable {
        case tour
    }

    @Option(help: "Play a script instead of waiting for keys: tour.")
    var script: Script?
    @Option(help: "How many clients; those after the third are more of alice's devices (3 to 200).")
    var clients = 3
    @Flag(help: "Plain lines instead of panes, also in a terminal.")
    var plain = false
    @Option(help: "Use the relay at this address instead of starting one; it must run with --dev, or give tokens.")
    var url: String?
    @Option(help: "The container to use at --url.")
    var container: String?
    @Option(help: "The container's API token, for a relay without --dev.")
    var apiToken: String?
    @Option(help: "USER=WEBAUTHTOKEN for alice and for bob, for a relay without --dev.")
    var webToken: [String] = []

    func validate() throws {
        guard (3...200).contains(clients) else { throw ValidationError("--clients takes 3 to 200.") }
        if let url, URL(string: url)?.host == nil {
            throw ValidationError("--url takes an address such as http://127.0.0.1:8080.")
        }
        for token in webToken where !token.contains("=") { throw ValidationError("--web-token takes USER=TOKEN.") }
    }

    func run() async throws {
        let isInteractive = isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1 && !plain
        let narrator = Narrator(isPlain: !isInteractive)
        var options = DemoOptions()
        options.url = url.flatMap { URL(string: $0) }
        options.container = container
        options.apiToken = apiToken
        options.clients = clients
        for token in webToken {
            let parts = token.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2 { options.webTokens[parts[0]] = parts[1] }
        }
        let world = try await DemoWorld.open(options, narrator: narrator)
        narrator.say("zonecast \(Zonecast.version)  storage: sqlite  \(world.url)  clients: \(world.clients.count)")
        let result = await play(world, isInteractive: isInteractive)
        await world.close()
        if let result {
            Terminal.say(result.line)
            if !result.held { throw ExitCode(CommandExit.failed.rawValue) }
        }
    }

    /// The tour's last line; `nil` where nobody asked for a tour.
    private func play(_ world: DemoWorld, isInteractive: Bool) async -> (line: String, held: Bool)? {
        guard isInteractive else { return await Tour(world).play() }
        return await LivePanes(world).run(script)
    }
}
