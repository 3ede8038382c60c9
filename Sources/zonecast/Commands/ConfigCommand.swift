import ArgumentParser
import Foundation
import RelayServer

/// `zonecast config`: shows and checks settings.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show and check the configuration.",
        subcommands: [Show.self, Check.self, Reference.self]
    )

    private struct Row: Encodable {
        var key: String
        var value: String
        var origin: String?
        var unit: String
        var environment: String
        var meaning: String

        init(_ key: ConfigurationKey, _ settings: ServeSettings, _ origin: ConfigurationReading.Origin? = nil) {
            self.key = key.name
            value = key.read(settings)
            self.origin = origin?.words
            unit = key.unit
            environment = key.environmentName
            meaning = key.meaning
        }
    }

    /// Returns a value cut to the width of a table; `--json` has the full value.
    private static func shown(_ value: String) -> String {
        value.isEmpty ? "-" : value.count > 32 ? "\(value.prefix(31))…" : value
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show every key with its value and origin."
        )

        @Option(help: ArgumentHelp("The configuration file.", valueName: "file"), completion: .file())
        var config: String?

        @Flag(help: "Show the origin of each value: flag, environment, line of the file, or default.")
        var origin = false

        @Flag(help: "Print one line of JSON, including the origins.")
        var json = false

        func run() async throws {
            let environment = ProcessInfo.processInfo.environment
            let file = config ?? environment["ZONECAST_CONFIG"]
            let reading = try await ConfigurationReading(flags: [:], environment: environment, file: file)
            let rows = ConfigurationKeys.all.map { Row($0, reading.settings, reading.origins[$0.name]) }
            if json { return try Terminal.say(json: rows) }
            Terminal.say(
                table: rows.map {
                    [$0.key, ConfigCommand.shown($0.value), $0.unit] + (origin ? [$0.origin ?? ""] : [])
                },
                heading: ["KEY", "VALUE", "UNIT"] + (origin ? ["FROM"] : []),
                empty: ""
            )
        }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Check a configuration file and the files it names. Lists all errors; exits with 2 if there are any."
        )

        @Argument(help: "The file.", completion: .file())
        var file: String

        @Flag(help: "Print one line of JSON.")
        var json = false

        func run() async throws {
            let reading: ConfigurationReading
            do {
                reading = try await ConfigurationReading(flags: [:], environment: [:], file: file)
                try reading.settings.checkStart()
            } catch let failure as CommandFailure {
                let faults = failure.description.split(separator: "\n").map(String.init)
                if json { try Terminal.say(json: ["faults": faults]) }
                throw failure
            }
            let count = reading.origins.values.count { $0 != .standard }
            if json { return try Terminal.say(json: ["keysSet": count]) }
            Terminal.tell("\(count == 1 ? "1 key" : "\(count) keys") set, 0 unknown")
        }
    }

    struct Reference: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List every key: default, unit, meaning, name in the environment."
        )

        @Flag(help: "Print one line of JSON.")
        var json = false

        @Flag(help: "Write a configuration file with all keys, commented out.")
        var yaml = false

        func run() throws {
            if yaml { return Terminal.say(ConfigurationText.reference) }
            let rows = ConfigurationKeys.all.map { Row($0, ServeSettings()) }
            if json { return try Terminal.say(json: rows) }
            Terminal.say(
                table: rows.map { [$0.key, ConfigCommand.shown($0.value), $0.unit, $0.meaning] },
                heading: ["KEY", "DEFAULT", "UNIT", "MEANING"],
                empty: ""
            )
            Terminal.say(
                "Environment variables: ZONECAST_ and the key in capitals, with . and - as _ (limits.head-time: ZONECAST_LIMITS_HEAD_TIME)."
            )
        }
    }
}
