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
}
