import ArgumentParser
import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore
import ZoneKit

/// `zonecast console`: who may use the console, and what they did.
struct ConsoleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "console",
        abstract: "Let people into the relay's console, and see what they did there.",
        discussion: """
            The console is at /console/ where the setting  console: true  (or --dev) opens it. Works beside a running relay.
            """,
        subcommands: [Link.self, Operators.self, Remove.self, Audit.self]
    )

    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a one-time link to the console: one use, 15 minutes.",
            discussion: "It makes a new operator; with --operator it sets that one's password anew."
        )

        @Option(help: ArgumentHelp("An operator who has forgotten the password.", valueName: "name"))
        var `operator`: String?

        @Option(
            help: ArgumentHelp(
                "Where browsers reach the relay. (default: public-url, else the running relay's)",
                valueName: "url"
            )
        )
        var url: String?

        @OptionGroup var options: FolderOptions

        func validate() throws {
            guard let url, !ConsoleLink.isAddress(url) else { return }
            throw ValidationError("'\(url)' is not an address such as https://sync.example.org.")
        }

        func run() async throws {
            let code = try options.change("operator.link", `operator` ?? "new operator") { store in
                try store.makeOperatorLink(for: `operator`)
            }
            let running = FolderLock.runningRelay(in: options.folder).flatMap { $0 }
            let published = await published()
            let address = ConsoleLink.address(url ?? published ?? running ?? "http://127.0.0.1:8080", code)
            if options.json { return try Terminal.say(json: ["url": address, "code": code]) }
            Terminal.say(Terminal.isQuiet ? address : "\(address)  (one use, 15 minutes)")
            if url == nil, let closed = await shut(running) { Terminal.complain(closed) }
        }

        /// What a relay is started with by the environment, or by the package.
        private func configured() async -> ServeSettings? {
            let environment = ProcessInfo.processInfo.environment
            let file = environment["ZONECAST_CONFIG"] ?? PackageFiles.configurationIfThere
            return try? await ConfigurationReading(flags: [:], environment: environment, file: file).settings
        }

        /// The address that browsers are told, where these settings are of this folder's relay.
        private func published() async -> String? {
            let path = { (folder: String) in URL(fileURLWithPath: folder).standardizedFileURL.path }
            guard let settings = await configured(), path(settings.data) == path(options.folder) else { return nil }
            return settings.signIn.publicURL
        }

        /// Why the link would lead nowhere, as far as can be told.
        private func shut(_ running: String?) async -> String? {
            guard let running else {
                guard await configured()?.servesConsole == false else { return nil }
                return "The console is shut unless the relay is started with  console: true  or --dev, such as by: "
                    + "ZONECAST_CONSOLE=true zonecast serve --data \(options.folder.shellWord)"
            }
            let page = RelayRequest(method: .get, path: "/console/")
            guard let base = URL(string: running),
                let answer = try? await NetworkTransport.to(base, timeout: 5).send(page),
                answer.status == 404
            else { return nil }
            return "The relay that runs does not serve its console: set  console: true  and start it again."
        }
    }

    struct Operators: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List those who may use the console.")

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var name: String
            var created: String
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.operators() }
                .map { Row(name: $0.name, created: $0.created.iso8601) }
            if options.json { return try Terminal.say(json: ["operators": rows]) }
            Terminal.say(
                table: rows.map { [$0.name, $0.created] },
                heading: ["OPERATOR", "CREATED"],
                empty: "Nobody may use the console yet. Let somebody in with: zonecast console link"
            )
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Remove an operator and end their sign-ins.")

        @Argument(help: "The operator's name.")
        var name: String

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("operator.remove", name) { try $0.removeOperator(name) }
            if options.json { try Terminal.say(json: ["removed": true]) } else { Terminal.tell("removed") }
        }
    }

    struct Audit: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show what was done there, the newest first.")

        @Option(help: ArgumentHelp("How many entries.", valueName: "count"))
        var limit = 50

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var at: String
            var actor: String
            var action: String
            var container: String?
            var environment: String?
            var subject: String
        }

        func validate() throws {
            guard (1...100_000).contains(limit) else { throw ValidationError("--limit is a number from 1 to 100000.") }
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.auditEntries(limit: limit) }.map {
                Row(
                    at: $0.at.iso8601,
                    actor: $0.actor,
                    action: $0.action,
                    container: $0.home?.container.name,
                    environment: $0.home?.environment.rawValue,
                    subject: $0.subject
                )
            }
            if options.json { return try Terminal.say(json: ["entries": rows]) }
            Terminal.say(
                table: rows.map { [$0.at, $0.actor, $0.action, $0.container ?? "-", $0.subject] },
                heading: ["AT", "WHO", "DID", "CONTAINER", "TO"],
                empty: "Nothing was done at the console yet."
            )
        }
    }
}

/// Where a one-time link leads.
enum ConsoleLink {
    /// Whether browsers can go there.
    static func isAddress(_ text: String) -> Bool {
        guard let parts = URLComponents(string: text), !(parts.host ?? "").isEmpty else { return false }
        return ["http", "https"].contains(parts.scheme ?? "") && parts.query == nil && parts.fragment == nil
    }

    /// The code stands behind `#`, so that no server and no log gets to see it.
    static func address(_ base: String, _ code: String) -> String {
        // Nobody can go to "every address of this machine"; from the machine itself this one will do.
        let here = base.replacing("://0.0.0.0:", with: "://127.0.0.1:").replacing("://[::]:", with: "://[::1]:")
        return "\(here.hasSuffix("/") ? String(here.dropLast()) : here)/console/#setup=\(code)"
    }
}

extension AuditEntry {
    /// What somebody who may write the data folder did by a command.
    init(command action: String, _ subject: String, in home: ContainerEnvironment? = nil) {
        self.init(at: TimeSource.system.now(), actor: "command line", action: action, home: home, subject: subject)
    }
}
