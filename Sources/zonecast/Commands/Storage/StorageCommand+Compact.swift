import ArgumentParser
import Foundation
import RelayCore
import RelayStore

extension StorageCommand {
    struct Compact: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give the room of what was deleted back to the disk.",
            discussion: """
                SQLite keeps that room for later records, so a store never becomes smaller by itself. The first time a store is written \
                anew as a whole, and writes to it wait meanwhile; from then on it is done a few pages at a time, beside a relay that \
                runs. It wants as much free disk as twice what the store holds. Broken off, the store is as it was.
                """
        )

        @OptionGroup var options: FolderOptions

        @Flag(help: "Where a relay runs: do it too when writes to a store have to wait for it longer than 3 seconds.")
        var pause = false

        @Flag(help: "Write every store anew, those too that could give a few pages at a time.")
        var whole = false

        @Flag(help: "Only show how much room there is.")
        var dryRun = false

        private struct Row: Encodable {
            var file: String
            var bytes: Int64
            var freeBytes: Int64
            var bytesAfter: Int64?
            var seconds: Double?
        }

        func run() throws {
            // Where there is room for the store there is room for its copy; the system's own place may be small or memory.
            setenv("SQLITE_TMPDIR", options.folder, 1)
            let rooms = try rooms()
            let rows = try rooms.map { room in
                // For a few pages nothing is worth being written anew.
                dryRun || (room.freeBytes < Self.leastFree && !whole)
                    ? Row(file: room.file, bytes: room.bytes, freeBytes: room.freeBytes) : try compact(room)
            }
            if !dryRun { try options.change("storage.compact", options.folder) { _ in } }
            if options.json { return try Terminal.say(json: ["stores": rows]) }
            Terminal.say(
                table: rows.map {
                    [
                        $0.file, ByteText.of($0.bytes), ByteText.of($0.freeBytes),
                        $0.bytesAfter.map(ByteText.of) ?? "-",
                        $0.seconds.map { String(format: "%.1f s", $0) } ?? "-",
                    ]
                },
                heading: ["STORE", "BYTES", "OF THEM FREE", "NOW", "TOOK"],
                empty: "There is no store yet."
            )
        }

        private func rooms() throws -> [StoreCompaction.Room] {
            try options.withDirectory { _ in try StoreCompaction.rooms(in: options.folder) }
        }

        private func compact(_ room: StoreCompaction.Room) throws -> Row {
            let start = ContinuousClock.now
            let compaction = StoreCompaction(file: room.file, in: options.folder)
            do {
                if room.isStepwise, !whole {
                    try stepwise(compaction, room)
                } else {
                    try anew(compaction, room)
                }
            } catch let DirectoryError.unavailable(text) {
                throw CommandFailure(
                    .failed,
                    "The store could not be made smaller, and is as it was: \(text) Is somebody writing to it all the time?"
                )
            } catch let error as DirectoryError {
                throw CommandFailure(error, folder: options.folder)
            }
            var row = Row(file: room.file, bytes: room.bytes, freeBytes: room.freeBytes)
            row.bytesAfter = try rooms().first { $0.file == room.file }?.bytes
            row.seconds = (ContinuousClock.now - start) / .seconds(1)
            return row
        }

        private func stepwise(_ compaction: StoreCompaction, _ room: StoreCompaction.Room) throws {
            let isRunning = FolderLock.runningRelay(in: options.folder) != nil
            var begun = ContinuousClock.now
            try compaction.giveBackStepwise { done, all in
                tell(room, Double(done) / Double(max(all, 1)))
                // Twice as long for everybody else as for this.
                let took = (ContinuousClock.now - begun) / .microseconds(1)
                if isRunning { usleep(UInt32(min(took * 2, 500_000))) }
                begun = ContinuousClock.now
            }
        }

        private func anew(_ compaction: StoreCompaction, _ room: StoreCompaction.Room) throws {
            let kept = room.bytes - room.freeBytes
            let free = Int64(clamping: FreeSpace.bytes(in: options.folder) ?? 0)
            guard free > kept * 2 else {
                throw CommandFailure(
                    .failed,
                    "\(room.file) wants \(ByteText.of(kept * 2)) of free disk to be written anew, and there are \(ByteText.of(free)). Make room first."
                )
            }
            let seconds = Double(kept) / Double(Self.bytesPerSecond)
            if FolderLock.runningRelay(in: options.folder) != nil, seconds > Self.longestPause, !pause {
                throw CommandFailure(
                    .conflict,
                    """
                    A relay runs on \(options.folder), and writes to \(room.file) would wait for about \(Int(seconds.rounded(.up))) s \
                    this once. Add --pause, or stop the relay first; later compactions go on beside it.
                    """
                )
            }
            // Each byte is written thrice: beside the store, into its log, and into the store.
            let progress = WrittenBytes(of: kept * 3) { tell(room, $0) }
            defer { progress?.end() }
            try compaction.writeAnew()
        }

        private static let leastFree: Int64 = 65_536
        /// What a slow disk does.
        private static let bytesPerSecond: Int64 = 40_000_000
        /// In seconds; the relay's writes wait for 5 before they are refused.
        private static let longestPause = 3.0

        private func tell(_ room: StoreCompaction.Room, _ share: Double) {
            guard !options.json, isatty(STDERR_FILENO) == 1 else { return }
            Terminal.put("\r  \(room.file)  \(Int(share * 100)) %", on: STDERR_FILENO)
            if share >= 1 { Terminal.put("\r\u{1b}[K", on: STDERR_FILENO) }
        }
    }
}

/// Tells how far a work has come that writes a known number of bytes and says nothing meanwhile.
private final class WrittenBytes {
    private let timer: any DispatchSourceTimer

    /// `nil` where the system does not count what a process writes.
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
