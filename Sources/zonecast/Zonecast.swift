import ArgumentParser

/// The command: a relay, and what people do with one.
struct Zonecast: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "zonecast",
        abstract: "A sync relay of your own: CloudKit's job on your own machine.",
        discussion: """
            First steps:
              zonecast demo         a relay and three clients, here
              zonecast serve --dev  a relay to try things with
              zonecast init         all that a relay for others needs
              zonecast doctor       whether it does what it is for
              zonecast container create iCloud.org.example
              zonecast token create --container iCloud.org.example

            Every command takes --quiet (only what was asked for, for scripts) and --no-color; most take --json.
            Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 cannot reach the relay, 4 not allowed, 5 conflict.
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
