import ArgumentParser
import Foundation
import RelayCore
import RelayStore

extension StorageCommand {
    struct Copy: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Copy the data folder to another disk or place, compare the two, and keep devices' tokens valid.",
            discussion: """
                The relay has to be stopped: what it took meanwhile would be missing. Everything but backups and their schedule is \
                copied and compared, row by row and asset by asset. Serve one of the two from then on, never both: devices could \
                not tell them apart. For a copy to keep, make a backup instead, which needs no stop.
                """
        )

        @Option(
            name: .customLong("to"),
            help: ArgumentHelp("The new folder, missing or empty.", valueName: "dir"),
            completion: .directory
        )
        var target: String

        @Option(
            name: .customLong("from"),
            help: ArgumentHelp("The folder to copy. (default: that of --data)", valueName: "dir"),
            completion: .directory
        )
        var source: String?

        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var from: String
            var to: String
            var files: Int
            var zones: Int
            var records: Int
            var rows: Int
            var assets: Int
            var bytes: Int64
            var isEqual = true
        }

        func run() throws {
            let (from, to) = (try Self.folder(source ?? options.folder), try Self.folder(target))
            guard FileManager.default.fileExists(atPath: from + "/relay.sqlite") else {
                throw CommandFailure(.nothingThere(from))
            }
            let lock = try FolderLock.forReading(
                of: from,
                "what it takes meanwhile would be missing from the copy. Stop it first, or make a backup instead"
            )
            defer { withExtendedLifetime(lock) {} }
            let summary: FolderCopy.Summary
            do throws(BackupFailure) {
                summary = try FolderCopy.make(of: from, at: to, disk: FolderOwner.disk(to: to, besides: from)) { step in
                    if !options.json, isatty(STDERR_FILENO) == 1 { Terminal.complain("  \(step)") }
                }
            } catch {
                // Its contents are gone; the folder itself may be where only root may remove it.
                _ = FolderOwner.asCaller { rmdir(URL(fileURLWithPath: to).standardizedFileURL.path + ".partial") }
                throw CommandFailure(error)
            }
            if options.json {
                return try Terminal.say(
                    json: Answer(
                        from: from,
                        to: to,
                        files: summary.files,
                        zones: summary.zones,
                        records: summary.records,
                        rows: summary.rows,
                        assets: summary.assets,
                        bytes: summary.bytes
                    )
                )
            }
            let counts = [summary.zones.of("zone"), summary.records.of("record"), summary.assets.of("asset")]
            Terminal.tell("copied    \(counts.joined(separator: ", "))")
            Terminal.tell(
                "verified  \(summary.rows.of("row")) and every asset are equal; tokens held by clients stay valid"
            )
            Terminal.tell("next      zonecast serve --data \(to.shellWord)")
            Terminal.tell("          and never again \(from): move it away, or delete it once all is well")
        }

        /// Other stores than folders are for later versions; what is written as an address says so.
        private static func folder(_ text: String) throws -> String {
            guard let mark = text.firstRange(of: ":"), !text.hasPrefix("/"), !text.hasPrefix(".") else { return text }
            guard text[..<mark.lowerBound] == "sqlite" else {
                throw CommandFailure(
                    .usage,
                    "\(text) is no folder. This version keeps data in folders of SQLite files: --to /srv/zonecast"
                )
            }
            return String(text[mark.upperBound...])
        }
    }

    struct Migrate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Bring a folder of an earlier version up to date, with a backup before; serve does it too when it starts.",
            discussion: "The relay has to be stopped. With --dry-run nothing is changed, and a relay may run."
        )

        @Flag(help: "Only show the steps to come.")
        var dryRun = false

        @Flag(help: "Make no backup first.")
        var noBackup = false

        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            struct File: Encodable {
                var file: String
                var done: Int
                var missing: [String]
            }

            var files: [File]
            var backup: String?
            var isCurrent: Bool
        }

        func run() throws {
            let data = options.folder
            guard FileManager.default.fileExists(atPath: data + "/relay.sqlite") else {
                throw CommandFailure(.nothingThere(data))
            }
            FolderOwner.become(ownerOf: data)
            let before = try layout(data)
            if let newer = before.files.first(where: \.isNewer) {
                throw CommandFailure(
                    .failed,
                    "\(newer.path) was made by a later version of zonecast, and only that one can use it. Install it again."
                )
            }
            guard !dryRun, !before.isCurrent else { return try say(before, backup: nil) }
            let lock = try FolderLock.forUpkeep(of: data, "uses it as it is. Stop it first")
            defer { withExtendedLifetime(lock) {} }
            var backup: Backup?
            do throws(BackupFailure) {
                if !noBackup {
                    backup = try Backup.create(
                        of: data,
                        in: BackupSchedule.standardFolder(of: data),
                        now: TimeSource.system.now()
                    )
                }
            } catch {
                throw CommandFailure(.failed, "\(error.description) Nothing was changed.")
            }
            do {
                try FolderLayout.migrate(data)
            } catch {
                let way = backup.map { ": zonecast backup restore \($0.name) --data \(data.shellWord)" } ?? "."
                throw CommandFailure(.failed, "A step failed and was taken back: \(error). The backup is whole\(way)")
            }
            try say(try layout(data), was: before, backup: backup?.path)
        }

        private func layout(_ data: String) throws -> FolderLayout {
            do {
                return try FolderLayout(of: data)
            } catch let error as DirectoryError {
                throw CommandFailure(error, folder: data)
            }
        }

        private func say(_ now: FolderLayout, was: FolderLayout? = nil, backup: String?) throws {
            if options.json {
                let files = now.files.map { Answer.File(file: $0.path, done: $0.done, missing: $0.missing) }
                return try Terminal.say(json: Answer(files: files, backup: backup, isCurrent: now.isCurrent))
            }
            if let backup { Terminal.tell("backup  \(backup)") }
            let old = Dictionary((was ?? now).files.map { ($0.path, $0.done) }) { $1 }
            Terminal.say(
                table: now.files.map { file in
                    let steps = file.missing.isEmpty ? "up to date" : file.missing.joined(separator: ", ")
                    return [file.path, "\(old[file.path] ?? file.done)", "\(file.done + file.missing.count)", steps]
                },
                heading: ["FILE", "STEPS", "OF", "TO COME"],
                empty: ""
            )
        }
    }
}
