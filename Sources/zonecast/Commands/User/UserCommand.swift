import ArgumentParser
import Foundation
import Records
import RelayAPI
import RelayCore
import RelaySystem
import Wire

/// `zonecast user`: manages accounts, which belong to the relay and not to a container.
struct UserCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user",
        abstract: "Create, list, edit, sign in, export and delete users; roles, operators, issuers of identity tokens.",
        subcommands: [
            Create.self, List.self, Show.self, Edit.self, Disable.self, Delete.self, Export.self, Password.self,
            SignIn.self, RoleCommand.self, OperatorCommand.self, IssuerCommand.self,
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

    struct Create: ParsableCommand {
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
                empty: "There are no users yet. Create one: zonecast user create EMAIL"
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
            discussion: "Needs no password: write access to the data folder is enough to act for its users."
        )

        @Argument(help: "The e-mail address.")
        var email: String

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Flag(help: "The token expires two weeks instead of 30 minutes after its last use.")
        var keepSignedIn = false

        func run() throws {
            try UserCommand.signIn(email, in: home.home, keepSignedIn: keepSignedIn, options)
        }
    }

    /// Creates a web auth token for a user and prints it.
    static func signIn(_ email: String, in home: ContainerEnvironment, keepSignedIn: Bool, _ options: FolderOptions)
        throws
    {
        let started = try options.change("user.sign-in", email, in: home) { store in
            let account = try UserCommand.account(email, in: store)
            guard !account.isDisabled else {
                throw CommandFailure(
                    .notAllowed,
                    "\(email) is disabled. Enable the user: zonecast user disable \(email) --undo \(DataFolder.option(options.folder))"
                )
            }
            try store.requireContainer(home.container)
            return try RelayAPI.SignIn.start(
                for: account.id,
                in: home,
                kind: keepSignedIn ? .kept : .brief,
                directory: store,
                time: .system,
                random: .system
            )
        }
        if options.json {
            return try Terminal.say(
                json: ["ckWebAuthToken": started.webToken, "userRecordName": started.user.recordName]
            )
        }
        Terminal.say(started.webToken, as: "web auth token    ")
        Terminal.tell("user record name  \(started.user)")
        Terminal.tell("In a URL query, write + / = as %2B %2F %3D.")
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
        func write(to account: Account, in store: any AccountDirectory) throws {
            var name = account.name
            if let givenName { name.given = PersonName.part(givenName) }
            if let familyName { name.family = PersonName.part(familyName) }
            if name != account.name { try store.setName(name, of: account.id) }
            if let phone { try store.setPhone(phone.isEmpty ? nil : phone, of: account.id) }
        }
    }

    struct Edit: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Edit a user's name, telephone number and quota.",
            discussion: """
                Other users see name and number only if the user allows discovery, separately for each app. The quota is that of the \
                private database of each container; a running relay applies it within a second. Users above it keep their data but \
                cannot store more. For all users: quota.private in the configuration.
                """
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @OptionGroup var person: PersonOptions

        @Option(help: ArgumentHelp("Such as 500MB or 5GB; 0: no limit; or 'configured'.", valueName: "size"))
        var quota: String?

        @OptionGroup var options: FolderOptions

        func validate() throws {
            if person.isEmpty, quota == nil {
                throw ValidationError("Add --given-name, --family-name, --phone or --quota.")
            }
            guard let quota, quota != "configured", ByteSize(quota) == nil else { return }
            throw ValidationError("'\(quota)' is not a size. Write it like 500MB, 5GB or 1000000, or 'configured'.")
        }

        func run() throws {
            if !person.isEmpty {
                try options.withDirectory { store in
                    try person.write(to: try UserCommand.account(email, in: store), in: store)
                }
            }
            if let quota {
                let bytes = ByteSize(quota).map { $0.bytes == 0 ? .max : $0.bytes }
                try options.change("user.quota", email) {
                    try $0.setPrivateQuota(bytes, of: try UserCommand.account(email, in: $0).id)
                }
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
    static func account(_ name: String, in store: any AccountDirectory) throws -> Account {
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

/// Information and sessions of one user.
extension UserCommand {
    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a user's containers, bytes and sessions, without contents."
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @OptionGroup var options: FolderOptions

        private struct Container: Encodable {
            var container: String
            var environment: String
            var userRecordName: String
            var bytes: Int64
            var zones: Int
        }

        private struct Answer: Encodable {
            var user: String
            var disabled: Bool
            var created: String
            var privateQuota: Int64?
            var signIns: Int
            var containers: [Container]
        }

        func run() throws {
            let answer = try options.withDirectory { store in
                let account = try UserCommand.account(email, in: store)
                let quota = try store.privateQuota(of: account.id)
                return Answer(
                    user: email,
                    disabled: account.isDisabled,
                    created: account.created.iso8601,
                    // No limit is written as 0.
                    privateQuota: quota == .max ? 0 : quota,
                    signIns: try store.sessions(of: account.id).count,
                    containers: try store.profiles(of: account.id).map(container)
                )
            }
            if options.json { return try Terminal.say(json: answer) }
            Terminal.say("user      \(answer.user)\(answer.disabled ? "  (disabled)" : "")")
            Terminal.say("created   \(answer.created)")
            Terminal.say("sign-ins  \(answer.signIns)")
            Terminal.say("quota     \(UserCommand.words(ofQuota: answer.privateQuota))")
            Terminal.say("")
            Terminal.say(
                table: answer.containers.map {
                    [$0.container, $0.environment, $0.userRecordName, ByteText.of($0.bytes), "\($0.zones)"]
                },
                heading: ["CONTAINER", "ENVIRONMENT", "USER RECORD NAME", "BYTES", "ZONES"],
                empty: "The user has not used any container yet."
            )
        }

        private func container(_ home: ContainerEnvironment, _ profile: UserProfile) throws -> Container {
            let use = try options.home.upkeep.use(of: profile.user, in: home)
            return Container(
                container: home.container.name,
                environment: home.environment.rawValue,
                userRecordName: profile.user.recordName,
                bytes: use.bytes,
                zones: use.zones
            )
        }
    }

    private struct SessionRow: Encodable {
        var id: String
        var container: String
        var environment: String
        var keptSignedIn: Bool
        var created: String
        var used: String?

        init(_ session: Session) {
            id = session.id.text
            container = session.home.container.name
            environment = session.home.environment.rawValue
            keptSignedIn = session.kind == .kept
            created = session.created.iso8601
            used = session.used?.iso8601
        }
    }

    /// Lists a user's sessions.
    static func listSessions(of email: String, _ filter: HomeFilter, _ options: FolderOptions) throws {
        let rows = try options.withDirectory { store in
            try store.sessions(of: try UserCommand.account(email, in: store).id).filter { filter.admits($0.home) }
                .map(SessionRow.init)
        }
        try options.list(
            rows,
            as: "sessions",
            heading: ["ID", "CONTAINER", "ENVIRONMENT", "SIGNED IN", "LAST USED"],
            empty: "\(email) has no sessions."
        ) { [$0.id, $0.container, $0.environment, $0.created, $0.used ?? "-"] }
    }

    /// Revokes all sessions of a user.
    static func revokeSessions(of email: String, _ options: FolderOptions) throws {
        let count = try options.change("user.sign-out", email) { store in
            let account = try UserCommand.account(email, in: store).id
            let count = try store.sessions(of: account).count
            try store.revokeSessions(of: account, in: nil)
            return count
        }
        if options.json { return try Terminal.say(json: ["revoked": count]) }
        Terminal.tell("revoked  \(count)")
    }

    /// Revokes one session.
    static func revokeSession(_ id: String, _ options: FolderOptions) throws {
        guard let session = Session.ID(text: id) else {
            throw CommandFailure(
                .usage,
                "'\(id)' is not a session's id, which has 32 hexadecimal digits. See: zonecast token list --kind session --user EMAIL"
            )
        }
        try options.change("user.sign-out", String(id.prefix(16))) { store in
            guard let known = try store.session(session), known.revoked == nil else {
                throw DirectoryError.missing("session \(id) that is not revoked")
            }
            try store.revokeSession(session)
        }
        try options.confirm("revoked")
    }

    static func words(ofQuota bytes: Int64?) -> String {
        switch bytes {
        case nil: "as configured (quota.private)"
        case 0: "no limit"
        case let bytes?: ByteText.of(bytes)
        }
    }
}

/// Export and deletion of a user's data, as data protection laws require.
extension UserCommand {
    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print all private and public records of a user, one line of JSON each.",
            discussion: """
                For users who request a copy of their data. Calls the running relay as that user; recorded in the audit log.
                Assets are named by their checksums; download each from its downloadURL within an hour.
                """
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @OptionGroup var filter: HomeFilter
        @OptionGroup var options: FolderOptions

        func run() async throws {
            let count = try await options.withDirectoryAsync { store in
                let account = try UserCommand.account(email, in: store)
                let homes = try UserCommand.homes(of: account, filter, store)
                try store.note(AuditEntry(command: "user.export", email))
                return try await UserSessions.during(store) { sessions in
                    var count = 0
                    for home in homes { count += try await export(account, in: home, sessions) }
                    return count
                }
            }
            Terminal.sayError("\(count) record\(count == 1 ? "" : "s") of \(email)")
        }

        /// Prints the user's records in one container; returns their number.
        private func export(_ account: Account, in home: ContainerEnvironment, _ sessions: UserSessions) async throws
            -> Int
        {
            let session = try await UserSession(of: account, in: home, sessions, folder: options.folder)
            defer { session.end() }
            var count = 0
            try await UserCommand.translatingErrors {
                for zone in try await session.zones(in: "private") {
                    guard let name = zone["zoneID"]?.text("zoneName") else { continue }
                    try await session.records(of: name) { record in
                        count += 1
                        Terminal.say(Self.line(record, "private", name, home))
                    }
                }
                try await session.publicRecords { record in
                    count += 1
                    Terminal.say(Self.line(record, "public", ZoneID.defaultName, home))
                }
            }
            return count
        }

        private static func line(_ record: JSONValue, _ database: String, _ zone: String, _ home: ContainerEnvironment)
            -> String
        {
            #"{"container":\#(quoted(home.container.name)),"environment":"\#(home.environment.rawValue)","#
                + #""database":"\#(database)","zone":\#(quoted(zone)),"record":\#(record.line)}"#
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a user: their private databases, shares, sessions and account.",
            discussion: """
                Calls the running relay as that user, so that participants of their shares are notified. Records saved in public \
                databases and in other users' zones stay, under a user record name that no account uses any more and whose empty \
                record stays. The user is disabled first and stays disabled if something fails; then run the command again. Only a \
                backup can undo this.
                """
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @Flag(help: "Do not ask for confirmation.")
        var yes = false

        @OptionGroup var options: FolderOptions

        func run() async throws {
            let zones = try await options.withDirectoryAsync { store in
                let account = try UserCommand.account(email, in: store)
                if !yes {
                    try Terminal.confirm("This deletes all data of \(email).", byTyping: email, called: "the address")
                }
                let homes = try UserCommand.homes(of: account, nil, store)
                // A signed-in user could write to zones that are already emptied.
                try store.setDisabled(true, of: account.id)
                return try await UserSessions.during(store) { sessions in
                    var zones = 0
                    for home in homes {
                        let session = try await UserSession(of: account, in: home, sessions, folder: options.folder)
                        defer { session.end() }
                        try await UserCommand.translatingErrors {
                            zones += try await empty(session)
                            try await session.clearUserRecord()
                            // The default zone goes last: any request creates it again and counts it.
                            zones += try await deleteZones(session)
                        }
                    }
                    return zones
                }
            }
            try options.change("user.delete", email) { try $0.removeAccount(try UserCommand.account(email, in: $0).id) }
            if options.json { return try Terminal.say(json: ["zones": zones]) }
            Terminal.tell("deleted  \(email)  \(zones.of("zone"))")
        }

        /// Leaves other users' shares and deletes every zone except the default one.
        private func empty(_ session: UserSession) async throws -> Int {
            var count = 0
            for zone in try await session.zones(in: "shared") {
                guard let id = zone["zoneID"] else { continue }
                try await session.leaveShare(id)
                count += 1
            }
            return count + (try await deleteZones(session) { $0 != ZoneID.defaultName })
        }

        /// Deletes the user's own zones that match; returns their number.
        private func deleteZones(_ session: UserSession, where matches: (String) -> Bool = { _ in true }) async throws
            -> Int
        {
            let zones = try await session.zones(in: "private").compactMap { $0["zoneID"] }
                .filter { $0.text("zoneName").map(matches) ?? false }
            for zone in zones { try await session.delete(zone) }
            return zones.count
        }
    }

    /// Returns the containers and environments that an account has used.
    ///
    /// - Throws: `DirectoryError` if the filter names a container that does not exist.
    static func homes(of account: Account, _ filter: HomeFilter?, _ store: any AccountDirectory) throws
        -> [ContainerEnvironment]
    {
        if let container = filter?.container { try store.requireContainer(container) }
        return try store.profiles(of: account.id).map(\.home).filter { filter?.admits($0) ?? true }
    }

    /// Translates errors of the relay and of the connection to `CommandFailure`.
    static func translatingErrors<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch let refusal as WireConnection.Refusal {
            throw CommandFailure(.failed, "The relay refused: \(refusal.words)")
        } catch let fault as ProbeFault {
            throw CommandFailure(.unreachable, "The relay \(fault).")
        }
    }
}

extension Session.ID {
    /// 32 hexadecimal digits.
    fileprivate var text: String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 32 - digits.count) + digits
    }

    fileprivate init?(text: String) {
        guard text.count == 32, let number = UInt128(text, radix: 16) else { return nil }
        self.init(number)
    }
}
