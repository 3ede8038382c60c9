import ArgumentParser
import Foundation
import Records
import RelayCore

/// `zonecast push apns|fcm|webpush|unifiedpush`: configures one service.
extension PushCommand {
    /// The options that select the configuration file.
    struct FileOption: ParsableArguments {
        @Option(
            help: ArgumentHelp(
                "The relay's YAML file, created if missing. (default: $ZONECAST_CONFIG or /etc/zonecast/zonecast.yaml)",
                valueName: "file"
            ),
            completion: .file()
        )
        var config: String?

        @Flag(help: "Remove the service from the configuration.")
        var off = false

        @Flag(help: "Print one line of JSON.")
        var json = false

        /// Writes the keys if a relay could start with them; a running relay reads them at its next start.
        func set(_ values: [(key: String, value: String?)]) async throws {
            let packaged = "/etc/zonecast/zonecast.yaml"
            let known = config ?? ProcessInfo.processInfo.environment["ZONECAST_CONFIG"]
            guard let path = known ?? (FileManager.default.fileExists(atPath: packaged) ? packaged : nil) else {
                throw CommandFailure(
                    .usage,
                    "Name the relay's configuration file with --config, such as zonecast.yaml."
                )
            }
            try await ConfigurationEdit.apply(values.map { ($0.key, off ? nil : $0.value) }, to: path) { settings in
                // Any key will do, since only the files are checked.
                _ = try settings.push.settings(relayKey: [UInt8](repeating: 1, count: 32))
            }
            if json {
                return try Terminal.say(json: ["config": path, "set": values.map(\.key).joined(separator: ",")])
            }
            Terminal.tell(
                "\(off ? "removed from" : "written to")  \(path): \(values.map(\.key).joined(separator: ", "))"
            )
            Terminal.tell("next     restart the relay (systemctl restart zonecast), then: zonecast push list")
        }

        /// Throws if the option is missing and `--off` is not set.
        func require(_ value: String?, _ option: String) throws {
            guard off || value != nil else {
                throw ValidationError("Add \(option), or --off to remove the service.")
            }
        }

        /// Returns an absolute path, since the configuration has no working directory.
        static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
    }

    struct Apns: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Apple's push service.",
            subcommands: [SetUp.self, Show.self, Test.self]
        )

        struct SetUp: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
                commandName: "set",
                abstract: "Write Apple's keys to the configuration."
            )

            @Option(
                help: ArgumentHelp("The .p8 file from Apple's developer pages.", valueName: "file"),
                completion: .file()
            )
            var keyFile: String?
            @Option(help: "The key's identifier, ten letters and digits.")
            var keyId: String?
            @Option(help: "The team's identifier, ten letters and digits.")
            var teamId: String?
            @Option(help: "The apps' bundle identifiers, separated by commas.")
            var topics: String?
            @OptionGroup var file: FileOption

            func validate() throws {
                try file.require(keyFile, "--key-file")
                try file.require(keyId, "--key-id")
                try file.require(teamId, "--team-id")
                try file.require(topics, "--topics")
            }

            func run() async throws {
                try await file.set([
                    ("push.apns-key-file", keyFile.map(FileOption.absolute)), ("push.apns-key-id", keyId),
                    ("push.apns-team-id", teamId), ("push.apns-topics", topics),
                ])
            }
        }
    }

    struct Fcm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Firebase Cloud Messaging, for Android.",
            subcommands: [SetUp.self, Show.self, Test.self]
        )

        struct SetUp: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
                commandName: "set",
                abstract: "Write Firebase's account to the configuration."
            )

            @Option(
                help: ArgumentHelp("A service account's JSON file from Firebase's console.", valueName: "file"),
                completion: .file()
            )
            var accountFile: String?
            @OptionGroup var file: FileOption

            func validate() throws { try file.require(accountFile, "--account-file") }

            func run() async throws {
                try await file.set([("push.fcm-account-file", accountFile.map(FileOption.absolute))])
            }
        }
    }

    struct WebPush: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "webpush",
            abstract: "Web Push, for browsers.",
            subcommands: [SetUp.self, Show.self, Test.self]
        )

        struct SetUp: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
                commandName: "set",
                abstract: "Write the operator's contact address, which push services require, to the configuration."
            )

            @Option(help: ArgumentHelp("mailto:… or https://…", valueName: "address"))
            var contact: String?
            @OptionGroup var file: FileOption

            func validate() throws { try file.require(contact, "--contact") }

            func run() async throws { try await file.set([("push.contact", contact)]) }
        }
    }

    struct UnifiedPush: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "unifiedpush",
            abstract: "UnifiedPush and ntfy, for phones without Google's services.",
            subcommands: [SetUp.self, Show.self, Test.self]
        )

        struct SetUp: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
                commandName: "set",
                abstract: "Write the operator's contact address or the use of plain ntfy topics to the configuration."
            )

            @Option(help: ArgumentHelp("mailto:… or https://…, for encrypted pushes.", valueName: "address"))
            var contact: String?
            @Flag(help: "Also send pushes to plain ntfy topics, which are readable by anyone who knows their names.")
            var ntfy = false
            @Option(help: "Hosts of distributors that devices may register, separated by commas.")
            var hosts: String?
            @OptionGroup var file: FileOption

            func validate() throws {
                try file.require(contact ?? (ntfy ? "" : nil) ?? hosts, "--contact, --ntfy or --hosts")
            }

            func run() async throws {
                var values: [(key: String, value: String?)] = []
                if contact != nil || file.off { values.append(("push.contact", contact)) }
                if ntfy || file.off { values.append(("push.ntfy", "true")) }
                if hosts != nil || file.off { values.append(("push.hosts", hosts)) }
                try await file.set(values)
            }
        }
    }
}
