import ArgumentParser
import Records
import RelayCore

/// `zonecast user role`: assigns the roles that a schema declares for the public database.
///
/// See Errors.md, "Database scopes".
struct RoleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "role",
        abstract: "Grant the roles that a schema declares to users, and revoke them.",
        discussion: """
            A role has the permissions that the schema grants it; a user has those of all their roles.
            WRITE includes READ. CREATE includes reading and writing the user's own records of the type, and no others.
            A running relay applies a change at once. Each environment has its own roles.
            """,
        subcommands: [Grant.self, List.self, Revoke.self]
    )

    struct Assignment: ParsableArguments {
        @Argument(help: "The role, as declared in the schema: CREATE ROLE Editor;")
        var role: String

        @Argument(help: "The user: an e-mail address, dev-NAME, or a user record name.")
        var user: String

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        /// Changes the user's roles and prints the result.
        fileprivate func change(_ action: String, _ body: (inout Set<Role>, Role) -> Void) throws {
            let (user, roles) = try options.change(action, "\(role) \(user)", in: home.home) { directory in
                try directory.requireContainer(home.container)
                let user = try find(in: directory)
                let schemas = options.home.schemas(of: home.container)
                let roles = try schemas.change(home.environment) { schema in
                    try requireRole(in: schema)
                    var roles = schema.members[user] ?? []
                    body(&roles, Role(role))
                    var changed = schema
                    changed.members[user] = roles.isEmpty ? nil : roles
                    return (changed == schema ? nil : changed, roles)
                }
                return (user, roles.map(\.name).sorted())
            }
            if options.json {
                try Terminal.say(json: Row(userRecordName: user.recordName, roles: roles))
            } else {
                Terminal.tell("\(user.recordName)  \(roles.isEmpty ? "no roles" : roles.joined(separator: ", "))")
            }
        }

        private func requireRole(in schema: Schema) throws {
            guard !schema.roles.contains(Role(role)) else { return }
            let known = schema.roles.map(\.name).sorted()
            throw CommandFailure(
                .failed,
                known.isEmpty
                    ? "The schema of \(home.environment.rawValue) declares no roles. Import one that contains: CREATE ROLE \(role);"
                    : "The schema of \(home.environment.rawValue) declares no role \(role). Its roles: \(known.joined(separator: ", "))."
            )
        }

        /// Returns the user's record name in the container.
        private func find(in directory: any AccountDirectory) throws -> UserID {
            if user.hasPrefix("_") {
                let known = UserID(user)
                let isKey = try directory.serverKeys().contains { $0.user == known && $0.home == home.home }
                guard try isKey || directory.accounts(of: [known], in: home.home)[known] != nil else {
                    throw DirectoryError.missing("user \(user)")
                }
                return known
            }
            return try directory.user(of: try UserCommand.account(user, in: directory).id, in: home.home)
        }
    }

    struct Grant: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Grant a role to a user.")

        @OptionGroup var assignment: Assignment

        func run() throws { try assignment.change("role.give") { $0.insert($1) } }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a role of a user.")

        @OptionGroup var assignment: Assignment

        func run() throws { try assignment.change("role.take") { $0.remove($1) } }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the users that have roles.")

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        func run() throws {
            let rows = try options.withDirectory { directory in
                try directory.requireContainer(home.container)
                let schemas = options.home.schemas(of: home.container)
                return try schemas.schema(of: home.environment).members
                    .map { Row(userRecordName: $0.key.recordName, roles: $0.value.map(\.name).sorted()) }
                    .sorted { $0.userRecordName < $1.userRecordName }
            }
            try options.list(
                rows,
                as: "users",
                heading: ["USER", "ROLES"],
                empty: "No user has a role. Grant one: zonecast user role grant ROLE USER --container \(home.container)"
            ) { [$0.userRecordName, $0.roles.joined(separator: ", ")] }
        }
    }

    private struct Row: Encodable {
        var userRecordName: String
        var roles: [String]
    }
}
