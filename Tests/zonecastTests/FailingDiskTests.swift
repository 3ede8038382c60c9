import Foundation
import TestSupport
import Testing

/// A data folder on a disk that accepts no writes can still be read, backed up and copied to another disk.
@Suite(.ownThread, .timeLimit(.minutes(15)), .enabled(if: Tool.canMount, "only root can mount"))
struct FailingDiskTests {
    private let folder = ScratchFolder()
    private let elsewhere = ScratchFolder()
    private var store: String { "\(folder.path)/containers/\(Path.container)/development.sqlite" }

    enum Shutdown: CaseIterable { case stopped, killed }

    /// Makes a folder with two zones.
    ///
    /// Of SQLite's extra files only those with content remain, as after a restore.
    private func makeFolder(_ shutdown: Shutdown, includingAccounts: Bool = true) throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes", "Lists"], on: relay)
        if shutdown == .killed { relay.killHard() } else { try #require(relay.stop().status == 0) }
        for file in [store] + (includingAccounts ? ["\(folder.path)/relay.sqlite"] : []) {
            let isEmpty = (try? FileManager.default.attributesOfItem(atPath: file + "-wal")[.size] as? Int) == 0
            for ending in isEmpty ? ["-wal", "-shm"] : ["-shm"] {
                try? FileManager.default.removeItem(atPath: file + ending)
            }
        }
        try FileManager.default.createDirectory(atPath: elsewhere.path, withIntermediateDirectories: true)
    }

    /// Runs commands in a mount namespace set up by `mount`; returns their output, with each command's exit code.
    private func run(_ mount: String, _ commands: [String]) throws -> String {
        let lines = commands.map { "'\(Command.program.path)' \($0); echo \"= $?\"" }
        let script = ([mount] + lines).joined(separator: "\n")
        return try Tool.run("unshare", ["-m", "sh", "-c", "{ \(script)\n} 2>&1"]).output
    }

    /// Mounts the data folder read-only at `/mnt`.
    private var readOnly: String { "mount --bind '\(folder.path)' /mnt && mount -o remount,ro,bind /mnt || exit 1" }

    /// Mounts a full disk with a copy of the data folder at `/mnt/r`.
    private var onAFullDisk: String {
        """
        mount -t tmpfs -o size=4m tmpfs /mnt && cp -a '\(folder.path)' /mnt/r || exit 1
        dd if=/dev/zero of=/mnt/fill bs=4k 2>/dev/null
        """
    }

    @Test(arguments: Shutdown.allCases) func aFolderOnAReadOnlyDiskCanBeCopied(_ shutdown: Shutdown) throws {
        try makeFolder(shutdown)
        let output = try run(
            readOnly,
            [
                "backup create --data /mnt --backups '\(elsewhere.path)/backups'",
                "backup verify latest --data /mnt --backups '\(elsewhere.path)/backups'",
                "storage copy --data /mnt --to '\(elsewhere.path)/copy'", "storage show --data /mnt",
                "storage compact --dry-run --data /mnt", "user list --data /mnt",
            ]
        )
        #expect(output.matches(of: /= 0/).count == 6, "\(output)")
        // The container's two zones, and the default zones of the public database and the user.
        #expect(output.matches(of: /good .* 4 zones/).count == 1, "\(output)")
        #expect(output.contains("copied    4 zones"), "\(output)")
    }

    @Test func aBackupOntoAReadOnlyDiskSuggestsAnotherFolder() throws {
        try makeFolder(.stopped)
        let output = try run(readOnly, ["backup create --data /mnt", "doctor --data /mnt", "serve --data /mnt"])
        #expect(output.contains("its disk is mounted read-only. Name a folder on another disk"), "\(output)")
        #expect(output.contains("zonecast backup create --data /mnt --backups DIR"), "\(output)")
        #expect(output.contains("= 4"), "\(output)")
    }

    /// SQLite needs no disk space to open a store that was closed cleanly.
    @Test func aCleanStopLeavesAnEmptyWALBesideTheStore() throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes"], on: relay)
        try #require(relay.stop().status == 0)
        for ending in ["-wal", "-shm"] { #expect(FileManager.default.fileExists(atPath: store + ending)) }
        let size = try #require(try FileManager.default.attributesOfItem(atPath: store + "-wal")[.size] as? Int)
        #expect(size == 0)
    }

    /// A backup or a copy on another disk needs no space on the full one.
    @Test func aFolderOnAFullDiskCanBeCopied() throws {
        try makeFolder(.stopped, includingAccounts: false)
        let output = try run(
            onAFullDisk,
            [
                "backup create --data /mnt/r --backups '\(elsewhere.path)/backups'",
                "storage copy --data /mnt/r --to '\(elsewhere.path)/copy'", "storage show --data /mnt/r",
            ]
        )
        #expect(output.matches(of: /= 0/).count == 3, "\(output)")
    }

    @Test func aFullDiskIsReportedByRestoreAndSchedule() throws {
        try makeFolder(.stopped, includingAccounts: false)
        let made = try Command.run(["backup", "create", "--data", folder.path, "--backups", elsewhere.path])
        try #require(made.status == 0, "\(made.errors)")
        let output = try run(
            onAFullDisk,
            [
                "backup restore latest --data /mnt/r --backups '\(elsewhere.path)'",
                "backup schedule daily --data /mnt/r", "storage show --data /mnt/r",
            ]
        )
        #expect(output.matches(of: /No space left on device. Free space on the disk./).count == 2, "\(output)")
        #expect(output.matches(of: /= 1/).count == 2 && output.contains("= 0"), "\(output)")
    }
}
