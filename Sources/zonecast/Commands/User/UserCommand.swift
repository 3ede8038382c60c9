import ArgumentParser
import Records
import RelayAPI
import RelayCore
import RelayStore

/// `zonecast user`: manages accounts, which belong to the relay and not to a container.
struct UserCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user",
        abstract: "Create, list, sign in, export and delete users, and set their quotas.",
        subcommands: [
            Add.self, List.self, Show.self, SignIn.self, Password.self, Profile.self, Quota.self, Sessions.self,
            Disable.self, Export.self, Delete.self,
        ]
    )

    /// The source of a new password: never the command line, which other users of the machine can read.
    struct PasswordOptions: ParsableArguments {
        @Flag(help: "Read the password from the first line of standard input instead of asking.")
        var passwordStdin = false

        func newPassword(of email: String) throws -> String {
            passwordStdin
                ? try Terminal.readPasswordLine() : try Terminal.askPassword("Password for \(email)", isNew: true)
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a user. The password has at least 8 characters."
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var person: PersonOptions
        @OptionGroup var password: PasswordOptions
        @OptionGroup var options: FolderOptions

        func validate() throws {
            if let objection = EmailAddress.objection(to: email) { throw ValidationError(objection) }
        }

        func run() throws {
            let word = try password.newPassword(of: email)
            let account = try options.change("user.add", email, creates: true) { store in
                let account = try store.addAccount(email: email, password: word)
                try person.write(to: account, in: store)
                return account
            }
            if options.json {
                try Terminal.say(json: ["email": account.email ?? email])
            } else {
                Terminal.tell("created  \(account.email ?? email)")
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the users.")

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var email: String?
            var devName: String?
            var issuer: String?
            var subject: String?
            var phone: String?
            var givenName: String?
            var familyName: String?
            var disabled: Bool
            var created: String

            init(_ account: Account) {
                email = account.email
                switch account.login {
                // Two accounts of one address are told apart by it.
                case .email(let login): email = login
                case .dev(let name): devName = name
                case .foreign(let from, let name):
                    issuer = from
                    subject = name
                }
                phone = account.phone
                givenName = account.name.given
                familyName = account.name.family
                disabled = account.isDisabled
                created = account.created.iso8601
            }
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.accounts() }.map(Row.init)
            try options.list(
                rows,
                as: "users",
                heading: ["USER", "NAME", "ISSUER", "STATE", "CREATED"],
                empty: "There are no users yet. Create one: zonecast user add EMAIL"
            ) {
                [
                    $0.devName.map { "dev-\($0)" } ?? $0.subject ?? $0.email ?? "",
                    [$0.givenName, $0.familyName].compactMap { $0 }.joined(separator: " "),
                    $0.issuer ?? "-", $0.disabled ? "disabled" : "-", $0.created,
                ]
            }
        }
    }

    struct SignIn: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign-in",
            abstract: "Create a web auth token for a user, as a sign-in does.",
            discussion: "Needs no password: write access to the data folder is enough to act for its users.",
            aliases: ["create"]
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Flag(help: "The token expires two weeks instead of 30 minutes after its last use.")
        var keepSignedIn = false

        private struct Answer: Encodable {
            var ckWebAuthToken: String
            var userRecordName: String
        }

        func run() throws {
            let started = try options.change("user.sign-in", email, in: home.home) { store in
                let account = try UserCommand.account(email, in: store)
                guard !account.isDisabled else {
                    throw CommandFailure(
                        .notAllowed,
                        "\(email) is disabled. Enable the user: zonecast user disable \(email) --undo --data \(options.folder.shellWord)"
                    )
                }
                try store.requireContainer(home.container)
                return try RelayAPI.SignIn.start(
                    for: account.id,
                    in: home.home,
                    kind: keepSignedIn ? .kept : .brief,
                    directory: store,
                    time: .system,
                    random: .system
                )
            }
            if options.json {
                try Terminal.say(
                    json: Answer(ckWebAuthToken: started.webToken, userRecordName: started.user.recordName)
                )
            } else {
                Terminal.say(started.webToken, as: "web auth token    ")
                Terminal.tell("user record name  \(started.user)")
                Terminal.tell("In a URL query, write + / = as %2B %2F %3D.")
            }
        }
    }

    struct Password: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set a user's password and revoke all their sessions."
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var password: PasswordOptions
        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("user.password", email) { store in
                let account = try UserCommand.account(email, in: store)
                try store.setPassword(try password.newPassword(of: email), of: account.id)
            }
            try options.confirm("changed")
        }
    }

    /// Profile data that other users can see if the user allows it in an app.
    struct PersonOptions: ParsableArguments {
        @Option(help: "The given name.")
        var givenName: String?

        @Option(help: "The family name.")
        var familyName: String?

        @Option(help: ArgumentHelp("A telephone number with its country, such as +49301234567.", valueName: "number"))
        var phone: String?

        func validate() throws {
            guard let phone, !phone.isEmpty, let objection = PhoneNumber.objection(to: phone) else { return }
            throw ValidationError(objection)
        }

        var isEmpty: Bool { givenName == nil && familyName == nil && phone == nil }

        /// An empty text removes a value; omitted values stay.
        func write(to account: Account, in store: AccountStore) throws {
            var name = account.name
            if let givenName { name.given = PersonName.part(givenName) }
            if let familyName { name.family = PersonName.part(familyName) }
            if name != account.name { try store.setName(name, of: account.id) }
            if let phone { try store.setPhone(phone.isEmpty ? nil : phone, of: account.id) }
        }
    }

    struct Profile: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Edit a user's name and telephone number.",
            discussion: """
                Other users see them only if the user allows discovery, separately for each app.
                """
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var person: PersonOptions
        @OptionGroup var options: FolderOptions

        func validate() throws {
            if person.isEmpty { throw ValidationError("Add --given-name, --family-name or --phone.") }
        }

        func run() throws {
            try options.withDirectory { store in
                try person.write(to: try UserCommand.account(email, in: store), in: store)
            }
            try options.confirm("changed")
        }
    }

    struct Disable: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Disable a user and revoke all their sessions. A running relay refuses them within a second."
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @Flag(help: "Enable the user again. Revoked sessions stay revoked.")
        var undo = false

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change(undo ? "user.enable" : "user.disable", email) { store in
                try store.setDisabled(!undo, of: try UserCommand.account(email, in: store).id)
            }
            if options.json {
                try Terminal.say(json: ["disabled": !undo])
            } else {
                Terminal.tell(undo ? "enabled" : "disabled")
            }
        }
    }

    /// Returns the account with this address, `dev-NAME` or foreign subject, as shown by the list.
    static func account(_ name: String, in store: AccountStore) throws -> Account {
        if let account = try store.account(email: name) { return account }
        let others = try store.accounts().filter { account in
            switch account.login {
            case .email: false
            case .dev(let dev): name == "dev-\(dev)"
            case .foreign(_, let subject): name == subject
            }
        }
        guard let account = others.first, others.count == 1 else { throw DirectoryError.missing("user \(name)") }
        return account
    }
}
