import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem

/// `zonecast storage`: shows, compacts and copies the files of a data folder.
struct StorageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storage",
        abstract: "Show the files of a data folder; compact and copy it.",
        subcommands: [Show.self, Compact.self, Copy.self]
    )

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show each container's files: records, log, assets, and the layout's version."
        )

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var container: String
            var environment: String
            var layout: Int
            var recordBytes: Int64
            var logBytes: Int64
            var assets: Int
            var assetBytes: Int64
        }

        /// A store that cannot be read.
        private struct Failure: Encodable {
            var container: String
            var environment: String
            var reason: String
        }

        private struct Answer: Encodable {
            var folder: String
            var sqlite: String
            var freeBytes: Int64
            var stores: [Row]
            var failures: [Failure]
        }

        func run() throws {
            let free = Int64(clamping: FreeSpace.bytes(in: options.folder) ?? 0)
            var answer = Answer(
                folder: options.folder,
                sqlite: options.home.upkeep.engine.version,
                freeBytes: free,
                stores: [],
                failures: []
            )
            for found in try options.withDirectory({ try $0.containers() }) {
                for environment in Records.Environment.allCases {
                    look(ContainerEnvironment(found.container, environment), &answer)
                }
            }
            if options.json { try Terminal.say(json: answer) } else { say(answer) }
            guard let first = answer.failures.first else { return }
            throw CommandFailure(
                .failed,
                (answer.failures.count == 1
                    ? "The \(first.environment) store of \(first.container) cannot be read: "
                    : "\(answer.failures.count) stores cannot be read, the first for this reason: ")
                    + first.reason
            )
        }

        private func say(_ answer: Answer) {
            Terminal.say("folder  \(answer.folder)")
            Terminal.say(
                "engine  \(options.home.upkeep.engine.name) \(answer.sqlite), \(ByteText.of(answer.freeBytes)) free"
            )
            Terminal.say("")
            Terminal.say(
                table: answer.stores.map {
                    [
                        $0.container, $0.environment, ByteText.of($0.recordBytes), ByteText.of($0.logBytes),
                        "\($0.assets)", ByteText.of($0.assetBytes), "\($0.layout)",
                    ]
                } + answer.failures.map { [$0.container, $0.environment, "unknown"] + Array(repeating: "", count: 4) },
                heading: ["CONTAINER", "ENVIRONMENT", "RECORDS", "LOG", "ASSETS", "ASSET BYTES", "LAYOUT"],
                empty: "No container has been used yet."
            )
        }

        private func look(_ home: ContainerEnvironment, _ answer: inout Answer) {
            let (container, environment) = (home.container.name, home.environment.rawValue)
            do {
                guard let files = try options.home.upkeep.files(of: home) else { return }
                answer.stores.append(
                    Row(
                        container: container,
                        environment: environment,
                        layout: files.layout,
                        recordBytes: files.bytes,
                        logBytes: files.logBytes,
                        assets: files.assets.count,
                        assetBytes: files.assets.reduce(0) { $0 + $1.bytes }
                    )
                )
            } catch {
                let reason = (error as? DirectoryError).map { CommandFailure($0, folder: options.folder).description }
                answer.failures.append(
                    Failure(container: container, environment: environment, reason: reason ?? "\(error)")
                )
            }
        }
    }
}

extension StorageCommand {
    struct Compact: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Return the space of deleted data to the disk.",
            discussion: """
                SQLite keeps free space for later records, so a store never shrinks by itself. The first compaction rewrites the whole \
                store, while writes to it wait; later ones return a few pages at a time while the relay is \
                running. It needs free disk space of twice the store's contents. If interrupted, the store is unchanged.
                """
        )

        @OptionGroup var options: FolderOptions

        @Flag(help: "With a running relay: also compact stores whose writes have to wait for more than 3 seconds.")
        var pause = false

        @Flag(help: "Rewrite every store, even those that could return a few pages at a time.")
        var whole = false

        @Flag(help: "Only show how much space is free in the stores.")
        var dryRun = false

        private struct Row: Encodable {
            var file: String
            var bytes: Int64
            var freeBytes: Int64
            var bytesAfter: Int64?
            var seconds: Double?
        }

        func run() throws {
            // The data folder's disk has room for the copy; the system's temporary folder may be small or in memory.
            setenv("SQLITE_TMPDIR", options.folder, 1)
            let rooms = try rooms()
            let rows = try rooms.map { room in
                // A few free pages are not worth a rewrite.
                dryRun || (room.freeBytes < Self.leastFree && !whole)
                    ? Row(file: room.file, bytes: room.bytes, freeBytes: room.freeBytes) : try compact(room)
            }
            if !dryRun { try options.change("storage.compact", options.folder) { _ in } }
            try options.list(
                rows,
                as: "stores",
                heading: ["STORE", "BYTES", "FREE", "NOW", "TIME"],
                empty: "There is no store yet."
            ) {
                [
                    $0.file, ByteText.of($0.bytes), ByteText.of($0.freeBytes), $0.bytesAfter.map(ByteText.of) ?? "-",
                    $0.seconds.map { String(format: "%.1f s", $0) } ?? "-",
                ]
            }
        }

        private func rooms() throws -> [CompactionRoom] {
            // A database says that there is nothing to compact.
            if DataFolder.database != nil { try options.home.upkeep.compact("") }
            return try options.withDirectory { _ in try options.home.upkeep.rooms() }
        }

        private func compact(_ room: CompactionRoom) throws -> Row {
            let start = ContinuousClock.now
            do {
                if room.isStepwise, !whole {
                    try compactInSteps(room)
                } else {
                    try rewrite(room)
                }
            } catch let DirectoryError.unavailable(text) {
                throw CommandFailure(
                    .failed,
                    "The store could not be compacted and is unchanged: \(text) Retry when there are fewer writes."
                )
            } catch let error as DirectoryError {
                throw CommandFailure(error, folder: options.folder)
            }
            var row = Row(file: room.file, bytes: room.bytes, freeBytes: room.freeBytes)
            row.bytesAfter = try rooms().first { $0.file == room.file }?.bytes
            row.seconds = (ContinuousClock.now - start) / .seconds(1)
            return row
        }

        private func compactInSteps(_ room: CompactionRoom) throws {
            let isRunning = FolderLock.runningRelay(in: options.folder) != nil
            var begun = ContinuousClock.now
            try options.home.upkeep.compactStepwise(room.file) { done, all in
                tell(room, Double(done) / Double(max(all, 1)))
                // Leave the relay twice the time that this step took.
                let took = (ContinuousClock.now - begun) / .microseconds(1)
                if isRunning { usleep(UInt32(min(took * 2, 500_000))) }
                begun = ContinuousClock.now
            }
        }

        private func rewrite(_ room: CompactionRoom) throws {
            let kept = room.bytes - room.freeBytes
            let free = Int64(clamping: FreeSpace.bytes(in: options.folder) ?? 0)
            guard free > kept * 2 else {
                throw CommandFailure(
                    .failed,
                    "\(room.file) needs \(ByteText.of(kept * 2)) of free disk space for the rewrite, but only \(ByteText.of(free)) are free. Free disk space first."
                )
            }
            let seconds = Double(kept) / Double(Self.bytesPerSecond)
            if FolderLock.runningRelay(in: options.folder) != nil, seconds > Self.longestPause, !pause {
                throw CommandFailure(
                    .conflict,
                    """
                    A relay is running on \(options.folder), and writes to \(room.file) would wait for about \(Int(seconds.rounded(.up))) s \
                    once. Add --pause, or stop the relay first; later compactions do not block writes.
                    """
                )
            }
            // Each byte is written three times: to the copy, to the log, and to the store.
            let progress = WrittenBytes(of: kept * 3) { tell(room, $0) }
            defer { progress?.end() }
            try options.home.upkeep.compact(room.file)
        }

        private static let leastFree: Int64 = 65_536
        /// The write rate of a slow disk.
        private static let bytesPerSecond: Int64 = 40_000_000
        /// In seconds; the relay refuses writes that wait for 5 seconds.
        private static let longestPause = 3.0

        private func tell(_ room: CompactionRoom, _ share: Double) {
            guard !options.json, isatty(STDERR_FILENO) == 1 else { return }
            Terminal.put("\r  \(room.file)  \(Int(share * 100)) %", on: STDERR_FILENO)
            if share >= 1 { Terminal.put("\r\u{1b}[K", on: STDERR_FILENO) }
        }
    }
}

/// Reports the progress of work that writes a known number of bytes.
private final class WrittenBytes {
    private let timer: any DispatchSourceTimer

    /// Returns `nil` if the system does not count the bytes that a process writes.
    init?(of all: Int64, _ tell: @escaping (Double) -> Void) {
        guard let start = Self.written else { return nil }
        timer = DispatchSource.makeTimerSource()
        timer.schedule(deadline: .now() + 0.5, repeating: 0.5)
        nonisolated(unsafe) let tell = tell  // Called on the timer's queue alone, and not after `end`.
        timer.setEventHandler {
            guard let now = Self.written else { return }
            tell(min(0.99, Double(now - start) / Double(max(all, 1))))
        }
        timer.resume()
    }

    func end() {
        timer.cancel()
        if isatty(STDERR_FILENO) == 1 { Terminal.put("\r\u{1b}[K", on: STDERR_FILENO) }
    }

    private static var written: Int64? {
        guard let text = FileManager.default.contents(atPath: "/proc/self/io") else { return nil }
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("wchar:") }
        return line.flatMap { Int64($0.dropFirst(6).trimmingCharacters(in: .whitespaces)) }
    }
}

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
                throw CommandFailure(.noData(in: from))
            }
            let lock = try FolderLock.forReading(
                of: from,
                "the copy would lack its later writes. Stop it first, or create a backup instead"
            )
            defer { withExtendedLifetime(lock) {} }
            let summary: CopySummary
            let home = DataFolder.home(from, disk: FolderOwner.disk(to: to, besides: from))
            do throws(BackupFailure) {
                summary = try home.upkeep.copy(to: to) { step in
                    if !options.json, isatty(STDERR_FILENO) == 1 { Terminal.sayError("  \(step)") }
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
