import Foundation
import Records
import RelayStore

/// Checks for usable recent backups and a working schedule.
extension FolderChecks {
    func backup(now: Date) -> Finding {
        let schedule: BackupSchedule?
        do throws(BackupFailure) { schedule = try BackupSchedule.read(from: folder) } catch {
            return Finding("backup", .problem, "no scheduled backup is created: \(error)", next: plan)
        }
        if let schedule, let fault = fault(of: schedule) { return fault }
        let place = schedule?.folder ?? BackupSchedule.standardFolder(of: folder)
        let moment = Timestamp(milliseconds: Int64(now.timeIntervalSince1970 * 1_000))
        if let newest = Backup.newestUnusable(in: place, at: moment) {
            let found = "the newest is unusable: \(newest.reason)"
            return Finding("backup", .problem, found, next: "create another: \(making)")
        }
        guard let latest = Backup.all(in: place, at: moment).last else { return none(schedule, now) }
        guard latest.manifest.made <= moment.milliseconds + 3_600_000 else {
            return Finding(
                "backup",
                .advice,
                "the existing ones were created with a clock that was ahead",
                next: making
            )
        }
        if let fault = fault(of: latest) { return fault }
        let age = max(0, Int64(now.timeIntervalSince1970) - latest.manifest.made / 1000)
        let found = "the newest is \(Self.words(seconds: age)) old"
        guard let schedule else {
            return Finding("backup", age > 172_800 ? .advice : .good, found + ", no schedule", next: plan)
        }
        guard age * 1000 <= schedule.interval.milliseconds * 2 else { return overdue(found, schedule) }
        return Finding("backup", .good, found + ", \(schedule.interval.rawValue), \(schedule.keep) kept")
    }

    private var plan: String { "zonecast backup schedule daily --keep 7 --data \(folder.shellWord)" }
    private var making: String { "zonecast backup create --data \(folder.shellWord)" }

    /// Returns a finding for data that a restore of this backup would lack.
    private func fault(of latest: Backup) -> Finding? {
        let (manifest, faults) = (latest.manifest, latest.verdict?.faults ?? 0)
        if faults > 0 {
            let found = "the newest, \(latest.name), has \(faults.of("fault"))"
            return Finding("backup", .problem, found, next: "create another: \(making)")
        }
        let look = "zonecast assets verify --container ID --data \(folder.shellWord)"
        if manifest.lackedAssets > 0 {
            let found = "the newest lacks \(manifest.lackedAssets.of("asset")) of which no intact copy existed"
            return Finding("backup", .problem, found, next: look)
        }
        guard let count = manifest.rescuedAssets, count > 0 else { return nil }
        let found = "\(count.of("asset")) missing or damaged in the data folder; backups have them"
        return Finding("backup", .problem, found, next: look)
    }

    /// Returns a finding if backups cannot be written; only a thorough check tries it.
    private func fault(of schedule: BackupSchedule) -> Finding? {
        guard isThorough else { return nil }
        do throws(BackupFailure) {
            try schedule.tryFolder(disk: disk)
            return nil
        } catch {
            return Finding(
                "backup",
                .problem,
                "no backup can be created: \(error)",
                next: "fix that, or choose another place: zonecast backup schedule \(schedule.interval.rawValue) "
                    + "--keep \(schedule.keep) --backups DIR --data \(folder.shellWord)"
            )
        }
    }

    private func none(_ schedule: BackupSchedule?, _ now: Date) -> Finding {
        guard let schedule else { return Finding("backup", .advice, "none yet", next: plan) }
        let age = BackupSchedule.changed(in: folder).map { Int64(now.timeIntervalSince1970) - $0 / 1000 } ?? 0
        guard age * 1000 <= schedule.interval.milliseconds else {
            return overdue("none yet, although the schedule is \(Self.words(seconds: age)) old", schedule)
        }
        return Finding("backup", .advice, "none yet", next: "a running relay creates the first one within a minute")
    }

    private func overdue(_ found: String, _ schedule: BackupSchedule) -> Finding {
        Finding(
            "backup",
            .problem,
            found + ", although the schedule is \(schedule.interval.rawValue)",
            next:
                "check that the relay is running and read its log for the reason; create one now: \(making)"
        )
    }
}
