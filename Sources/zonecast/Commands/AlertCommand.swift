import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayServer
import RelaySystem

/// `zonecast alert`: shows and configures alerts.
struct AlertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "alert",
        abstract: "Show what a running relay checks, give alerts limits of your own, mute them, send a test.",
        discussion: """
            A relay sends alerts to one webhook (alerts.webhook): Slack, ntfy, Alertmanager or your own program. It cannot report its own failure: \
            let another program poll GET /readyz, or use Prometheus (Deploy/monitoring).
            """,
        subcommands: [List.self, Create.self, Edit.self, Delete.self, Test.self]
    )

    struct List: AsyncParsableCommand {
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
            let overrides = try AlertCommand.overrides(in: settings.data)
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
                receiver.map { "sent to: \($0). Test it: zonecast alert test" }
                    ?? "No webhook is configured. Set alerts.webhook; see: zonecast config reference"
            )
        }
    }

    /// Returns a limit in the alert's unit; a size or a duration may have a unit of its own.
    private static func limit(_ text: String, of rule: AlertRule) throws -> Double {
        let number = Double(text) ?? Quantity.value(text, unit: rule.unit).map { Double($0) }
        guard let number, number.isFinite, number >= 0 else {
            let unit = rule.unit.isEmpty ? "" : " (\(rule.unit))"
            throw CommandFailure(
                .usage,
                "'\(text)' is not a limit of \(rule.name). Write a number of 0 or more\(unit), or a size or duration with its unit."
            )
        }
        return number
    }

    private static func rule(_ id: String) throws -> AlertRule {
        guard let rule = AlertRule.all.first(where: { $0.id == id }) else {
            let near = ConfigurationKeys.suggestion(for: id, among: AlertRule.all.map(\.id))
            let hint = near.map { "Did you mean \($0)?" } ?? "See: zonecast alert list"
            throw CommandFailure(.failed, "There is no alert \(id). \(hint)")
        }
        return rule
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give an alert a limit of your own. Applies to a running relay.",
            discussion: "The relay checks a fixed list of values; see: zonecast alert list"
        )

        @Argument(help: "The alert's id, as in the list.")
        var id: String
        @Option(help: "The limit in the alert's unit, or with its own: 20GB, 2s, 14d.")
        var limit: String
        @OptionGroup var options: FolderOptions

        func run() throws {
            let rule = try AlertCommand.rule(id)
            let number = try AlertCommand.limit(limit, of: rule)
            try AlertCommand.change(rule, options, "alert.limit") {
                guard $0.limits[id] == nil else {
                    throw CommandFailure(
                        .conflict,
                        "\(id) has a limit of your own. Change it: zonecast alert edit \(id) --limit \(limit.shellWord)"
                    )
                }
                $0.limits[id] = number
            }
            if options.json { return try Terminal.say(json: ["limit": number]) }
            Terminal.tell("\(rule.name): alert \(rule.isAboveBad ? "over" : "under") \(rule.shown(number))")
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete an alert's own limit and its muting. The default limit applies again."
        )

        @Argument(help: "The alert's id, as in the list.")
        var id: String
        @OptionGroup var options: FolderOptions

        func run() throws {
            let rule = try AlertCommand.rule(id)
            try AlertCommand.change(rule, options, "alert.delete") {
                guard $0.limits[id] != nil || $0.muted[id] != nil else {
                    throw CommandFailure(.failed, "\(id) has its default limit and is not muted.")
                }
                $0.limits[id] = nil
                $0.muted[id] = nil
            }
            if options.json { return try Terminal.say(json: ["limit": rule.limit]) }
            Terminal.tell("\(rule.name): alert \(rule.isAboveBad ? "over" : "under") \(rule.shown(rule.limit))")
        }
    }

    struct Edit: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set an alert's limit, or mute it. Applies to a running relay."
        )

        @Argument(help: "The alert's id, as in the list.")
        var id: String
        @Option(
            help: "The limit in the alert's unit, or with its own: 20GB, 2s, 14d; or 'default'."
        )
        var limit: String?
        @Option(help: ArgumentHelp("How long to mute it, such as 24h, up to a year; 0 unmutes.", valueName: "duration"))
        var mute: CommandDuration?
        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var limit: Double?
            var mutedUntil: String?
        }

        func validate() throws {
            if limit == nil, mute == nil { throw ValidationError("Add --limit or --mute.") }
            if let mute, mute.seconds > 366 * 86_400 { throw ValidationError("--mute takes 0 to 366d.") }
        }

        func run() throws {
            let rule = try AlertCommand.rule(id)
            let number = try limit.flatMap { $0 == "default" ? nil : try AlertCommand.limit($0, of: rule) }
            let until = mute.flatMap { $0.seconds == 0 ? nil : TimeSource.system.now() + .seconds($0.seconds) }
            try AlertCommand.change(rule, options, limit == nil ? "alert.mute" : "alert.limit") {
                if limit != nil { $0.limits[id] = number }
                if mute != nil { $0.muted[id] = until?.milliseconds }
            }
            if options.json {
                guard limit != nil else { return try Terminal.say(json: ["mutedUntil": until?.iso8601]) }
                return try Terminal.say(json: Answer(limit: number ?? rule.limit, mutedUntil: until?.iso8601))
            }
            if limit != nil {
                let limit = rule.shown(number ?? rule.limit)
                Terminal.tell("\(rule.name): alert \(rule.isAboveBad ? "over" : "under") \(limit)")
            }
            if mute != nil {
                Terminal.tell("\(rule.name): \(until.map { "muted until \($0.iso8601)" } ?? "unmuted")")
            }
        }
    }

    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Send a test message to the webhook.")

        @OptionGroup var settings: SettingsOption
        @Flag(help: "Print one line of JSON.")
        var json = false

        func run() async throws {
            let settings = try await settings.read().alerts
            guard let webhook = try AlertWebhook(settings, relay: "zonecast alert test") else {
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
        do throws(BackupFailure) { return try DataFolder.home(data).alertOverrides() } catch {
            throw CommandFailure(error)
        }
    }

    private static func change(
        _ rule: AlertRule,
        _ options: FolderOptions,
        _ action: String,
        _ body: (inout AlertOverrides) throws -> Void
    ) throws {
        try options.change(action, rule.id) { _ in
            var overrides = try overrides(in: options.folder)
            try body(&overrides)
            do throws(BackupFailure) { try options.home.setAlertOverrides(overrides) } catch {
                throw CommandFailure(error)
            }
        }
    }
}
