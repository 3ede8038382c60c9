import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayGateways
import RelaySystem
import Wire

/// `zonecast user issuer`: manages the issuers whose identity tokens (JWT) a container accepts for sign-in.
struct IssuerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "issuer",
        abstract: "Create, list and delete trusted issuers of identity tokens (JWT).",
        discussion: """
            An app whose users sign in elsewhere sends their identity token to users/signin and gets a web auth token.
            """,
        subcommands: [Create.self, List.self, Delete.self, Check.self]
    )

    struct ContainerOption: ParsableArguments {
        @Option var container: ContainerID

        init() { _container = .container }
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create or edit a trusted issuer. Applies to a running relay at once."
        )

        @OptionGroup var place: ContainerOption
        @OptionGroup var options: FolderOptions

        @Option(help: ArgumentHelp("The exact iss claim of its tokens.", valueName: "text"))
        var issuer: String

        @Option(help: ArgumentHelp("A value that their aud claim must contain. May be repeated.", valueName: "text"))
        var audience: [String]

        @Option(
            name: .customLong("keys-url"),
            help: ArgumentHelp("The https address of its JWK set.", valueName: "url")
        )
        var keysURL: String?

        @Option(
            help: ArgumentHelp(
                "A file with a JWK set, a JWK, a PEM public key, or for HS256 the secret. Read when needed.",
                valueName: "file"
            ),
            completion: .file()
        )
        var keysFile: String?

        @Option(
            help: """
                RS256, ES256, EdDSA (also called Ed25519), or with --keys-file HS256. May be repeated. (default: RS256, \
                ES256 and EdDSA)
                """
        )
        var algorithm: [TokenIssuer.Algorithm] = []

        @Option(
            help: ArgumentHelp(
                """
                Another claim for email, phone, name, given-name, family-name, middle-name or nickname, such as \
                email=mail. May be repeated.
                """,
                valueName: "field=claim"
            )
        )
        var claim: [ClaimName] = []

        @Flag(help: "Accept e-mail addresses and phone numbers even if the issuer does not mark them as verified.")
        var trustContacts = false

        func validate() throws {
            guard (keysURL == nil) != (keysFile == nil) else {
                throw ValidationError("Name the keys with either --keys-url or --keys-file.")
            }
            guard !issuer.isEmpty, issuer.utf8.count <= 255, !issuer.contains(where: \.isNewline) else {
                throw ValidationError("--issuer is a text of 1 to 255 bytes on one line.")
            }
            if let keysURL, !Self.isAddress(keysURL) {
                throw ValidationError(
                    "\"\(keysURL)\" is not an https address. Write it like https://id.example/jwks.json"
                )
            }
            if keysURL != nil, algorithm.contains(.hs256) {
                throw ValidationError("HS256 needs a shared secret, which must not be published: use --keys-file.")
            }
        }

        func run() async throws {
            let issuer = TokenIssuer(
                container: place.container,
                issuer: issuer,
                audiences: audience,
                algorithms: algorithm.isEmpty ? [.rs256, .es256, .edDSA] : Set(algorithm),
                keys: keysFile.map { .file(Self.absolute($0)) } ?? .url(keysURL ?? ""),
                claims: Dictionary(claim.map { ($0.field, $0.claim) }) { $1 },
                trustsContacts: trustContacts,
                created: TimeSource.system.now()
            )
            let loaded = await IssuerKeys.load(issuer, from: KeyFetch())
            // A file that cannot be read is an error; a URL may be unreachable from here or not be up yet.
            if case .failure(let fault) = loaded, case .file = issuer.keys {
                throw CommandFailure(.failed, fault.description)
            }
            try options.change("issuer.add", "\(issuer.issuer) for \(issuer.container)") { try $0.putIssuer(issuer) }
            if options.json { return try Terminal.say(json: Row(issuer)) }
            Terminal.tell("trusted  \(issuer.issuer)")
            switch loaded {
            case .success(let keys): Terminal.tell("keys     \(keys.count)")
            case .failure(let fault): Terminal.tell("keys     none yet: \(fault.description)")
            }
            Terminal.tell("Try a token:  zonecast user issuer check --container \(place.container) < token")
        }

        private static func isAddress(_ text: String) -> Bool {
            guard let parts = URLComponents(string: text) else { return false }
            guard (1...65_535).contains(parts.port ?? 443) else { return false }
            return parts.scheme == "https" && !(parts.host ?? "").isEmpty && parts.user == nil && parts.fragment == nil
                && PortNumber.isUsable(in: text)
        }

        private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the issuers that containers trust.")

        @Option(name: .container, help: ArgumentHelp("Only entries of this container.", valueName: "id"))
        var container: ContainerID?
        @OptionGroup var options: FolderOptions

        func run() throws {
            let rows = try options.withDirectory { try $0.issuers() }
                .filter { (container ?? $0.container) == $0.container }.map(Row.init)
            try options.list(
                rows,
                as: "issuers",
                heading: ["CONTAINER", "ISSUER", "AUDIENCE", "ALGORITHMS", "KEYS"],
                empty: "No container trusts an issuer. To create one, see: zonecast user issuer create --help"
            ) {
                [
                    $0.container, $0.issuer, $0.audiences.joined(separator: " "),
                    $0.algorithms.joined(separator: " "), $0.keysURL ?? $0.keysFile ?? "",
                ]
            }
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a trusted issuer and revoke its users' sessions in the container."
        )

        @OptionGroup var place: ContainerOption
        @OptionGroup var options: FolderOptions

        @Option(help: ArgumentHelp("Its name, as in the list.", valueName: "text"))
        var issuer: String

        func run() throws {
            try options.change("issuer.remove", "\(issuer) for \(place.container)") {
                try $0.removeIssuer(issuer, of: place.container)
            }
            try options.confirm("deleted")
        }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check whether an identity token from standard input would be accepted, and if not, why.",
            discussion: "Apps receive no reason for a refusal, so that attackers learn nothing."
        )

        @OptionGroup var place: ContainerOption
        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var issuer: String
            var subject: String
            var email: String?
            var phone: String?
            var givenName: String?
            var familyName: String?
        }

        func run() async throws {
            let text = ByteOrderMark.dropped(from: readLine() ?? "").trimmingCharacters(in: .whitespacesAndNewlines)
            let exchange = try options.withDirectory { store in
                ForeignSignIn(
                    directory: store,
                    keys: IssuerKeys(source: KeyFetch(), limits: KeyLimits(), time: .system),
                    time: .system
                )
            }
            do throws(TokenFault) {
                say(try await exchange.person(of: text, in: place.container))
            } catch {
                throw CommandFailure(.failed, "refused: \(error.description)")
            }
        }

        private func say(_ person: ExternalIdentity) {
            let answer = Answer(
                issuer: person.issuer,
                subject: person.subject,
                email: person.email,
                phone: person.phone,
                givenName: person.name.given,
                familyName: person.name.family
            )
            if options.json {
                try? Terminal.say(json: answer)
            } else {
                Terminal.say("good     \(answer.subject) of \(answer.issuer)")
                Terminal.say(
                    "name     \([answer.givenName, answer.familyName].compactMap { $0 }.joined(separator: " "))"
                )
                Terminal.say("e-mail   \(answer.email ?? "none that the issuer has verified")")
                Terminal.say("phone    \(answer.phone ?? "none that the issuer has verified")")
            }
        }
    }

    private struct Row: Encodable {
        var container: String
        var issuer: String
        var audiences: [String]
        var algorithms: [String]
        var keysURL: String?
        var keysFile: String?
        var claims: [String: String]
        var trustsContacts: Bool
        var created: String

        init(_ issuer: TokenIssuer) {
            container = issuer.container.name
            self.issuer = issuer.issuer
            audiences = issuer.audiences
            algorithms = issuer.algorithms.map(\.rawValue).sorted()
            switch issuer.keys {
            case .url(let address): keysURL = address
            case .file(let path): keysFile = path
            }
            claims = Dictionary(issuer.claims.map { ($0.key.rawValue, $0.value) }) { $1 }
            trustsContacts = issuer.trustsContacts
            created = issuer.created.iso8601
        }
    }
}

/// A mapping like `email=mail`: the field, then the claim.
struct ClaimName: ExpressibleByArgument {
    var field: TokenIssuer.Field
    var claim: String

    init?(argument: String) {
        let parts = argument.split(separator: "=", maxSplits: 1).map(String.init)
        guard parts.count == 2, let field = TokenIssuer.Field(rawValue: parts[0]),
            !parts[1].contains(where: \.isNewline)
        else { return nil }
        self.field = field
        claim = parts[1]
    }
}

extension TokenIssuer.Algorithm: ExpressibleByArgument {
    init?(argument: String) { self.init(named: argument) }
}
