import Foundation
package import Records
import RelayStore

/// How one rule stands.
package struct AlertReading: Sendable {
    package var rule: AlertRule
    /// The rule's own, or the operator's.
    package var limit: Double
    /// `nil` where nothing is known yet.
    package var value: Double?
    /// Until when nobody wants to hear of it.
    package var mutedUntil: Timestamp?
    /// The rule's value in each minute of the last hour, the oldest first; none for what has no history.
    package var past: [Double?] = []

    package init(rule: AlertRule, limit: Double, value: Double?, mutedUntil: Timestamp? = nil, past: [Double?] = []) {
        self.rule = rule
        self.limit = limit
        self.value = value
        self.mutedUntil = mutedUntil
        self.past = past
    }

    package var isFiring: Bool { value.map { rule.isAboveBad ? $0 > limit : $0 < limit } ?? false }

    /// Judges every rule by what the relay knows of itself.
    ///
    /// - Parameters:
    ///   - telemetry: Of the last hour.
    ///   - metrics: What is looked at now.
    ///   - data: The data folder, for its backups and the operators' own limits.
    ///   - started: When the relay did; milliseconds since 1970-01-01 UTC.
    ///   - now: This moment.
    /// - Returns: One for each rule, in the rules' order.
    package static func all(
        _ telemetry: Telemetry,
        _ metrics: RelayMetrics,
        data: String,
        started: Int64,
        now: Timestamp
    ) -> [AlertReading] {
        // One that cannot be used is told elsewhere; what is usual is watched meanwhile.
        let book = (try? AlertBook.read(from: data)) ?? AlertBook()
        func reading(
            _ rule: AlertRule,
            _ value: Double?,
            most: Double? = nil,
            past: [Double?] = []
        ) -> AlertReading {
            AlertReading(
                rule: rule,
                limit: book.limits[rule.id] ?? min(rule.limit, most ?? .infinity),
                value: value,
                mutedUntil: book.isMuted(rule.id, at: now)
                    ? book.muted[rule.id].map(Timestamp.init(milliseconds:)) : nil,
                past: past
            )
        }
        let minutes = minutes(telemetry.lastHour())
        let gauges = metrics.gaugeValues()
        return AlertRule.overTime.map { rule in
            let past = minutes.map(rule.value)
            return reading(rule, past.last ?? nil, past: past)
        } + [
            reading(.disk, gauges["zonecast_disk_free_bytes"].map { Double($0) }),
            reading(
                .descriptors,
                gauges["zonecast_process_open_descriptors"].map { Double($0) },
                // What the system allows may be less than what is alarming anywhere.
                most: gauges["zonecast_process_max_descriptors"].map { (Double($0) * 0.9).rounded(.down) }
            ),
            reading(.writerQueue, gauges["zonecast_writer_queue"].map { Double($0) }),
            reading(.backup, backupAge(data, started: started, now: now)),
        ]
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

    /// In days.
    private static func backupAge(_ data: String, started: Int64, now: Timestamp) -> Double {
        let folder = BackupSchedule(of: data)?.folder ?? BackupSchedule.standardFolder(of: data)
        let latest =
            Backup.all(in: folder).last { $0.manifest.made <= now.milliseconds }?.manifest.made
            // A clock that was ahead then has the relay started in the future.
            ?? min(started, now.milliseconds)
        return Double(now.milliseconds - latest) / 86_400_000
    }
}
