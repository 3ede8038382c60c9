import DiskTrials
import Foundation
import Testing

/// A failed flush, then a killed or a continuing process, then a power cut.
@Suite(.timeLimit(.minutes(15))) struct FailedFlushTests {
    private let folder: DiskFolder

    init() throws { folder = try DiskFolder() }

    @Test func aNewProcessFlushesTheCommitOfAFailedFlushBeforeItWrites() async throws {
        let folders = try ["first", "second", "left"].map { name in
            let path = "\(folder.path)/\(name)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return path
        }
        let disk = FaultyDisk(folder: folders[0])
        let world = try DiskWorld(folders[0], on: disk, seed: 1, checkpointPages: 8_000)
        #expect(try await Script.makeZone("Notes").run(world) == .done)
        #expect(try await Script.save(["a": 1], in: "Notes").run(world) == .done)
        disk.arm(.init([.sync], number: 1, .fails))
        // The commit is in the log, where readers see it, but not on the disk.
        let outcome = try await Script.save(["a": 2], in: "Notes").run(world)
        guard case .unknown(_, let reason) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reason.contains("may have been stored nevertheless"))
        #expect(disk.disarm() && world.wantsRestart)

        let same = try FaultyDisk(afterKillOn: disk, folder: folders[1])
        let next = try DiskWorld(folders[1], on: same, seed: 2, checkpointPages: 8_000)
        #expect(try await Script.save(["b": 1], in: "Notes").run(next) == .done)
        let seen = try await next.facts()
        try same.cutPower(.keepsNothing, leaving: folders[2])
        let last = try DiskWorld(folders[2], seed: 3)
        let found = try await last.facts()
        #expect(found["Notes/b"] == "1", "an acknowledged write is gone")
        #expect(found == seen, "a record that was read is gone")
        for world in [world, next, last] { world.close() }
        for disk in [disk, same] { disk.detach() }
    }

    /// While another process has the files open, a new process does not recover the log: it never sees the commit.
    @Test(arguments: [Script.addToken("t0"), Script.save(["a": 2], in: "Notes")])
    func aCommitOfAFailedFlushThatNoReaderSawStaysInvisible(_ step: Step) async throws {
        let folders = try ["first", "left"].map { name in
            let path = "\(folder.path)/\(name)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return path
        }
        let disk = FaultyDisk(folder: folders[0])
        let world = try DiskWorld(folders[0], on: disk, seed: 1, checkpointPages: 8_000)
        #expect(try await Script.makeZone("Notes").run(world) == .done)
        #expect(try await Script.save(["a": 1], in: "Notes").run(world) == .done)
        disk.arm(.init([.sync], number: 1, .fails))
        #expect(try await step.run(world) != .done)
        #expect(disk.disarm() && world.wantsRestart)

        let next = try DiskWorld(folders[0], on: disk, seed: 2, checkpointPages: 8_000)
        let seen = try await next.facts()
        #expect(seen["Notes/a"] == "1" && seen["token t0"] == nil)
        try disk.cutPower(.keepsAll, leaving: folders[1])
        let last = try DiskWorld(folders[1], seed: 3)
        #expect(try await last.facts() == seen)
        for world in [world, next, last] { world.close() }
        disk.detach()
    }
}
