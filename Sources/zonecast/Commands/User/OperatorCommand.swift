import ArgumentParser
import Foundation
import Records
import RelayAPI
import RelayCore
import RelaySystem
import ZoneKit

/// `zonecast user operator`: manages the operators of the console.
struct OperatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "operator",
        abstract: "Create, list and delete the operators of the relay's console.",
        discussion: """
            The console is at /console/ if  console: true  is set (or --dev). Works while the relay is running.
            """,
        subcommands: [Create.self, List.self, Password.self, Delete.self]
    )

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a one-time link to the console that creates an operator: one use, 15 minutes."
        )

        @OptionGroup var link: LinkOptions

        func run() async throws { try await link.make(for: nil) }
    }

    struct Password: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a one-time link with which an operator sets a new password."
        )

        @Argument(help: "The operator's name.")
        var name: String

        @OptionGroup var link: LinkOptions

        func run() async throws { try await link.make(for: name) }
    }

    struct LinkOptions: ParsableArguments {
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

        /// Creates a link and prints it; `name` is the operator whose password it sets.
        func make(for name: String?) async throws {
            let code = try options.change("operator.link", name ?? "new operator") { store in
                try store.makeOperatorLink(for: name)
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

    struct List: ParsableCommand {
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
                empty: "There are no operators yet. Create one: zonecast user operator create"
            ) { [$0.name, $0.created] }
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete an operator and revoke their sessions.")

        @Argument(help: "The operator's name.")
        var name: String

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("operator.remove", name) { try $0.removeOperator(name) }
            try options.confirm("deleted")
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
