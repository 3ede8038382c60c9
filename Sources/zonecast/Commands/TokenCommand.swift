import ArgumentParser
import Records
import RelayAPI
import RelayCore
import RelayStore

/// `zonecast token`: manages API tokens, with which apps call the relay.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Create, list, rotate and revoke API tokens.",
        discussion: """
            Other credentials are server keys (zonecast key) and users' sessions (zonecast user sign-in); the subcommands server-key and \
            session manage them too. On this machine, write access to the data folder is enough; management tokens are for remote programs.
            """,
        subcommands: [
            Create.self, List.self, Rotate.self, Revoke.self, API.self, ServerKey.self, ManagementTokenCommand.self,
            Session.self,
        ]
    )

    struct API: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "api",
            abstract: "API tokens (the same commands as without api).",
            subcommands: [Create.self, List.self, Rotate.self, Revoke.self]
        )
    }

    struct ServerKey: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "server-key",
            abstract: "Server-to-server keys (same as: zonecast key).",
            subcommands: [KeyCommand.Add.self, KeyCommand.List.self, KeyCommand.Rotate.self, KeyCommand.Revoke.self]
        )
    }

    struct Session: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "session",
            abstract: "Users' sessions (same as: zonecast user sign-in and zonecast user sessions).",
            subcommands: [UserCommand.SignIn.self, UserCommand.Sessions.self]
        )
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create an API token. It is shown once; the relay stores only its hash."
        )

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Option(help: "A display name.")
        var name = ""

        @Option(help: "A note for yourself.")
        var notes = ""

        @Option(help: ArgumentHelp("The URL that the browser opens after sign-in; any scheme.", valueName: "url"))
        var callbackURL: String?

        @Option(
            name: .customLong("allowed-origin"),
            help: ArgumentHelp(
                "A browser origin that may use it, such as https://app.example. May be repeated.",
                valueName: "origin"
            )
        )
        var allowedOrigins: [String] = []

        private struct Answer: Encodable {
            var apiToken: String
            var id: String
            var container: String
            var environment: String
        }

        func validate() throws {
            for origin in allowedOrigins {
                guard let objection = WebOrigin.objection(to: origin) else { continue }
                throw ValidationError(
                    "\"\(origin)\" is not an origin. \(objection) Write scheme and host without a path: https://app.example"
                )
            }
            if let callbackURL, !Callback.isUsable(callbackURL) {
                throw ValidationError(
                    "\"\(callbackURL)\" is not a URL. Write it with its scheme: https://app.example/done"
                )
            }
        }

        func run() throws {
            let (text, token) = try options.change("token.create", name, in: home.home) {
                try $0.addAPIToken(
                    in: home.home,
                    name: name,
                    notes: notes,
                    callbackURL: callbackURL,
                    allowedOrigins: allowedOrigins
                )
            }
            if options.json {
                try Terminal.say(
                    json: Answer(
                        apiToken: text,
                        id: token.id,
                        container: home.container.name,
                        environment: home.environment.rawValue
                    )
                )
            } else {
                Terminal.say(text, as: "API token  ")
                Terminal.tell("id         \(token.id)  (for: zonecast token revoke)")
                Terminal.tell("Save it now: the relay stores only its hash.")
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the API tokens, without the tokens themselves.")

        @OptionGroup var filter: HomeFilter
        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var id: String
            var container: String
            var environment: String
            var name: String
            var notes: String
            var callbackURL: String?
            var allowedOrigins: [String]
            var created: String
            var revoked: String?

            init(_ token: APIToken) {
                id = token.id
                container = token.home.container.name
                environment = token.home.environment.rawValue
                name = token.name
                notes = token.notes
                callbackURL = token.callbackURL
                allowedOrigins = token.allowedOrigins
                created = token.created.iso8601
                revoked = token.revoked?.iso8601
            }
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.apiTokens() }.filter { filter.admits($0.home) }.map(Row.init)
            try options.list(
                rows,
                as: "apiTokens",
                heading: ["ID", "CONTAINER", "ENVIRONMENT", "NAME", "CREATED", "REVOKED"],
                empty: "There are no API tokens. Create one: zonecast token create --container ID"
            ) { [$0.id, $0.container, $0.environment, $0.name, $0.created, $0.revoked ?? "-"] }
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace a token with a new one that has the same name, origins and callback.",
            discussion:
                "The old token is revoked at once; with --keep, revoke it yourself once your apps use the new one."
        )

        @Argument(help: "The token's id, as in the list.")
        var id: String

        @Flag(help: "Keep the old token valid.")
        var keep = false

        @OptionGroup var options: FolderOptions

        func run() throws {
            let (text, token) = try options.change("token.rotate", id) { store in
                guard let old = try store.apiToken(id: id), old.revoked == nil else {
                    throw DirectoryError.missing("token \(id) that is not revoked")
                }
                let made = try store.addAPIToken(
                    in: old.home,
                    name: old.name,
                    notes: old.notes,
                    callbackURL: old.callbackURL,
                    allowedOrigins: old.allowedOrigins
                )
                if !keep { try store.revokeAPIToken(id) }
                return made
            }
            if options.json { return try Terminal.say(json: ["apiToken": text, "id": token.id]) }
            Terminal.say(text, as: "API token  ")
            Terminal.tell("id         \(token.id)")
            Terminal.tell(
                keep ? "The old token stays valid until: zonecast token revoke \(id)" : "The old token is revoked."
            )
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke an API token. A running relay refuses it within a second."
        )

        @Argument(help: "The token's id, as in the list, or the token itself.")
        var token: String

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("token.revoke", String(token.prefix(16))) { try $0.revokeAPIToken(token) }
            try options.confirm("revoked")
        }
    }
}
