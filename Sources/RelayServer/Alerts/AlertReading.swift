import Foundation
package import Records
import RelayStore

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
    ///   - data: The data folder: its backups and the operators' own limits.
    ///   - started: Start of the relay, in milliseconds since 1970-01-01 UTC.
    ///   - now: The current time.
    /// - Returns: One reading per rule, in the order of `AlertRule.all`.
    package static func all(
        _ telemetry: Telemetry,
        _ metrics: RelayMetrics,
        data: String,
        started: Int64,
        now: Timestamp
    ) -> [AlertReading] {
        // `AlertBookCheck` reports a file that cannot be read; the default limits hold meanwhile.
        let book = (try? AlertBook.read(from: data)) ?? AlertBook()
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
            reading(.backup, backupAge(data, started: started, now: now)),
        ]
    }

    /// The points of the five minutes that end with the newest; `nil` if there are fewer than two.
    private static func lastFiveMinutes(_ points: [Telemetry.Point]) -> [Telemetry.Point]? {
        guard let last = points.last else { return nil }
        let recent = points.filter { $0.at >= last.at + .seconds(-300) }
        return recent.count > 1 ? recent : nil
    }

    /// Days since the latest backup.
    private static func backupAge(_ data: String, started: Int64, now: Timestamp) -> Double {
        let folder = BackupSchedule(of: data)?.folder ?? BackupSchedule.standardFolder(of: data)
        let latest =
            Backup.all(in: folder).last { $0.manifest.made <= now.milliseconds }?.manifest.made
            // The relay may have started while the clock was ahead.
            ?? min(started, now.milliseconds)
        return Double(now.milliseconds - latest) / 86_400_000
    }
}
