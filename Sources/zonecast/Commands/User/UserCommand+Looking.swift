import ArgumentParser
import Records
import RelayCore
import RelayStore

/// Information, quota and sessions of one user.
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
            let use = try StorageReport.use(of: profile.user, in: home, folder: options.folder)
            return Container(
                container: home.container.name,
                environment: home.environment.rawValue,
                userRecordName: profile.user.recordName,
                bytes: use.bytes,
                zones: use.zones
            )
        }
    }

    struct Quota: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show or set a user's quota for the private database of each container.",
            discussion: """
                Without --set or --reset, shows it. A running relay applies a change within a second. Users above the quota keep their \
                data but cannot store more. For all users: quota.private in the configuration.
                """
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @Option(help: ArgumentHelp("Such as 500MB, 5GB or 1000000; 0: no limit.", valueName: "size"))
        var set: String?

        @Flag(help: "Reset to the configured quota.")
        var reset = false

        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var user: String
            var privateQuota: Int64?
        }

        func validate() throws {
            if set != nil, reset { throw ValidationError("Use --set or --reset, not both.") }
            guard let set, ByteSize(set) == nil else { return }
            throw ValidationError("'\(set)' is not a size. Write it like 500MB, 5GB or 1000000.")
        }

        func run() throws {
            let bytes: Int64?
            if let size = set.flatMap({ ByteSize($0) }) {
                bytes = size.bytes
                try change("user.quota") { try $0.setPrivateQuota(size.bytes == 0 ? .max : size.bytes, of: $1) }
            } else if reset {
                bytes = nil
                try change("user.quota") { try $0.setPrivateQuota(nil, of: $1) }
            } else {
                let found = try options.withDirectory {
                    try $0.privateQuota(of: try UserCommand.account(email, in: $0).id)
                }
                bytes = found == .max ? 0 : found
            }
            if options.json { return try Terminal.say(json: Answer(user: email, privateQuota: bytes)) }
            Terminal.say("\(email)  \(UserCommand.words(ofQuota: bytes))")
        }

        private func change(_ action: String, _ body: (AccountStore, Account.ID) throws -> Void) throws {
            try options.change(action, email) { try body($0, try UserCommand.account(email, in: $0).id) }
        }
    }

    struct Sessions: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List a user's sessions, or revoke them.")

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @Flag(help: "Revoke all sessions. A running relay closes their sockets within two seconds.")
        var end = false

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var container: String
            var environment: String
            var keptSignedIn: Bool
            var created: String
            var used: String?
        }

        func run() throws {
            let rows = try options.withDirectory { store in
                try store.sessions(of: try UserCommand.account(email, in: store).id).map {
                    Row(
                        container: $0.home.container.name,
                        environment: $0.home.environment.rawValue,
                        keptSignedIn: $0.kind == .kept,
                        created: $0.created.iso8601,
                        used: $0.used?.iso8601
                    )
                }
            }
            guard end else {
                return try options.list(
                    rows,
                    as: "sessions",
                    heading: ["CONTAINER", "ENVIRONMENT", "SIGNED IN", "LAST USED"],
                    empty: "\(email) has no sessions."
                ) { [$0.container, $0.environment, $0.created, $0.used ?? "-"] }
            }
            try options.change("user.sign-out", email) {
                try $0.revokeSessions(of: try UserCommand.account(email, in: $0).id, in: nil)
            }
            if options.json {
                try Terminal.say(json: ["ended": rows.count])
            } else {
                Terminal.tell("revoked  \(rows.count)")
            }
        }
    }

    static func words(ofQuota bytes: Int64?) -> String {
        switch bytes {
        case nil: "as configured (quota.private)"
        case 0: "no limit"
        case let bytes?: ByteText.of(bytes)
        }
    }
}

/// A number of bytes such as `500MB`, `5 GB` or `1000000`; powers of ten.
struct ByteSize: Hashable {
    var bytes: Int64

    init?(_ text: String) {
        let units: [(String, Int64)] = [
            ("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1), ("", 1),
        ]
        let text = text.uppercased().filter { $0 != " " && $0 != "_" }
        for (unit, factor) in units where text.hasSuffix(unit) {
            guard let number = Int64(text.dropLast(unit.count)), number >= 0 else { return nil }
            let (bytes, isTooMuch) = number.multipliedReportingOverflow(by: factor)
            guard !isTooMuch else { return nil }
            self.bytes = bytes
            return
        }
        return nil
    }
}
