import ArgumentParser
import Foundation
import RelayCore
import RelayStore

extension BackupCommand {
    struct Verify: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a backup: every file, every zone's log, every asset.",
            discussion: "Lists each fault and each missing asset; exits with 1 if there are any."
        )

        @Argument(help: "The backup's name or path, or latest.")
        var name = "latest"

        @OptionGroup var options: BackupOptions

        private struct Answer: Encodable {
            var backup: BackupRow
            var faults: [String]
            /// Assets that were missing or damaged when the backup was made.
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
                throw CommandFailure(.failed, "\(backup.name) has faults. Make another: zonecast backup create")
            }
            guard missing.isEmpty else {
                throw CommandFailure(
                    .failed,
                    "\(backup.name) can be restored, but lacks \(missing.count.of("asset")) that records use. An earlier backup "
                        + "may contain them: zonecast backup list"
                )
            }
        }
    }

    struct Restore: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace the contents of the data folder with a backup.",
            discussion: """
                Stop the relay first. The old data is moved aside, not deleted. Devices whose change tokens are newer than the backup \
                fetch everything again and resend their own changes that the backup lacks, if they still have them.
                """
        )

        @Argument(help: "The backup's name or path, or latest.")
        var name: String

        @Flag(help: "Restore the backup even if it has faults.")
        var force = false

        @OptionGroup var options: BackupOptions

        func run() throws {
            let data = options.folder.folder
            let backup = try options.backup(named: name)
            let faults = BackupOptions.reading(backup) { backup.verify { options.step("checking \($0)") } }
            guard faults.isEmpty || force else {
                faults.forEach { Terminal.complain("fault    \($0)") }
                throw CommandFailure(.failed, "The backup has faults. Restore another one, or use --force.")
            }
            let lock = try FolderLock(
                forCommandIn: data,
                refusal: "A relay is running on \(data). Stop it, restore, and start it again."
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
                let before = old.map { " To undo this, move the contents of \($0) into \(data)." } ?? ""
                throw CommandFailure(.failed, "The backup was restored but is unusable. \(error)\(before)")
            }
            if options.folder.json {
                return try Terminal.say(json: ["restored": backup.path, "data": data, "before": old ?? ""])
            }
            Terminal.tell("restored  \(BackupRow(backup).made)  \(BackupRow(backup).summary)")
            if let old { Terminal.tell("before    \(old)  (delete it when everything works)") }
            if BackupSchedule(of: data) == nil {
                Terminal.tell("backups   zonecast backup schedule daily --keep 7 --data \(data.shellWord)")
            }
            Terminal.tell("next      \(PackageFiles.start(on: data))")
        }
    }
}
