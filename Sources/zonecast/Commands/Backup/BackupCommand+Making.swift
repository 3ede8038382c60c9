import ArgumentParser
import Foundation
import RelayCore
import RelayStore

extension BackupCommand {
    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a backup now.")

        @OptionGroup var options: BackupOptions

        func run() throws {
            let backup = try options.run {
                try Backup.create(
                    of: options.folder.folder,
                    in: options.place,
                    now: TimeSource.system.now(),
                    disk: try options.disk(),
                    step: { options.step("copying \($0)") }
                )
            }
            let row = BackupRow(backup)
            if options.folder.json {
                try Terminal.say(json: row)
            } else {
                say(row)
            }
            if let complaint = row.complaint { throw CommandFailure(.failed, complaint) }
        }

        private func say(_ row: BackupRow) {
            Terminal.tell("created  \(row.made)  \(row.summary)")
            Terminal.say(row.backup, as: "         ")
            Terminal.tell("next     zonecast backup verify latest \(options.again)")
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the backups, oldest first.")

        @OptionGroup var options: BackupOptions

        private struct Unusable: Encodable {
            var backup: String
            var reason: String
        }

        private struct Answer: Encodable {
            var backups: [BackupRow]
            var unusable: [Unusable]
        }

        func run() throws {
            let rows = Backup.all(in: options.place).map(BackupRow.init)
            let unusable = Backup.unusable(in: options.place).map {
                Unusable(backup: $0.name, reason: $0.reason.description)
            }
            let none = try rows.isEmpty && unusable.isEmpty ? options.none() : ""
            if options.folder.json { return try Terminal.say(json: Answer(backups: rows, unusable: unusable)) }
            Terminal.say(
                table: rows.map(\.cells),
                heading: ["CREATED", "SIZE", "ZONES", "RECORDS", "ASSETS", "VERIFIED", "NAME"],
                empty: none
            )
            for backup in unusable { Terminal.say("fault    \(backup.reason)") }
        }
    }

    struct Schedule: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Schedule backups that the running relay creates.",
            discussion: """
                A running relay applies a change within a minute. 'off' removes the schedule. Without an argument, shows it, or with \
                --keep changes only how many backups are kept.
                """
        )

        @Argument(help: "hourly, daily, weekly, or off.")
        var interval: String?

        @Option(help: "How many backups are kept, up to 1000. (default: 7)")
        var keep: Int?

        @OptionGroup var options: BackupOptions

        func validate() throws {
            guard let keep, !BackupSchedule.keepRange.contains(keep) else { return }
            throw ValidationError("--keep is a number from 1 to 1000.")
        }

        func run() throws {
            let data = options.folder.folder
            try options.needData()
            if let interval {
                try set(interval, data)
            } else if let keep {
                try change(keep, data)
            }
            let schedule = try options.run { try BackupSchedule.read(from: data) }
            if options.folder.json { return try Terminal.say(json: ["schedule": schedule]) }
            guard let schedule else {
                return Terminal.say("There is no schedule. Set one: zonecast backup schedule daily")
            }
            Terminal.say("\(schedule.interval.rawValue)  into \(schedule.folder), the newest \(schedule.keep) are kept")
        }

        private func set(_ word: String, _ data: String) throws {
            if word == "off" { return BackupSchedule.remove(from: data) }
            guard let interval = BackupSchedule.Interval(rawValue: word) else {
                throw CommandFailure(.usage, "'\(word)' is not an interval. Use hourly, daily, weekly or off.")
            }
            try save(BackupSchedule(interval, keep: keep ?? 7, folder: Self.absolute(options.place)), data)
        }

        /// Changes only the number of backups that the schedule keeps.
        private func change(_ keep: Int, _ data: String) throws {
            guard var schedule = try options.run({ try BackupSchedule.read(from: data) }) else {
                throw CommandFailure(
                    .failed,
                    "There is no schedule to change. "
                        + "Set one: zonecast backup schedule daily --keep \(keep) \(options.again)"
                )
            }
            schedule.keep = keep
            if let place = options.backups { schedule.folder = Self.absolute(place) }
            try save(schedule, data)
        }

        private func save(_ schedule: BackupSchedule, _ data: String) throws {
            do {
                // Report an unusable folder now instead of in a log at night.
                try options.run { try schedule.tryFolder(disk: options.disk()) }
            } catch let failure as CommandFailure {
                throw CommandFailure(failure.exit, "\(failure) Choose another folder with --backups.")
            }
            try options.run { try schedule.save(to: data) }
            Self.hint(at: schedule.folder, besides: data)
        }

        private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }

        /// Prints a hint about systemd, under which the relay may write only to its data folder.
        private static func hint(at place: String, besides data: String) {
            let data = absolute(data)
            guard !place.hasPrefix(data + "/"), FileManager.default.fileExists(atPath: "/run/systemd/system") else {
                return
            }
            Terminal.complain(
                "A relay that runs as a systemd service needs permission to write to \(place): run systemctl edit zonecast, "
                    + "add the lines [Service] and ReadWritePaths=\(SetupFiles.word(place)), and restart the relay."
            )
        }
    }
}
