import ArgumentParser
import Foundation
import RelayCore
import RelayStore

extension BackupCommand {
    struct Verify: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a backup: every file, every zone's log, every asset.",
            discussion: "Exits 1 when a fault is found, or something is missing, and names each."
        )

        @Argument(help: "The backup's name or path, or latest.")
        var name = "latest"

        @OptionGroup var options: BackupOptions

        private struct Answer: Encodable {
            var backup: BackupRow
            var faults: [String]
            /// Assets that were not there, or not sound, when it was made.
            var missing: [String]
        }

        func run() throws {
            let backup = try options.backup(named: name)
            let (faults, missing) = BackupOptions.reading(backup) {
                let faults = backup.verify(now: TimeSource.system.now()) { options.step("checking \($0)") }
                return (faults, backup.lackedAssets())
            }
            let row = BackupRow(backup)
            if options.folder.json {
                try Terminal.say(json: Answer(backup: row, faults: faults, missing: missing))
            } else {
                faults.forEach { Terminal.say("fault    \($0)") }
                missing.forEach { Terminal.say("missing  \($0)") }
                let word = faults.isEmpty ? missing.isEmpty ? "good     " : "partly   " : nil
                if let word { Terminal.tell("\(word)\(row.made)  \(row.summary)") }
            }
            guard faults.isEmpty else {
                throw CommandFailure(.failed, "\(backup.name) cannot be trusted. Make another: zonecast backup create")
            }
            guard missing.isEmpty else {
                throw CommandFailure(
                    .failed,
                    "\(backup.name) can be restored, but without \(missing.count.of("asset")) that records use. An earlier backup "
                        + "may have more: zonecast backup list"
                )
            }
        }
    }

    struct Restore: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Put a backup in place of what the data folder holds.",
            discussion: """
                The relay has to be stopped. What was there is moved aside, not deleted. Devices that know more than the backup \
                are told to fetch anew, and send again what the backup lacks of their own changes where they still hold them.
                """
        )

        @Argument(help: "The backup's name or path, or latest.")
        var name: String

        @Flag(help: "Restore a backup with faults too.")
        var force = false

        @OptionGroup var options: BackupOptions

        func run() throws {
            let data = options.folder.folder
            let backup = try options.backup(named: name)
            let faults = BackupOptions.reading(backup) { backup.verify { options.step("checking \($0)") } }
            guard faults.isEmpty || force else {
                faults.forEach { Terminal.complain("fault    \($0)") }
                throw CommandFailure(.failed, "The backup has faults. Restore another, or this one with --force.")
            }
            let lock = try FolderLock(
                forCommandIn: data,
                refusal: "A relay runs on \(data). Stop it, restore, and start it again."
            )
            defer { withExtendedLifetime(lock) {} }
            let old = try options.run {
                try backup.restore(
                    to: data,
                    now: TimeSource.system.now(),
                    draw: { UInt64.random(in: .min ... .max) },
                    disk: FolderOwner.disk(from: backup.path),
                    step: { options.step("restoring \($0)") }
                )
            }
            do {
                try options.folder.change("backup.restore", backup.name) { _ in }
            } catch {
                let before = old.map { " To go back, move what is in \($0) into \(data)." } ?? ""
                throw CommandFailure(.failed, "The backup is in place, but unusable. \(error)\(before)")
            }
            if options.folder.json {
                return try Terminal.say(json: ["restored": backup.path, "data": data, "before": old ?? ""])
            }
            Terminal.tell("restored  \(BackupRow(backup).made)  \(BackupRow(backup).summary)")
            if let old { Terminal.tell("before    \(old)  (delete it once all is well)") }
            if BackupSchedule(of: data) == nil {
                Terminal.tell("backups   zonecast backup schedule daily --keep 7 --data \(data.shellWord)")
            }
            Terminal.tell("next      \(PackageFiles.start(on: data))")
        }
    }
}
