import ArgumentParser
import Foundation
import RelayCore
import RelayStore

extension StorageCommand {
    struct Copy: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Copy the data folder to another place and verify the copy; devices' tokens stay valid.",
            discussion: """
                Stop the relay first, since the copy would lack later writes. Everything except backups and their schedule is \
                copied and compared, row by row and asset by asset. Afterwards serve only one of the two folders, because devices cannot \
                tell them apart. To keep a copy, create a backup instead, which works while the relay is running.
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
                "the copy would lack its later writes. Stop it first, or create a backup instead"
            )
            defer { withExtendedLifetime(lock) {} }
            let summary: FolderCopy.Summary
            do throws(BackupFailure) {
                summary = try FolderCopy.make(of: from, at: to, disk: FolderOwner.disk(to: to, besides: from)) { step in
                    if !options.json, isatty(STDERR_FILENO) == 1 { Terminal.complain("  \(step)") }
                }
            } catch {
                // The contents are removed already; only root may be able to remove the folder itself.
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
            Terminal.tell("          never serve \(from) again; delete it when everything works")
        }

        /// Parses `sqlite:FOLDER` or a folder; other schemes are reserved for later versions.
        private static func folder(_ text: String) throws -> String {
            guard let mark = text.firstRange(of: ":"), !text.hasPrefix("/"), !text.hasPrefix(".") else { return text }
            guard text[..<mark.lowerBound] == "sqlite" else {
                throw CommandFailure(
                    .usage,
                    "\(text) is not a folder. This version supports only folders with SQLite files: --to /srv/zonecast"
                )
            }
            return String(text[mark.upperBound...])
        }
    }

    struct Migrate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Migrate a folder of an earlier version, after a backup; serve also migrates it when it starts.",
            discussion: "Stop the relay first. With --dry-run, nothing is changed and a relay may be running."
        )

        @Flag(help: "Only show the pending steps.")
        var dryRun = false

        @Flag(help: "Do not create a backup first.")
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
                    "\(newer.path) was written by a newer version of zonecast, and only that version can use it. Install it again."
                )
            }
            guard !dryRun, !before.isCurrent else { return try say(before, backup: nil) }
            let lock = try FolderLock.forUpkeep(of: data, "it uses the current layout. Stop it first")
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
                throw CommandFailure(
                    .failed,
                    "A step failed and was rolled back: \(error). The backup is complete\(way)"
                )
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
                heading: ["FILE", "STEPS", "OF", "PENDING"],
                empty: ""
            )
        }
    }
}
