import Foundation

/// A condition that the relay checks: when it becomes an alert, and what an operator can do about it.
package struct AlertRule: Sendable {
    /// Stable across versions: the operators' limits and mutes are stored under it.
    package var id: String
    package var name: String
    package var meaning: String
    package var action: String
    /// `percent`, `milliseconds`, `bytes`, `days`, or nothing.
    package var unit: String
    package var limit: Double
    /// Whether values above the limit are the problem, or values below it.
    package var isAboveBad = true
    /// Computes the value from five minutes of readings; `nil` if they do not determine it.
    var value: @Sendable ([Telemetry.Point]) -> Double? = { _ in nil }

    package static let all = overTime + [disk, descriptors, writerQueue, backup]

    static let overTime = [
        AlertRule(
            id: "failures",
            name: "Failed requests",
            meaning: "Share of requests that failed through the relay's own fault over five minutes.",
            action: "The console's Logs page lists them by request ID; the relay's log says why each failed.",
            unit: "percent",
            limit: 2,
            value: { share(of: ["INTERNAL_ERROR", "TRY_AGAIN_LATER"], in: $0) }
        ),
        AlertRule(
            id: "throttled",
            name: "Throttled requests",
            meaning: "Share of throttled requests over five minutes.",
            action: "To see the limits: zonecast config show --origin",
            unit: "percent",
            limit: 5,
            value: { share(of: ["THROTTLED"], in: $0) }
        ),
        AlertRule(
            id: "slow-requests",
            name: "Slow requests",
            meaning: "p99 of request times over five minutes.",
            action: "The console's Telemetry page shows the operation; for queries check the indexes.",
            unit: "milliseconds",
            limit: 2_000,
            value: { TelemetrySummary.sum($0).slowest }
        ),
        AlertRule(
            id: "slow-commits",
            name: "Slow commits",
            meaning: "p99 of the time until a commit is on the disk.",
            action: "Check whether the disk is shared or failing: iostat -x 5",
            unit: "milliseconds",
            limit: 500,
            value: { quantile($0) { $0.commitTimes } }
        ),
        AlertRule(
            id: "slow-notices",
            name: "Slow notices",
            meaning: "p99 of the time from a commit until its notice is on the socket.",
            action: "Check the machine's CPU load; the console's Devices page shows slow receivers.",
            unit: "milliseconds",
            limit: 2_000,
            value: { quantile($0) { $0.noticeTimes } }
        ),
    ]

    static let disk = AlertRule(
        id: "disk",
        name: "Free disk space",
        meaning: "Free bytes on the data folder's disk. The relay refuses writes when the disk is full.",
        action: "Free space, or move the data folder to a larger disk: zonecast storage copy --to DIR",
        unit: "bytes",
        limit: 2_000_000_000,
        isAboveBad: false
    )
    static let descriptors = AlertRule(
        id: "descriptors",
        name: "Open file descriptors",
        meaning: "Open file descriptors of the process. The limit is never above 90 % of what the system allows.",
        action: "Raise LimitNOFILE in the service, or lower limits.connections.",
        unit: "",
        limit: 50_000
    )
    static let writerQueue = AlertRule(
        id: "writes-waiting",
        name: "Waiting writes",
        meaning: "Writes waiting for the next commit.",
        action: "The disk is probably too slow: zonecast bench writes measures it.",
        unit: "",
        limit: 500
    )
    static let backup = AlertRule(
        id: "backup-age",
        name: "Age of the latest backup",
        meaning: "Time since the latest backup, or since the relay's start if there is none.",
        action: "Create one and schedule more: zonecast backup schedule daily",
        unit: "days",
        limit: 8
    )

    /// Formats a value with its unit.
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
