import Foundation
import Records
import RelayAPI
import RelayCore
import RelayStore

/// What an operator should be told of, judged by the relay's own numbers: now, and minute by minute in the last hour.
extension ConsoleAPI {
    static let alerts: [ConsoleRoute] = [.get("alerts") { AlertsAnswer($0) }]

    fileprivate struct AlertsAnswer: Encodable {
        struct Row: Encodable {
            var name: String
            var meaning: String
            /// What a person can do about it.
            var action: String
            var unit: String
            var limit: Double
            /// Alarming above the limit, or below it.
            var isAboveBad: Bool
            var value: Double?
            var isFiring: Bool
            /// Judged by five minutes, and not by this moment alone.
            var isOverTime: Bool
            /// The rule's value in each minute of the last hour, the oldest first; none for what has no history.
            var past: [Double?]
        }

        var rules: [Row]

        init(_ call: ConsoleCall) {
            let points = call.parts.telemetry.lastHour()
            let rates = AlertRule.overTime.map { rule in
                let past = Self.minutes(points).map(rule.value)
                return Row(rule, value: past.last ?? nil, past: past)
            }
            let gauges = call.parts.metrics.gaugeValues()
            let age = Self.backupAge(call)
            let moments = [
                Row(.disk, value: gauges["zonecast_disk_free_bytes"].map { Double($0) }, past: []),
                Row(.descriptors, value: gauges["zonecast_process_open_descriptors"].map { Double($0) }, past: []),
                Row(.writerQueue, value: gauges["zonecast_writer_queue"].map { Double($0) }, past: []),
                Row(.backup, value: age, past: []),
            ]
            rules = rates + moments
        }

        /// The five minutes that end with each minute of the hour.
        private static func minutes(_ points: [Telemetry.Point]) -> [[Telemetry.Point]] {
            guard let last = points.last else { return [] }
            return (0..<60).reversed().compactMap { minute in
                let end = last.at + .seconds(-60 * minute)
                let own = points.filter { $0.at <= end && $0.at >= end + .seconds(-300) }
                return own.count > 1 ? own : nil
            }
        }

        /// Days since the latest backup, or since the relay was begun with where there is none.
        private static func backupAge(_ call: ConsoleCall) -> Double {
            let data = call.parts.facts.data
            let folder = BackupSchedule(of: data)?.folder ?? BackupSchedule.standardFolder(of: data)
            let latest = Backup.all(in: folder).last?.manifest.made ?? call.parts.facts.started
            return Double(call.parts.time.now().milliseconds - latest) / 86_400_000
        }
    }
}

/// One thing that is watched.
private struct AlertRule: Sendable {
    var name: String
    var meaning: String
    var action: String
    var unit: String
    var limit: Double
    var isAboveBad = true
    var isOverTime = false
    /// Of the readings of five minutes; `nil` where they say nothing.
    var value: @Sendable ([Telemetry.Point]) -> Double? = { _ in nil }

    static let overTime = [
        AlertRule(
            name: "Requests that fail",
            meaning: "Share of requests that failed by no fault of their clients, over five minutes.",
            action: "Logs has each with its identifier: zonecast's own log says why.",
            unit: "percent",
            limit: 2,
            isOverTime: true,
            value: { share(of: ["INTERNAL_ERROR", "TRY_AGAIN_LATER"], in: $0) }
        ),
        AlertRule(
            name: "Requests over their rate",
            meaning: "Share of requests that were throttled, over five minutes.",
            action: "Which limits: zonecast config show --origin",
            unit: "percent",
            limit: 5,
            isOverTime: true,
            value: { share(of: ["THROTTLED"], in: $0) }
        ),
        AlertRule(
            name: "Slow requests",
            meaning: "99 of 100 requests took no longer than this.",
            action: "Telemetry says which operation; for queries look at Indexes.",
            unit: "milliseconds",
            limit: 2_000,
            isOverTime: true,
            value: { ConsoleAPI.slowest($0) }
        ),
        AlertRule(
            name: "Slow commits",
            meaning: "99 of 100 commits took no longer than this to be on the disk.",
            action: "Is the disk shared, or failing? iostat -x 5",
            unit: "milliseconds",
            limit: 500,
            isOverTime: true,
            value: { quantile($0) { $0.commitTimes } }
        ),
        AlertRule(
            name: "Slow notices",
            meaning: "99 of 100 notices reached their socket within this time of their commit.",
            action: "Is the machine short of CPU? Devices shows who is slow.",
            unit: "milliseconds",
            limit: 2_000,
            isOverTime: true,
            value: { quantile($0) { $0.noticeTimes } }
        ),
    ]

    static let disk = AlertRule(
        name: "Room on the disk",
        meaning: "Free bytes on the data folder's disk; below half a gigabyte writes are refused.",
        action: "Make room, or move the data folder to a larger disk.",
        unit: "bytes",
        limit: 2_000_000_000,
        isAboveBad: false
    )
    static let descriptors = AlertRule(
        name: "Open files and sockets",
        meaning: "What the process holds open.",
        action: "Raise LimitNOFILE in the service, or lower limits.connections.",
        unit: "",
        limit: 50_000
    )
    static let writerQueue = AlertRule(
        name: "Writes that wait",
        meaning: "Writes in line for their commit at this moment.",
        action: "The disk is the limit: zonecast bench writes says what it bears.",
        unit: "",
        limit: 500
    )
    static let backup = AlertRule(
        name: "Age of the latest backup",
        meaning: "Since the latest backup, or since the relay's start where there is none.",
        action: "Backups: make one, and let the relay make them by itself.",
        unit: "days",
        limit: 8
    )

    private static func share(of codes: [String], in points: [Telemetry.Point]) -> Double? {
        guard let first = points.first, let last = points.last else { return nil }
        func count(_ point: Telemetry.Point) -> (all: UInt64, bad: UInt64) {
            point.reading.operations.reduce((0, 0)) { sum, operation in
                (sum.0 + operation.requests, sum.1 + codes.reduce(0) { $0 + (operation.errors[$1] ?? 0) })
            }
        }
        let (before, after) = (count(first), count(last))
        guard after.all > before.all else { return nil }
        return Double(after.bad - min(before.bad, after.bad)) * 100 / Double(after.all - before.all)
    }

    /// In milliseconds.
    private static func quantile(
        _ points: [Telemetry.Point],
        _ times: (MetricsReading) -> Histogram
    ) -> Double? {
        guard let first = points.first, let last = points.last else { return nil }
        return times(last.reading).since(times(first.reading)).quantile(0.99).map { $0 * 1_000 }
    }
}

extension ConsoleAPI.AlertsAnswer.Row {
    fileprivate init(_ rule: AlertRule, value: Double?, past: [Double?]) {
        self.init(
            name: rule.name,
            meaning: rule.meaning,
            action: rule.action,
            unit: rule.unit,
            limit: rule.limit,
            isAboveBad: rule.isAboveBad,
            value: value,
            isFiring: value.map { rule.isAboveBad ? $0 > rule.limit : $0 < rule.limit } ?? false,
            isOverTime: rule.isOverTime,
            past: past
        )
    }
}

extension ConsoleAPI {
    /// The time within which 99 of 100 requests were answered, in milliseconds.
    fileprivate static func slowest(_ points: [Telemetry.Point]) -> Double? { TelemetryAnswer.sum(points).slowest }
}
