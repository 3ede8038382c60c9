import ArgumentParser
import Foundation
import RelayCore
import RelayStore

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

        private func stepwise(_ compaction: StoreCompaction, _ room: StoreCompaction.Room) throws {
            let isRunning = FolderLock.runningRelay(in: options.folder) != nil
            var begun = ContinuousClock.now
            try compaction.giveBackStepwise { done, all in
                tell(room, Double(done) / Double(max(all, 1)))
                // Leave the relay twice the time that this step took.
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
            try compaction.writeAnew()
        }

        private static let leastFree: Int64 = 65_536
        /// The write rate of a slow disk.
        private static let bytesPerSecond: Int64 = 40_000_000
        /// In seconds; the relay refuses writes that wait for 5 seconds.
        private static let longestPause = 3.0

        private func tell(_ room: StoreCompaction.Room, _ share: Double) {
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
