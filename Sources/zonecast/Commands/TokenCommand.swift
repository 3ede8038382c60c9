import ArgumentParser
import Foundation
import Records
import RelayAPI
import RelayCore
import RelaySystem

/// `zonecast token`: manages credentials, with which apps, servers and remote programs call the relay.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Create, list, rotate and revoke API tokens, server keys, management tokens and sessions.",
        discussion: """
            --kind selects the credential:
              api         an API token, with which apps call the relay (the default)
              server      a server-to-server key, with which servers sign their requests
              management  a token with which schema export, import, validate, diff and promote accept --url, from a build machine
              session     a user's web auth token
            On this machine, write access to the data folder is enough for every command.
            """,
        subcommands: [Create.self, List.self, Rotate.self, Revoke.self]
    )

    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case api, server, management, session
    }

    /// The option that selects a kind of credential.
    struct KindOption: ParsableArguments {
        @Option(help: "api, server, management or session.")
        var kind = Kind.api

        /// Throws if an option was used that belongs to another kind.
        func refuse(_ isUsed: Bool, _ option: String, unless kinds: Kind...) throws {
            guard isUsed, !kinds.contains(kind) else { return }
            let names = kinds.map { "--kind \($0.rawValue)" }.joined(separator: " or ")
            throw ValidationError("\(option) is for \(names).")
        }
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a credential. A token is shown once; the relay stores only its hash.",
            discussion: """
                A server key (--kind server) needs the public key of a P-256 key pair:
                  openssl ecparam -name prime256v1 -genkey -noout -out eckey.pem
                  openssl ec -in eckey.pem -pubout -out eckey.pub
                """
        )

        @OptionGroup var kind: KindOption
        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Option(help: "A display name.")
        var name = ""

        @Option(help: "api: a note for yourself.")
        var notes = ""

        @Option(help: ArgumentHelp("api: the URL that the browser opens after sign-in; any scheme.", valueName: "url"))
        var callbackURL: String?

        @Option(
            name: .customLong("allowed-origin"),
            help: ArgumentHelp(
                "api: a browser origin that may use it, such as https://app.example. May be repeated.",
                valueName: "origin"
            )
        )
        var allowedOrigins: [String] = []

        @OptionGroup var file: PublicKeyOption

        @Option(
            help: ArgumentHelp(
                "management: when it expires, such as 90d; 0: never. (default: 365d)",
                valueName: "duration"
            )
        )
        var expires: CommandDuration?

        @Option(help: ArgumentHelp("session: the user's e-mail address, or dev-NAME.", valueName: "user"))
        var user: String?

        @Flag(help: "session: it expires two weeks instead of 30 minutes after its last use.")
        var keepSignedIn = false

        private struct Answer: Encodable {
            var apiToken: String
            var id: String
            var container: String
            var environment: String
        }

        func validate() throws {
            try kind.refuse(!notes.isEmpty, "--notes", unless: .api)
            try kind.refuse(callbackURL != nil, "--callback-url", unless: .api)
            try kind.refuse(!allowedOrigins.isEmpty, "--allowed-origin", unless: .api)
            try kind.refuse(file.publicKey != nil, "--public-key", unless: .server)
            try kind.refuse(expires != nil, "--expires", unless: .management)
            try kind.refuse(user != nil, "--user", unless: .session)
            try kind.refuse(keepSignedIn, "--keep-signed-in", unless: .session)
            if kind.kind == .server { try file.require() }
            if kind.kind == .session, user == nil { throw ValidationError("Name the user with --user EMAIL.") }
            if let expires, expires.seconds > 3_660 * 86_400 { throw ValidationError("--expires takes 0 to 3660d.") }
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
            switch kind.kind {
            case .api: try createAPIToken()
            case .server: try createServerKey()
            case .management: try createManagementToken()
            case .session:
                try UserCommand.signIn(user ?? "", in: home.home, keepSignedIn: keepSignedIn, options)
            }
        }

        private func createAPIToken() throws {
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

        private func createServerKey() throws {
            let pem = try file.read()
            let key = try options.change("key.create", name, in: home.home) {
                try $0.addServerKey(in: home.home, name: name, publicKeyPEM: pem)
            }
            if options.json {
                try Terminal.say(json: ["keyID": key.id, "userRecordName": key.user.recordName])
            } else {
                Terminal.say(key.id, as: "key ID            ")
                Terminal.tell("user record name  \(key.user)")
            }
        }

        private func createManagementToken() throws {
            let seconds = expires?.seconds ?? 365 * 86_400
            let end = seconds == 0 ? nil : TimeSource.system.now() + .seconds(seconds)
            let container = home.container
            let (text, token) = try options.change("management-token.create", name.isEmpty ? container.name : name) {
                try $0.addManagementToken(for: container, name: name, expires: end)
            }
            try TokenCommand.say(text, token, json: options.json)
        }
    }

    /// The option that names the public key of a server key.
    struct PublicKeyOption: ParsableArguments {
        @Option(
            help: ArgumentHelp("server: the public key in PEM form; - reads standard input.", valueName: "file"),
            completion: .file()
        )
        var publicKey: String?

        func require() throws {
            if publicKey == nil { throw ValidationError("Name the file with --public-key; - reads standard input.") }
        }

        func read() throws -> String {
            guard let publicKey, let text = InputFile.text(publicKey) else {
                throw CommandFailure(
                    .failed,
                    "\(publicKey ?? "") cannot be read. Name the file with --public-key."
                )
            }
            return text
        }
    }

    private static func say(_ text: String, _ token: ManagementToken, json: Bool) throws {
        if json {
            var answer = ["managementToken": text, "id": token.id, "container": token.container.name]
            answer["expires"] = token.expires?.iso8601
            return try Terminal.say(json: answer)
        }
        Terminal.say(text, as: "management token  ")
        Terminal.tell("id                \(token.id)  (for: zonecast token revoke --kind management)")
        Terminal.tell("expires           \(token.expires?.iso8601 ?? "never")")
        Terminal.tell("Save it now: the relay stores only its hash. To use it: export ZONECAST_MANAGEMENT_TOKEN=…")
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace a credential with a new one that has the same name and rights.",
            discussion: """
                The old one is revoked at once; with --keep, revoke it yourself once your apps use the new one. A new server key \
                acts as the same user, so it owns the same records.
                """
        )

        @Argument(help: "The id, as in the list.")
        var id: String

        @OptionGroup var kind: KindOption

        @Flag(help: "Keep the old credential valid.")
        var keep = false

        @OptionGroup var file: PublicKeyOption
        @OptionGroup var options: FolderOptions

        func validate() throws {
            try kind.refuse(file.publicKey != nil, "--public-key", unless: .server)
            if kind.kind == .server { try file.require() }
            if kind.kind == .session {
                throw ValidationError("A session is not rotated. Create another: zonecast token create --kind session")
            }
        }

        func run() throws {
            switch kind.kind {
            case .api: try rotateAPIToken()
            case .server: try rotateServerKey()
            case .management: try rotateManagementToken()
            case .session: break
            }
        }

        private func rotateAPIToken() throws {
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

        private func rotateServerKey() throws {
            let pem = try file.read()
            let key = try options.change("key.rotate", String(id.prefix(16))) { store in
                guard let old = try store.serverKey(id), old.revoked == nil else {
                    throw DirectoryError.missing("key \(id) that is not revoked")
                }
                let made = try store.addServerKey(in: old.home, name: old.name, publicKeyPEM: pem, user: old.user)
                if !keep { try store.revokeServerKey(id) }
                return made
            }
            if options.json {
                return try Terminal.say(json: ["keyID": key.id, "userRecordName": key.user.recordName])
            }
            Terminal.say(key.id, as: "key ID  ")
            Terminal.tell(
                keep
                    ? "The old key stays valid until: zonecast token revoke --kind server \(id)"
                    : "The old key is revoked."
            )
        }

        private func rotateManagementToken() throws {
            let (text, token) = try options.change("management-token.rotate", id) { store in
                let now = TimeSource.system.now()
                guard let old = try store.managementTokens().first(where: { $0.id == id && $0.isGood(at: now) }) else {
                    throw DirectoryError.missing("valid management token \(id)")
                }
                let made = try store.addManagementToken(for: old.container, name: old.name, expires: old.expires)
                if !keep { try store.revokeManagementToken(id) }
                return made
            }
            try TokenCommand.say(text, token, json: options.json)
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a credential. A running relay refuses it within a second.",
            discussion:
                "With --kind session, one session by its id, or all sessions of --user; a running relay closes their sockets within two seconds."
        )

        @Argument(help: "The id, as in the list; of an API token also the token itself.")
        var id: String?

        @OptionGroup var kind: KindOption

        @Option(help: ArgumentHelp("session: the user's e-mail address, or dev-NAME.", valueName: "user"))
        var user: String?

        @OptionGroup var options: FolderOptions

        func validate() throws {
            try kind.refuse(user != nil, "--user", unless: .session)
            guard kind.kind == .session else {
                if id == nil { throw ValidationError("Name the credential by its id. See: zonecast token list") }
                return
            }
            if (id == nil) == (user == nil) {
                throw ValidationError("Name one session by its id, or a user with --user EMAIL to end all sessions.")
            }
        }

        func run() throws {
            let id = id ?? ""
            let subject = String(id.prefix(16))
            switch kind.kind {
            case .api: try options.change("token.revoke", subject) { try $0.revokeAPIToken(id) }
            case .server: try options.change("key.revoke", subject) { try $0.revokeServerKey(id) }
            case .management: try options.change("management-token.revoke", id) { try $0.revokeManagementToken(id) }
            case .session:
                guard let user else { return try UserCommand.revokeSession(id, options) }
                return try UserCommand.revokeSessions(of: user, options)
            }
            try options.confirm("revoked")
        }
    }
}

/// `zonecast token list`.
extension TokenCommand {
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List credentials, without their secrets.")

        @OptionGroup var kind: KindOption
        @OptionGroup var filter: HomeFilter

        @Option(help: ArgumentHelp("session: the user's e-mail address, or dev-NAME.", valueName: "user"))
        var user: String?

        @OptionGroup var options: FolderOptions

        func validate() throws {
            try kind.refuse(user != nil, "--user", unless: .session)
            if kind.kind == .session, user == nil { throw ValidationError("Name the user with --user EMAIL.") }
        }

        func run() throws {
            switch kind.kind {
            case .api: try listAPITokens()
            case .server: try listServerKeys()
            case .management: try listManagementTokens()
            case .session: try UserCommand.listSessions(of: user ?? "", filter, options)
            }
        }

        private struct APITokenRow: Encodable {
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

        private func listAPITokens() throws {
            let rows = try options.withDirectory { try $0.apiTokens() }.filter { filter.admits($0.home) }
                .map(APITokenRow.init)
            try options.list(
                rows,
                as: "apiTokens",
                heading: ["ID", "CONTAINER", "ENVIRONMENT", "NAME", "CREATED", "REVOKED"],
                empty: "There are no API tokens. Create one: zonecast token create --container ID"
            ) { [$0.id, $0.container, $0.environment, $0.name, $0.created, $0.revoked ?? "-"] }
        }

        private struct ServerKeyRow: Encodable {
            var keyID: String
            var container: String
            var environment: String
            var name: String
            var userRecordName: String
            var created: String
            var revoked: String?

            init(_ key: ServerKey) {
                keyID = key.id
                container = key.home.container.name
                environment = key.home.environment.rawValue
                name = key.name
                userRecordName = key.user.recordName
                created = key.created.iso8601
                revoked = key.revoked?.iso8601
            }
        }

        private func listServerKeys() throws {
            let rows = try options.withDirectory { try $0.serverKeys() }.filter { filter.admits($0.home) }
                .map(ServerKeyRow.init)
            try options.list(
                rows,
                as: "keys",
                heading: ["KEY ID", "CONTAINER", "ENVIRONMENT", "NAME", "CREATED", "REVOKED"],
                empty:
                    "There are no keys. Create one: zonecast token create --kind server --container ID --public-key FILE"
            ) { [$0.keyID, $0.container, $0.environment, $0.name, $0.created, $0.revoked ?? "-"] }
        }

        private struct ManagementTokenRow: Encodable {
            var id: String
            var container: String
            var name: String
            var created: String
            var expires: String?
            var revoked: String?
            var used: String?

            init(_ token: ManagementToken) {
                id = token.id
                container = token.container.name
                name = token.name
                created = token.created.iso8601
                expires = token.expires?.iso8601
                revoked = token.revoked?.iso8601
                used = token.used?.iso8601
            }
        }

        private func listManagementTokens() throws {
            let rows = try options.withDirectory { try $0.managementTokens() }
                .filter { (filter.container ?? $0.container) == $0.container }.map(ManagementTokenRow.init)
            try options.list(
                rows,
                as: "managementTokens",
                heading: ["ID", "CONTAINER", "NAME", "LAST USED", "EXPIRES", "REVOKED"],
                empty:
                    "There are no management tokens. Create one: zonecast token create --kind management --container ID"
            ) { [$0.id, $0.container, $0.name, $0.used ?? "never", $0.expires ?? "never", $0.revoked ?? "-"] }
        }
    }
}
