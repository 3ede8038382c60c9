import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayServer
import RelayStore

/// `zonecast alerts`: shows and configures alerts.
struct AlertsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "alerts",
        abstract: "Show what a running relay checks, set limits, mute an alert, send a test.",
        discussion: """
            A relay sends alerts to one webhook (alerts.webhook): Slack, ntfy, Alertmanager or your own program. It cannot report its own failure: \
            let another program poll GET /readyz, or use Prometheus (Deploy/monitoring).
            """,
        subcommands: [Show.self, Limit.self, Mute.self, Test.self],
        defaultSubcommand: Show.self
    )

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the alerts with their limits."
        )

        @OptionGroup var settings: SettingsOption
        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var id: String
            var name: String
            var limit: Double
            var unit: String
            var isAboveBad: Bool
            var isOwnLimit: Bool
            var mutedUntil: String?
        }

        private struct Answer: Encodable {
            var receiver: String?
            var alerts: [Row]
        }

        func run() async throws {
            let settings = try await settings.read(options)
            try FolderOptions(data: settings.data).withDirectory { _ in }
            let receiver = settings.alerts.receiver
            let overrides = try AlertsCommand.overrides(in: settings.data)
            let now = TimeSource.system.now()
            let rows = AlertRule.all.map { rule in
                Row(
                    id: rule.id,
                    name: rule.name,
                    limit: overrides.limits[rule.id] ?? rule.limit,
                    unit: rule.unit,
                    isAboveBad: rule.isAboveBad,
                    isOwnLimit: overrides.limits[rule.id] != nil,
                    mutedUntil: overrides.isMuted(rule.id, at: now)
                        ? overrides.muted[rule.id].map { Timestamp(milliseconds: $0).iso8601 } : nil
                )
            }
            if options.json { return try Terminal.say(json: Answer(receiver: receiver, alerts: rows)) }
            Terminal.say(
                table: zip(rows, AlertRule.all).map { row, rule in
                    [
                        row.id, row.name, "\(row.isAboveBad ? "over" : "under") \(rule.shown(row.limit))",
                        row.mutedUntil.map { "muted until \($0)" } ?? (row.isOwnLimit ? "custom limit" : ""),
                    ]
                },
                heading: ["ID", "ALERT", "WHEN", ""],
                empty: ""
            )
            Terminal.tell("")
            Terminal.tell(
                receiver.map { "sent to: \($0). Test it: zonecast alerts test" }
                    ?? "No webhook is configured. Set alerts.webhook; see: zonecast config reference"
            )
        }
    }

    struct Limit: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Set an alert's limit, in its unit: bytes, milliseconds, percent or days. Applies to a running relay."
        )

        @Argument(help: "The alert's id, as in the list.")
        var id: String
        @Argument(help: "The limit; if omitted, the default is restored.")
        var limit: Double?
        @OptionGroup var options: FolderOptions

        func run() throws {
            guard limit.map({ $0.isFinite && $0 >= 0 }) ?? true else {
                throw CommandFailure(.usage, "A limit is a number, 0 or more.")
            }
            let rule = try AlertsCommand.change(id, options, "alert.limit") { $0.limits[id] = limit }
            if options.json { return try Terminal.say(json: ["limit": limit ?? rule.limit]) }
            Terminal.tell(
                "\(rule.name): alert \(rule.isAboveBad ? "over" : "under") \(rule.shown(limit ?? rule.limit))"
            )
        }
    }

    struct Mute: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Mute an alert for some hours; 0 unmutes it."
        )

        @Argument(help: "The alert's id, as in the list.")
        var id: String
        @Option(help: "The duration in hours, up to a year.")
        var hours = 24
        @OptionGroup var options: FolderOptions

        func run() throws {
            guard (0...8_784).contains(hours) else {
                throw CommandFailure(.usage, "--hours is a number from 0 to 8784.")
            }
            let until = TimeSource.system.now() + .seconds(3_600 * hours)
            let rule = try AlertsCommand.change(id, options, "alert.mute") {
                $0.muted[id] = hours > 0 ? until.milliseconds : nil
            }
            if options.json { return try Terminal.say(json: ["mutedUntil": hours > 0 ? until.iso8601 : nil]) }
            Terminal.tell(hours > 0 ? "\(rule.name): muted until \(until.iso8601)" : "\(rule.name): unmuted")
        }
    }

    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Send a test message to the webhook.")

        @OptionGroup var settings: SettingsOption
        @Flag(help: "Print one line of JSON.")
        var json = false

        func run() async throws {
            let settings = try await settings.read().alerts
            guard let webhook = try AlertWebhook(settings, relay: "zonecast alerts test") else {
                throw CommandFailure(
                    .failed,
                    "No webhook is configured. Set alerts.webhook; see: zonecast config reference"
                )
            }
            let fault = await webhook.send(.test(at: TimeSource.system.now()))
            await webhook.shutDown()
            if let fault { throw CommandFailure(.unreachable, "The message could not be delivered: \(fault)") }
            if json { return try Terminal.say(json: ["sent": true]) }
            Terminal.tell("sent to \(settings.receiver ?? "")")
        }
    }

    /// Reads the alert settings; called after the switch to the folder's owner.
    private static func overrides(in data: String) throws -> AlertOverrides {
        do throws(BackupFailure) { return try AlertOverrides.read(from: data) } catch { throw CommandFailure(error) }
    }

    private static func change(
        _ id: String,
        _ options: FolderOptions,
        _ action: String,
        _ body: (inout AlertOverrides) -> Void
    ) throws -> AlertRule {
        guard let rule = AlertRule.all.first(where: { $0.id == id }) else {
            throw CommandFailure(.failed, "There is no alert \(id). See: zonecast alerts")
        }
        try options.change(action, id) { _ in
            var overrides = try overrides(in: options.folder)
            body(&overrides)
            do throws(BackupFailure) { try overrides.save(to: options.folder) } catch {
                throw CommandFailure(error)
            }
        }
        return rule
    }
}
