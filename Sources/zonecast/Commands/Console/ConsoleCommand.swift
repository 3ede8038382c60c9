import ArgumentParser
import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore
import ZoneKit

/// `zonecast console`: manages operators and shows the audit log.
struct ConsoleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "console",
        abstract: "Manage the operators of the relay's console and show its audit log.",
        discussion: """
            The console is at /console/ if  console: true  is set (or --dev). Works while the relay is running.
            """,
        subcommands: [Link.self, Operators.self, Remove.self, Audit.self]
    )

    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a one-time link to the console: one use, 15 minutes.",
            discussion: "It creates a new operator; with --operator it resets that operator's password."
        )

        @Option(help: ArgumentHelp("An operator whose password is to be reset.", valueName: "name"))
        var `operator`: String?

        @Option(
            help: ArgumentHelp(
                "The relay's address for browsers. (default: public-url, else the running relay's)",
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
            let publicURL = await publicURL()
            let address = ConsoleLink.address(url ?? publicURL ?? running ?? "http://127.0.0.1:8080", code)
            if options.json { return try Terminal.say(json: ["url": address, "code": code]) }
            Terminal.say(Terminal.isQuiet ? address : "\(address)  (one use, 15 minutes)")
            if url == nil, let closed = await closedReason(running) { Terminal.sayError(closed) }
        }

        /// Returns the settings of the environment or the package.
        private func configured() async -> ServeSettings? {
            let environment = ProcessInfo.processInfo.environment
            let file = environment["ZONECAST_CONFIG"] ?? PackageFiles.configurationIfThere
            return try? await ConfigurationReading(flags: [:], environment: environment, file: file).settings
        }

        /// Returns the public URL, if the settings are those of this folder's relay.
        private func publicURL() async -> String? {
            let path = { (folder: String) in URL(fileURLWithPath: folder).standardizedFileURL.path }
            guard let settings = await configured(), path(settings.data) == path(options.folder) else { return nil }
            return settings.signIn.publicURL
        }

        /// Returns why the link would not work, if that can be determined.
        private func closedReason(_ running: String?) async -> String? {
            guard let running else {
                guard await configured()?.servesConsole == false else { return nil }
                return "The console is disabled unless the relay is started with  console: true  or --dev, such as: "
                    + "ZONECAST_CONSOLE=true zonecast serve --data \(options.folder.shellWord)"
            }
            let page = RelayRequest(method: .get, path: "/console/")
            guard let base = URL(string: running),
                let answer = try? await NetworkTransport.to(base, timeout: 5).send(page),
                answer.status == 404
            else { return nil }
            return "The running relay does not serve its console. Set  console: true  and restart it."
        }
    }

    struct Operators: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the operators.")

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var name: String
            var created: String
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.operators() }
                .map { Row(name: $0.name, created: $0.created.iso8601) }
            try options.list(
                rows,
                as: "operators",
                heading: ["OPERATOR", "CREATED"],
                empty: "There are no operators yet. Create one: zonecast console link"
            ) { [$0.name, $0.created] }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete an operator and revoke their sessions.")

        @Argument(help: "The operator's name.")
        var name: String

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("operator.remove", name) { try $0.removeOperator(name) }
            try options.confirm("deleted")
        }
    }

    struct Audit: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the audit log, newest first.")

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
            try options.list(
                rows,
                as: "entries",
                heading: ["TIME", "ACTOR", "ACTION", "CONTAINER", "SUBJECT"],
                empty: "The audit log is empty."
            ) { [$0.at, $0.actor, $0.action, $0.container ?? "-", $0.subject] }
        }
    }
}

/// The address of a one-time link.
enum ConsoleLink {
    /// Returns whether browsers can open the address.
    static func isAddress(_ text: String) -> Bool {
        guard let parts = URLComponents(string: text), !(parts.host ?? "").isEmpty else { return false }
        return ["http", "https"].contains(parts.scheme ?? "") && parts.query == nil && parts.fragment == nil
    }

    /// The code is in the fragment, so that no server or log sees it.
    static func address(_ base: String, _ code: String) -> String {
        // Browsers cannot open a wildcard address; on this machine, loopback works.
        let here = base.replacing("://0.0.0.0:", with: "://127.0.0.1:").replacing("://[::]:", with: "://[::1]:")
        return "\(here.hasSuffix("/") ? String(here.dropLast()) : here)/console/#setup=\(code)"
    }
}

extension AuditEntry {
    /// An action of a command on the data folder.
    init(command action: String, _ subject: String, in home: ContainerEnvironment? = nil) {
        self.init(at: TimeSource.system.now(), actor: "command line", action: action, home: home, subject: subject)
    }
}
