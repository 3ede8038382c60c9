import ArgumentParser
import Records
import RelayCore
import RelayStore

/// `zonecast token management`: what lets programs elsewhere change a container's schema.
struct ManagementTokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "management",
        abstract: "Management tokens: for schemas from elsewhere, such as from a build machine.",
        discussion: """
            With one, zonecast schema export, import, validate, diff and promote work with --url at a running relay, as cktool \
            does with CloudKit's. It reads and writes no record. Over the network use https.
            """,
        subcommands: [Create.self, List.self, Rotate.self, Revoke.self]
    )

    private static func say(_ text: String, _ token: ManagementToken, json: Bool) throws {
        if json {
            var answer = ["managementToken": text, "id": token.id, "container": token.container.name]
            answer["expires"] = token.expires?.iso8601
            return try Terminal.say(json: answer)
        }
        Terminal.say(text, as: "management token  ")
        Terminal.tell("id                \(token.id)  (for: zonecast token management revoke)")
        Terminal.tell("ends              \(token.expires?.iso8601 ?? "never")")
        Terminal.tell("Keep it now: the relay stores only its hash. Use it: export ZONECAST_MANAGEMENT_TOKEN=…")
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a management token. It is shown once and kept only as a hash."
        )

        @Option(help: ArgumentHelp("The container whose schemas it is for.", valueName: "id"))
        var container: ContainerID
        @Option(help: "A name to tell it by; the audit log has it.")
        var name = ""
        @Option(help: ArgumentHelp("After so many days it ends; 0: never.", valueName: "n"))
        var days = 365
        @OptionGroup var options: FolderOptions

        func validate() throws {
            guard (0...3_660).contains(days) else { throw ValidationError("--days takes 0 to 3660.") }
        }

        func run() throws {
            let end = days == 0 ? nil : TimeSource.system.now() + .seconds(86_400 * days)
            let (text, token) = try options.change("management-token.create", name.isEmpty ? container.name : name) {
                try $0.addManagementToken(for: container, name: name, expires: end)
            }
            try ManagementTokenCommand.say(text, token, json: options.json)
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the management tokens, without the tokens themselves."
        )

        @Option(help: ArgumentHelp("Only those of this container.", valueName: "id"))
        var container: ContainerID?
        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var id: String
            var container: String
            var name: String
            var created: String
            var expires: String?
            var revoked: String?
            var used: String?
        }

        func run() throws {
            let tokens = try options.withDirectory { try $0.managementTokens() }
            let rows = tokens.filter { (container ?? $0.container) == $0.container }.map {
                Row(
                    id: $0.id,
                    container: $0.container.name,
                    name: $0.name,
                    created: $0.created.iso8601,
                    expires: $0.expires?.iso8601,
                    revoked: $0.revoked?.iso8601,
                    used: $0.used?.iso8601
                )
            }
            if options.json { return try Terminal.say(json: ["managementTokens": rows]) }
            Terminal.say(
                table: rows.map {
                    [
                        $0.id, $0.container, $0.name, $0.used ?? "never", $0.expires ?? "never",
                        $0.revoked ?? "-",
                    ]
                },
                heading: ["ID", "CONTAINER", "NAME", "LAST USED", "ENDS", "REVOKED"],
                empty: "There are no management tokens. Make one with: zonecast token management create --container ID"
            )
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a new token in the place of one, with its container, name and end.",
            discussion: "The old one ends at once, or with --keep when you revoke it."
        )

        @Argument(help: "Its id, as in the list.")
        var id: String
        @Flag(help: "Let the old one go on.")
        var keep = false
        @OptionGroup var options: FolderOptions

        func run() throws {
            let (text, token) = try options.change("management-token.rotate", id) { store in
                let now = TimeSource.system.now()
                guard let old = try store.managementTokens().first(where: { $0.id == id && $0.isGood(at: now) }) else {
                    throw DirectoryError.missing("management token \(id) that is still good")
                }
                let made = try store.addManagementToken(for: old.container, name: old.name, expires: old.expires)
                if !keep { try store.revokeManagementToken(id) }
                return made
            }
            try ManagementTokenCommand.say(text, token, json: options.json)
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a management token. A running relay refuses it from its next request on."
        )

        @Argument(help: "Its id, as in the list.")
        var id: String
        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("management-token.revoke", id) { try $0.revokeManagementToken(id) }
            if options.json { try Terminal.say(json: ["revoked": true]) } else { Terminal.tell("revoked") }
        }
    }
}
