import Foundation

/// One thing that is watched: when somebody should be told, and what they can do about it.
package struct AlertRule: Sendable {
    /// Stays the same over versions: limits and silences are kept under it.
    package var id: String
    package var name: String
    package var meaning: String
    package var action: String
    /// `percent`, `milliseconds`, `bytes`, `days`, or nothing.
    package var unit: String
    package var limit: Double
    /// Alarming above the limit, or below it.
    package var isAboveBad = true
    /// Judged by five minutes, and not by this moment alone.
    package var isOverTime = false
    /// Of the readings of five minutes; `nil` where they say nothing.
    var value: @Sendable ([Telemetry.Point]) -> Double? = { _ in nil }

    package static let all = overTime + [disk, descriptors, writerQueue, backup]

    static let overTime = [
        AlertRule(
            id: "failures",
            name: "Requests that fail",
            meaning: "Share of requests that failed by no fault of their clients, over five minutes.",
            action: "Logs has each with its identifier: zonecast's own log says why.",
            unit: "percent",
            limit: 2,
            isOverTime: true,
            value: { share(of: ["INTERNAL_ERROR", "TRY_AGAIN_LATER"], in: $0) }
        ),
        AlertRule(
            id: "throttled",
            name: "Requests over their rate",
            meaning: "Share of requests that were throttled, over five minutes.",
            action: "Which limits: zonecast config show --origin",
            unit: "percent",
            limit: 5,
            isOverTime: true,
            value: { share(of: ["THROTTLED"], in: $0) }
        ),
        AlertRule(
            id: "slow-requests",
            name: "Slow requests",
            meaning: "99 of 100 requests took no longer than this.",
            action: "Telemetry says which operation; for queries look at Indexes.",
            unit: "milliseconds",
            limit: 2_000,
            isOverTime: true,
            value: { TelemetryAnswer.sum($0).slowest }
        ),
        AlertRule(
            id: "slow-commits",
            name: "Slow commits",
            meaning: "99 of 100 commits took no longer than this to be on the disk.",
            action: "Is the disk shared, or failing? iostat -x 5",
            unit: "milliseconds",
            limit: 500,
            isOverTime: true,
            value: { quantile($0) { $0.commitTimes } }
        ),
        AlertRule(
            id: "slow-notices",
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
        id: "disk",
        name: "Room on the disk",
        meaning: "Free bytes on the data folder's disk; where there are none left writes are refused.",
        action: "Make room, or move the data folder to a larger disk: zonecast storage copy --to DIR",
        unit: "bytes",
        limit: 2_000_000_000,
        isAboveBad: false
    )
    static let descriptors = AlertRule(
        id: "descriptors",
        name: "Open files and sockets",
        meaning: "What the process holds open; alarming at nine tenths of what the system allows, if that is less.",
        action: "Raise LimitNOFILE in the service, or lower limits.connections.",
        unit: "",
        limit: 50_000
    )
    static let writerQueue = AlertRule(
        id: "writes-waiting",
        name: "Writes that wait",
        meaning: "Writes in line for their commit at this moment.",
        action: "The disk is the limit: zonecast bench writes says what it bears.",
        unit: "",
        limit: 500
    )
    static let backup = AlertRule(
        id: "backup-age",
        name: "Age of the latest backup",
        meaning: "Since the latest backup, or since the relay's start where there is none.",
        action: "Backups: make one, and let the relay make them by itself.",
        unit: "days",
        limit: 8
    )

    /// A value as people read it.
    package func shown(_ value: Double) -> String {
        switch unit {
        case "bytes": Self.decimal(value / 1_000_000_000) + " GB"
        case "milliseconds": value < 1_000 ? "\(Int(value.rounded())) ms" : Self.decimal(value / 1_000) + " s"
        case "percent": Self.decimal(value) + " %"
        case "days": value < 2 ? "\(Int((value * 24).rounded())) hours" : "\(Int(value.rounded())) days"
        default: "\(Int(value.rounded()))"
        }
    }

    private static func decimal(_ value: Double) -> String { String(format: value < 10 ? "%.1f" : "%.0f", value) }

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
