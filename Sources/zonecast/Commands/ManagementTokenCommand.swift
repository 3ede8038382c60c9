import ArgumentParser
import Records
import RelayCore
import RelayStore

/// `zonecast token management`: manages tokens with which remote programs change a container's schema.
struct ManagementTokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "management",
        abstract: "Manage tokens for remote schema changes, such as from a build machine.",
        discussion: """
            With a management token, zonecast schema export, import, validate, diff and promote accept --url, as cktool \
            does for CloudKit. It gives no access to records. Over a network, use https.
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
        Terminal.tell("expires           \(token.expires?.iso8601 ?? "never")")
        Terminal.tell("Save it now: the relay stores only its hash. To use it: export ZONECAST_MANAGEMENT_TOKEN=…")
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a management token. It is shown once; the relay stores only its hash."
        )

        @Option(help: ArgumentHelp("The container.", valueName: "id"))
        var container: ContainerID
        @Option(help: "A display name, which the audit log shows.")
        var name = ""
        @Option(help: ArgumentHelp("Days until it expires; 0: never.", valueName: "n"))
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

        @Option(help: ArgumentHelp("Only entries of this container.", valueName: "id"))
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
            try options.list(
                rows,
                as: "managementTokens",
                heading: ["ID", "CONTAINER", "NAME", "LAST USED", "EXPIRES", "REVOKED"],
                empty: "There are no management tokens. Create one: zonecast token management create --container ID"
            ) { [$0.id, $0.container, $0.name, $0.used ?? "never", $0.expires ?? "never", $0.revoked ?? "-"] }
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace a token with a new one that has the same container, name and expiry.",
            discussion: "The old token is revoked at once; with --keep, revoke it yourself."
        )

        @Argument(help: "The token's id, as in the list.")
        var id: String
        @Flag(help: "Keep the old token valid.")
        var keep = false
        @OptionGroup var options: FolderOptions

        func run() throws {
            let (text, token) = try options.change("management-token.rotate", id) { store in
                let now = TimeSource.system.now()
                guard let old = try store.managementTokens().first(where: { $0.id == id && $0.isGood(at: now) }) else {
                    throw DirectoryError.missing("valid management token \(id)")
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

        @Argument(help: "The token's id, as in the list.")
        var id: String
        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("management-token.revoke", id) { try $0.revokeManagementToken(id) }
            try options.confirm("revoked")
        }
    }
}
