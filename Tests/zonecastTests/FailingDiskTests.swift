import Foundation
import TestSupport
import Testing

/// A data folder on a disk that takes no writes any more: what is there can be read, and brought to another one.
@Suite(.ownThread, .timeLimit(.minutes(15)), .enabled(if: Tool.canMount, "only root can mount"))
struct FailingDiskTests {
    private let folder = ScratchFolder()
    private let elsewhere = ScratchFolder()
    private var store: String { "\(folder.path)/containers/\(Path.container)/development.sqlite" }

    enum End: CaseIterable { case stopped, killed }

    /// A folder with two zones; of SQLite's files beside a store only those are there that hold something, as after a restore.
    private func makeFolder(_ end: End, alsoOfAccounts: Bool = true) throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes", "Lists"], on: relay)
        if end == .killed { relay.killHard() } else { try #require(relay.stop().status == 0) }
        for file in [store] + (alsoOfAccounts ? ["\(folder.path)/relay.sqlite"] : []) {
            let isEmpty = (try? FileManager.default.attributesOfItem(atPath: file + "-wal")[.size] as? Int) == 0
            for ending in isEmpty ? ["-wal", "-shm"] : ["-shm"] {
                try? FileManager.default.removeItem(atPath: file + ending)
            }
        }
        try FileManager.default.createDirectory(atPath: elsewhere.path, withIntermediateDirectories: true)
    }

    /// What commands say, each of them followed by its exit code, in a system where `/mnt` is what `mount` makes it.
    private func say(_ mount: String, _ commands: [String]) throws -> String {
        let lines = commands.map { "'\(Command.program.path)' \($0); echo \"= $?\"" }
        let script = ([mount] + lines).joined(separator: "\n")
        return try Tool.run("unshare", ["-m", "sh", "-c", "{ \(script)\n} 2>&1"]).said
    }

    /// The folder is all of `/mnt`.
    private var readOnly: String { "mount --bind '\(folder.path)' /mnt && mount -o remount,ro,bind /mnt || exit 1" }

    /// A copy of the folder is `/mnt/r`.
    private var onAFullDisk: String {
        """
        mount -t tmpfs -o size=4m tmpfs /mnt && cp -a '\(folder.path)' /mnt/r || exit 1
        dd if=/dev/zero of=/mnt/fill bs=4k 2>/dev/null
        """
    }

    @Test(arguments: End.allCases) func whatLiesOnADiskThatIsReadOnlyCanBeBroughtToAnother(_ end: End) throws {
        try makeFolder(end)
        let said = try say(
            readOnly,
            [
                "backup create --data /mnt --backups '\(elsewhere.path)/backups'",
                "backup verify latest --data /mnt --backups '\(elsewhere.path)/backups'",
                "storage copy --data /mnt --to '\(elsewhere.path)/copy'", "storage info --data /mnt",
                "storage compact --dry-run --data /mnt", "user list --data /mnt",
            ]
        )
        #expect(said.matches(of: /= 0/).count == 6, "\(said)")
        // The container's own, and the public database's and the user's default ones.
        #expect(said.matches(of: /good .* 4 zones/).count == 1, "\(said)")
        #expect(said.contains("copied    4 zones"), "\(said)")
    }

    @Test func whoNamesNoOtherDiskIsToldTo() throws {
        try makeFolder(.stopped)
        let said = try say(readOnly, ["backup create --data /mnt", "doctor --data /mnt", "serve --data /mnt"])
        #expect(said.contains("its disk is mounted read-only. Name a folder on another disk"), "\(said)")
        #expect(said.contains("zonecast backup create --data /mnt --backups DIR"), "\(said)")
        #expect(said.contains("= 4"), "\(said)")
    }

    /// What was closed in good order is opened without any room.
    @Test func aDiskWithoutAnyRoomIsReadAfterAGoodEnd() throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes"], on: relay)
        try #require(relay.stop().status == 0)
        for ending in ["-wal", "-shm"] { #expect(FileManager.default.fileExists(atPath: store + ending)) }
        let size = try #require(try FileManager.default.attributesOfItem(atPath: store + "-wal")[.size] as? Int)
        #expect(size == 0)
    }

    /// A backup elsewhere needs none of the room that is missing.
    @Test func whatLiesOnAFullDiskCanBeBroughtToAnother() throws {
        try makeFolder(.stopped, alsoOfAccounts: false)
        let said = try say(
            onAFullDisk,
            [
                "backup create --data /mnt/r --backups '\(elsewhere.path)/backups'",
                "storage copy --data /mnt/r --to '\(elsewhere.path)/copy'", "storage info --data /mnt/r",
            ]
        )
        #expect(said.matches(of: /= 0/).count == 3, "\(said)")
    }

    @Test func whoHasNoRoomForABackupOrARestoreIsToldToMakeSome() throws {
        try makeFolder(.stopped, alsoOfAccounts: false)
        let made = try Command.run(["backup", "create", "--data", folder.path, "--backups", elsewhere.path])
        try #require(made.status == 0, "\(made.complaint)")
        let said = try say(
            onAFullDisk,
            [
                "backup restore latest --data /mnt/r --backups '\(elsewhere.path)'",
                "backup schedule daily --data /mnt/r", "storage info --data /mnt/r",
            ]
        )
        #expect(said.matches(of: /No space left on device. Free space on the disk./).count == 2, "\(said)")
        #expect(said.matches(of: /= 1/).count == 2 && said.contains("= 0"), "\(said)")
    }
}
