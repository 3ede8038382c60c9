import ArgumentParser
import AsyncHTTPClient
import Crypto
import Foundation
import Records
import RelayAPI
import RelayCore
import RelayGateways
import RelayStore

/// `zonecast push`: shows and configures push services and devices.
struct PushCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push",
        abstract: "Configure push services, list the registered devices, send a test push.",
        discussion: """
            A device with an open notice socket needs no push. Other devices can be woken by Apple's push service \
            (push.apns-key-file and three more keys), by Web Push in browsers and UnifiedPush (push.contact), by Firebase \
            Cloud Messaging on Android (push.fcm-account-file), or by ntfy (push.ntfy). Pushes report that something changed, \
            never what. Commands such as  zonecast push apns set  write the configuration.
            Devices register themselves with push/register (zonecast.js: container.registerPush()).
            """,
        subcommands: [
            Show.self, List.self, Test.self, Remove.self, Apns.self, Fcm.self, WebPush.self, UnifiedPush.self,
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

    struct Remove: ParsableCommand {
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
