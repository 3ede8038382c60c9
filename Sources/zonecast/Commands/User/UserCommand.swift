import ArgumentParser
import Records
import RelayAPI
import RelayCore
import RelayStore

/// `zonecast user`: accounts, which belong to the relay and not to one container.
struct UserCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user",
        abstract: "Add, list, sign in, export and delete users, and say how much they may store.",
        subcommands: [
            Add.self, List.self, Show.self, SignIn.self, Password.self, Profile.self, Quota.self, Sessions.self,
            Disable.self, Export.self, Delete.self,
        ]
    )

    /// Where a new password comes from: never from the command line, which others on the machine can read.
    struct PasswordOptions: ParsableArguments {
        @Flag(help: "Read the password from the first line of standard input instead of asking.")
        var passwordStdin = false

        func newPassword(of email: String) throws -> String {
            passwordStdin
                ? try Terminal.readPasswordLine() : try Terminal.askPassword("Password for \(email)", isNew: true)
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a user. The password has at least 8 characters.")

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var person: PersonOptions
        @OptionGroup var password: PasswordOptions
        @OptionGroup var options: FolderOptions

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
                Terminal.tell("added  \(account.email ?? email)")
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
                switch account.login {
                case .email: break
                case .dev(let name): devName = name
                case .foreign(let from, let name):
                    issuer = from
                    subject = name
                }
                email = account.email
                phone = account.phone
                givenName = account.name.given
                familyName = account.name.family
                disabled = account.isDisabled
                created = account.created.iso8601
            }
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.accounts() }.map(Row.init)
            if options.json {
                try Terminal.say(json: ["users": rows])
            } else {
                Terminal.say(
                    table: rows.map {
                        [
                            $0.devName.map { "dev-\($0)" } ?? $0.subject ?? $0.email ?? "",
                            [$0.givenName, $0.familyName].compactMap { $0 }.joined(separator: " "),
                            $0.issuer ?? "-", $0.disabled ? "disabled" : "-", $0.created,
                        ]
                    },
                    heading: ["USER", "NAME", "ISSUER", "STATE", "CREATED"],
                    empty: "There are no users yet. Add one with: zonecast user add EMAIL"
                )
            }
        }
    }

    struct SignIn: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign-in",
            abstract: "Make a web auth token for a user, as signing in would.",
            discussion: "No password is asked: whoever may write the data folder may act for its users.",
            aliases: ["create"]
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Flag(help: "Let its tokens live for two weeks instead of 30 minutes after each use.")
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
                        "\(email) is disabled. Enable it with: zonecast user disable \(email) --undo --data \(options.folder.shellWord)"
                    )
                }
                guard try store.hasContainer(home.container) else {
                    throw DirectoryError.missing("container \(home.container)")
                }
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
                Terminal.tell("In a query write its + / = as %2B %2F %3D.")
            }
        }
    }

    struct Password: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Set a user's password and end all their sign-ins.")

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var password: PasswordOptions
        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("user.password", email) { store in
                let account = try UserCommand.account(email, in: store)
                try store.setPassword(try password.newPassword(of: email), of: account.id)
            }
            if options.json { try Terminal.say(json: ["changed": true]) } else { Terminal.tell("changed") }
        }
    }

    /// What other people may come to see, if the user chooses so in an application.
    struct PersonOptions: ParsableArguments {
        @Option(help: "The given name.")
        var givenName: String?

        @Option(help: "The family name.")
        var familyName: String?

        @Option(help: ArgumentHelp("A telephone number with its country, such as +49301234567.", valueName: "number"))
        var phone: String?

        func validate() throws {
            guard let phone, !phone.isEmpty, AccountRules.canonicalPhone(phone) == nil else { return }
            throw ValidationError(
                "\"\(phone)\" is not a telephone number. Write it with its country code: +49 30 1234567."
            )
        }

        var isEmpty: Bool { givenName == nil && familyName == nil && phone == nil }

        /// An empty text takes away what was there; what is not given stays.
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
            abstract: "Set a user's name and telephone number.",
            discussion: """
                Others see them only where the user lets themself be found, which each user decides for each application.
                """
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var person: PersonOptions
        @OptionGroup var options: FolderOptions

        func validate() throws {
            if person.isEmpty { throw ValidationError("Give --given-name, --family-name or --phone.") }
        }

        func run() throws {
            try options.withDirectory { store in
                try person.write(to: try UserCommand.account(email, in: store), in: store)
            }
            if options.json { try Terminal.say(json: ["changed": true]) } else { Terminal.tell("changed") }
        }
    }

    struct Disable: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Disable a user and end all their sign-ins. A running relay refuses them within a second."
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @Flag(help: "Enable the user again. Sign-ins that were ended stay ended.")
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

    /// The account of an address, of `dev-NAME` or of a foreign subject, as the list shows it.
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
