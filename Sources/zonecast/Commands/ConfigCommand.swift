import ArgumentParser
import Foundation
import RelayServer

/// `zonecast config`: shows, checks and sets settings.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show, check and set the configuration.",
        subcommands: [Show.self, Check.self, Set.self, Reference.self]
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
            value = StoreAddress.withoutPassword(key.read(settings))
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

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set a key in the configuration file.",
            discussion: """
                Comments, order and all other keys stay. The file is written only if a relay could start with it. A relay reads it \
                when it starts. Lists are separated by commas.
                """
        )

        @Argument(help: "The key, such as quota.private; all keys: zonecast config reference")
        var key: String

        @Argument(help: "The value, such as 5GB, 14d or true.")
        var value: String?

        @Flag(name: .customLong("default"), help: "Remove the key from the file, so that its default applies.")
        var isDefault = false

        @Option(
            help: ArgumentHelp(
                "The relay's YAML file, created if missing. (default: $ZONECAST_CONFIG or /etc/zonecast/zonecast.yaml)",
                valueName: "file"
            ),
            completion: .file()
        )
        var config: String?

        @Flag(help: "Print one line of JSON.")
        var json = false

        private struct Answer: Encodable {
            var config: String
            var key: String
            var value: String
            var isChanged: Bool
            /// A running relay has the old value until it is restarted.
            var needsRestart: Bool
        }

        func validate() throws {
            guard (value == nil) == isDefault else {
                throw ValidationError("Add a value, or --default to remove the key.")
            }
        }

        func run() async throws {
            guard let known = ConfigurationKeys.all.first(where: { $0.name == key }) else {
                let near = ConfigurationKeys.suggestion(for: key).map { "Did you mean \"\($0)\"?" }
                throw CommandFailure(
                    .usage,
                    "\"\(key)\" is not a key. \(near ?? "For all keys: zonecast config reference")"
                )
            }
            guard let path = PackageFiles.settings(named: config, data: nil) else {
                throw CommandFailure(
                    .usage,
                    "Name the relay's configuration file with --config, such as zonecast.yaml."
                )
            }
            if let value, known.normalized(value) == nil {
                let objection = known.objection(value).map { " \($0)" } ?? ""
                throw CommandFailure(.usage, "\(key): \"\(value)\" is not \(known.form).\(objection)")
            }
            let old = try await Self.settings(of: path)
            try await ConfigurationEdit.apply([(key: key, value: value)], to: path) { try $0.checkStart() }
            let new = try await Self.settings(of: path) ?? ServeSettings()
            let isChanged = known.read(old ?? ServeSettings()) != known.read(new)
            let isRunning = FolderLock.runningRelay(in: new.data) != nil
            let answer = Answer(
                config: path,
                key: key,
                value: known.isSecret ? "set" : known.read(new),
                isChanged: isChanged,
                needsRestart: isChanged && isRunning
            )
            if json { return try Terminal.say(json: answer) }
            say(answer, known, isRunning: isRunning, folder: new.data)
        }

        private func say(_ answer: Answer, _ known: ConfigurationKey, isRunning: Bool, folder: String) {
            let value = answer.value.isEmpty ? "empty" : answer.value
            let unit = known.unit.isEmpty ? "" : " \(known.unit)"
            Terminal.tell("set      \(key)  \(value)\(unit)  in \(answer.config)")
            let variable = known.environmentName
            if ProcessInfo.processInfo.environment[variable] != nil {
                Terminal.tell("note     \(variable) is set here and overrides the file")
            }
            guard answer.isChanged else {
                return Terminal.tell("next     nothing: the value was the same, so no restart is needed")
            }
            let start = PackageFiles.start(on: folder, by: answer.config)
            let restart = start.hasPrefix("systemctl") ? "systemctl restart zonecast" : "stop it, then: \(start)"
            Terminal.tell("next     \(isRunning ? "restart the relay to apply it: \(restart)" : start)")
        }

        /// Returns the settings of the file alone; `nil` if there is no file.
        private static func settings(of path: String) async throws -> ServeSettings? {
            guard FileManager.default.fileExists(atPath: path) else { return nil }
            return try await ConfigurationReading(flags: [:], environment: [:], file: path).settings
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
