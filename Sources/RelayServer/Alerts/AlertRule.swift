import Foundation
package import Records
package import RelayCore

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
    /// Whether the condition is one of the machine or process, so that each of several relays sends messages of its own.
    package var isOfNode = false
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
        isAboveBad: false,
        isOfNode: true
    )
    static let descriptors = AlertRule(
        id: "descriptors",
        name: "Open file descriptors",
        meaning: "Open file descriptors of the process. The limit is never above 90 % of what the system allows.",
        action: "Raise LimitNOFILE in the service, or lower limits.connections.",
        unit: "",
        limit: 50_000,
        isOfNode: true
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

/// The current value of one rule.
package struct AlertReading: Sendable {
    package var rule: AlertRule
    /// The operator's limit, or the rule's default.
    package var limit: Double
    /// `nil` while unknown.
    package var value: Double?
    /// The end of a mute.
    package var mutedUntil: Timestamp?

    package init(rule: AlertRule, limit: Double, value: Double?, mutedUntil: Timestamp? = nil) {
        self.rule = rule
        self.limit = limit
        self.value = value
        self.mutedUntil = mutedUntil
    }

    package var isFiring: Bool { value.map { rule.isAboveBad ? $0 > limit : $0 < limit } ?? false }

    /// Evaluates every rule on the relay's own figures.
    ///
    /// - Parameters:
    ///   - telemetry: The figures of the last hour.
    ///   - metrics: Current gauges.
    ///   - home: The relay's data: its backups and the operators' own limits.
    ///   - started: Start of the relay, in milliseconds since 1970-01-01 UTC.
    ///   - now: The current time.
    /// - Returns: One reading per rule, in the order of `AlertRule.all`.
    package static func all(
        _ telemetry: Telemetry,
        _ metrics: RelayMetrics,
        home: any RelayHome,
        started: Int64,
        now: Timestamp
    ) -> [AlertReading] {
        // `AlertOverridesCheck` reports a file that cannot be read; the default limits hold meanwhile.
        let book = (try? home.alertOverrides()) ?? AlertOverrides()
        func reading(
            _ rule: AlertRule,
            _ value: Double?,
            most: Double? = nil
        ) -> AlertReading {
            AlertReading(
                rule: rule,
                limit: book.limits[rule.id] ?? min(rule.limit, most ?? .infinity),
                value: value,
                mutedUntil: book.isMuted(rule.id, at: now)
                    ? book.muted[rule.id].map(Timestamp.init(milliseconds:)) : nil
            )
        }
        let recent = lastFiveMinutes(telemetry.lastHour())
        let gauges = metrics.gaugeValues()
        return AlertRule.overTime.map { rule in reading(rule, recent.flatMap(rule.value)) } + [
            reading(.disk, gauges["zonecast_disk_free_bytes"].map { Double($0) }),
            reading(
                .descriptors,
                gauges["zonecast_process_open_descriptors"].map { Double($0) },
                // The system's limit may be lower than the rule's.
                most: gauges["zonecast_process_max_descriptors"].map { (Double($0) * 0.9).rounded(.down) }
            ),
            reading(.writerQueue, gauges["zonecast_writer_queue"].map { Double($0) }),
            reading(.backup, backupAge(home.backups, started: started, now: now)),
        ]
    }

    /// The points of the five minutes that end with the newest; `nil` if there are fewer than two.
    private static func lastFiveMinutes(_ points: [Telemetry.Point]) -> [Telemetry.Point]? {
        guard let last = points.last else { return nil }
        let recent = points.filter { $0.at >= last.at + .seconds(-300) }
        return recent.count > 1 ? recent : nil
    }

    /// Days since the latest backup; `nil` if the database makes them.
    private static func backupAge(_ backups: any Backups, started: Int64, now: Timestamp) -> Double? {
        guard !backups.areElsewhere else { return nil }
        let latest =
            backups.all(in: backups.currentFolder).last { $0.manifest.made <= now.milliseconds }?.manifest.made
            // The relay may have started while the clock was ahead.
            ?? min(started, now.milliseconds)
        return Double(now.milliseconds - latest) / 86_400_000
    }
}
