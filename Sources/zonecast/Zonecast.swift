import ArgumentParser

/// The `zonecast` command: the relay server and its tools.
struct Zonecast: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "zonecast",
        abstract: "A self-hosted sync relay that does CloudKit's job on your own machine.",
        discussion: """
            First steps:
              zonecast demo         a relay and three clients on this machine
              zonecast serve --dev  a relay for development
              zonecast init         set up a relay for production
              zonecast doctor       check that a relay works
              zonecast container create iCloud.org.example
              zonecast token create --container iCloud.org.example

            Every command takes --quiet (only the requested output, for scripts) and --no-color; most take --json.
            Exit codes: 0 success, 1 refused or failed, 2 wrong usage, 3 relay unreachable, 4 not allowed, 5 conflict.
            """,
        version: Self.version,
        subcommands: [
            Demo.self, Watch.self,
            InitCommand.self, Serve.self, ContainerCommand.self, TokenCommand.self, UserCommand.self,
            IssuerCommand.self, KeyCommand.self, RecordsCommand.self, ZonesCommand.self, SharesCommand.self,
            SchemaCommand.self, RoleCommand.self, PushCommand.self, BackupCommand.self, ConsoleCommand.self,
            ConfigCommand.self, AssetsCommand.self, StorageCommand.self, BenchCommand.self, DoctorCommand.self,
            AlertsCommand.self,
            LogsCommand.self, LoginCommand.self, LogoutCommand.self, VersionCommand.self, CompletionsCommand.self,
        ] + ToolVerbs.all + ToolVerbs.records
    )

    static let version = "0.1.0"
}
