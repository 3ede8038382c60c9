import ArgumentParser
import AsyncHTTPClient
import Crypto
import Foundation
import Records
import RelayAPI
import RelayCore
import RelayGateways
import RelaySystem

/// `zonecast push`: shows and configures push services and devices.
struct PushCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push",
        abstract: "Configure push services, list the registered devices, send a test push.",
        discussion: """
            A device with an open notice socket needs no push. Other devices can be woken by Apple's push service \
            (push.apns-key-file and three more keys), by Web Push in browsers and UnifiedPush (push.contact), by Firebase \
            Cloud Messaging on Android (push.fcm-account-file), or by ntfy (push.ntfy). Pushes report that something changed, \
            never what. Commands such as  zonecast push set apns  write the configuration.
            Devices register themselves with push/register (zonecast.js: container.registerPush()).
            """,
        subcommands: [
            Show.self, List.self, SetUp.self, Test.self, Delete.self,
        ]
    )

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show which push services are configured.")

        @OptionGroup var settings: SettingsOption
        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var apns: Bool
            var webPush: Bool
            var ntfy: Bool
            var fcm: Bool
            var applicationServerKey: String?
            var hosts: [String]
        }

        func run() async throws {
            let settings = try await settings.read(options)
            let key = try FolderOptions(data: settings.data).withDirectory { try $0.relayKey() }
            let found = try settings.push.settings(relayKey: key)
            let publicKey = found?.webPush.map { Base64URL.encode($0.key.publicKey.x963Representation) }
            if options.json {
                return try Terminal.say(
                    json: Answer(
                        apns: found?.apns != nil,
                        webPush: found?.webPush != nil,
                        ntfy: found?.sendsToNtfy == true,
                        fcm: found?.fcm != nil,
                        applicationServerKey: publicKey,
                        hosts: found?.hosts ?? []
                    )
                )
            }
            guard let found else {
                Terminal.say(
                    "No push service is configured. Devices without a connection sync when they next connect. See: zonecast push --help"
                )
                return
            }
            Terminal.say("Apple      \(found.apns.map { "for \($0.topics.joined(separator: ", "))" } ?? "disabled")")
            Terminal.say("Web Push   \(found.webPush.map { "as \($0.contact)" } ?? "disabled")")
            if let publicKey { Terminal.say("           applicationServerKey \(publicKey)") }
            Terminal.say("Firebase   \(found.fcm.map { "as \($0.account.email)" } ?? "disabled")")
            Terminal.say("ntfy       \(found.sendsToNtfy ? "yes" : "disabled")")
            Terminal.say("hosts      \(found.hosts.joined(separator: ", "))")
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the devices registered for pushes, without their push addresses."
        )

        @OptionGroup var filter: HomeFilter
        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var id: String
            var container: String
            var environment: String
            var user: String
            var kind: String
            var registered: String
            var lastFault: String?

            init(_ device: PushDevice) {
                id = device.id
                container = device.home.container.name
                environment = device.home.environment.rawValue
                user = device.user.recordName
                kind = device.target.kind
                registered = device.registered.iso8601
                lastFault = device.lastFault
            }
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.pushDevices() }.filter { filter.admits($0.home) }.map(
                Row.init
            )
            try options.list(
                rows,
                as: "pushDevices",
                heading: ["ID", "CONTAINER", "USER", "KIND", "REGISTERED", "LAST ERROR"],
                empty: "No device has registered for pushes."
            ) { [$0.id, $0.container, $0.user, $0.kind, $0.registered, $0.lastFault ?? "-"] }
        }
    }

    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a test push to one device and show the push service's response."
        )

        @Argument(help: "The device's id, as in the list.")
        var id: String

        @OptionGroup var settings: SettingsOption
        @OptionGroup var options: FolderOptions

        func run() async throws {
            let settings = try await settings.read(options)
            let choices = settings.push
            let (found, key) = try FolderOptions(data: settings.data).withDirectory { accounts in
                (try accounts.pushDevices().first { $0.id == id }, try accounts.relayKey())
            }
            guard let device = found else { throw PushCommand.unknown(id) }
            guard let known = try choices.settings(relayKey: key) else {
                throw CommandFailure(.failed, "No push service is configured. See: zonecast push --help")
            }
            let client = try PushClient.connections(choices)
            let services = PushServices(known, client: client, time: .system, random: .system)
            let outcome = await services.send(.test(for: device), to: device.target)
            try await client.shutdown()
            try report(outcome)
        }

        private func report(_ outcome: PushOutcome) throws {
            guard outcome == .taken else { throw CommandFailure(.failed, outcome.sentence) }
            if options.json {
                try Terminal.say(json: ["taken": true])
            } else {
                Terminal.tell(outcome.sentence)
            }
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a device. A running relay applies this at its next start."
        )

        @Argument(help: "The device's id, as in the list.")
        var id: String

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.withDirectory { store in
                guard try store.pushDevices().contains(where: { $0.id == id }) else { throw PushCommand.unknown(id) }
                try store.removePushDevices([id])
            }
            try options.confirm("deleted")
        }
    }
}

extension PushCommand {
    fileprivate static func unknown(_ id: String) -> CommandFailure {
        CommandFailure(.failed, "There is no device \(id). See: zonecast push list")
    }
}

extension PushTarget {
    fileprivate var kind: String {
        switch self {
        case .apns(_, _, let isSandbox): isSandbox ? "apns (sandbox)" : "apns"
        case .webPush: "web push"
        case .ntfy: "ntfy"
        case .fcm: "fcm"
        }
    }
}

/// `zonecast push set apns|fcm|webpush|unifiedpush`: configures one service.
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

    struct SetUp: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set",
            abstract: "Write a push service to the configuration.",
            subcommands: [Apns.self, Fcm.self, WebPush.self, UnifiedPush.self]
        )

        struct Apns: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
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

        struct Fcm: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
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

        struct WebPush: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
                commandName: "webpush",
                abstract: "Write the operator's contact address, which push services require, to the configuration."
            )

            @Option(help: ArgumentHelp("mailto:… or https://…", valueName: "address"))
            var contact: String?
            @OptionGroup var file: FileOption

            func validate() throws { try file.require(contact, "--contact") }

            func run() async throws { try await file.set([("push.contact", contact)]) }
        }

        struct UnifiedPush: AsyncParsableCommand {
            static let configuration = CommandConfiguration(
                commandName: "unifiedpush",
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
