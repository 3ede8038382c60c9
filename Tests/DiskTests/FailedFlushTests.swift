import Foundation
import Testing

@testable import DiskTrials

/// A flush that failed, a process that was killed for it, one that goes on, and then a power cut.
@Suite(.timeLimit(.minutes(15))) struct FailedFlushTests {
    private let folder: DiskFolder

    init() throws { folder = try DiskFolder() }

    @Test func whatAFailedFlushLeftIsOnTheDiskBeforeAnybodyBuildsUponIt() async throws {
        let places = try ["first", "second", "left"].map { name in
            let path = "\(folder.path)/\(name)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return path
        }
        let disk = FaultyDisk(folder: places[0])
        let world = try DiskWorld(places[0], on: disk, seed: 1, checkpointPages: 8_000)
        #expect(try await Script.makeZone("Notes").run(world) == .done)
        #expect(try await Script.save(["a": 1], in: "Notes").run(world) == .done)
        disk.arm(.init([.sync], number: 1, .fails))
        // It is in the log for all to see, and not on the disk.
        let outcome = try await Script.save(["a": 2], in: "Notes").run(world)
        guard case .unknown(_, let reason) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reason.contains("may have been stored nevertheless"))
        #expect(disk.disarm() && world.wantsRestart)

        let same = try FaultyDisk(afterKillOn: disk, folder: places[1])
        let next = try DiskWorld(places[1], on: same, seed: 2, checkpointPages: 8_000)
        #expect(try await Script.save(["b": 1], in: "Notes").run(next) == .done)
        let seen = try await next.facts()
        try same.cutPower(.keepsNothing, leaving: places[2])
        let last = try DiskWorld(places[2], seed: 3)
        let found = try await last.facts()
        #expect(found["Notes/b"] == "1", "what was acknowledged is gone")
        #expect(found == seen, "what was read is gone")
        for world in [world, next, last] { world.close() }
        for disk in [disk, same] { disk.detach() }
    }

    /// While another process has the files open, nobody looks for the log's end anew: there the commit is not.
    @Test(arguments: [Script.addToken("t0"), Script.save(["a": 2], in: "Notes")])
    func whatAFailedFlushLeftUnseenStaysSo(_ step: Step) async throws {
        let places = try ["first", "left"].map { name in
            let path = "\(folder.path)/\(name)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return path
        }
        let disk = FaultyDisk(folder: places[0])
        let world = try DiskWorld(places[0], on: disk, seed: 1, checkpointPages: 8_000)
        #expect(try await Script.makeZone("Notes").run(world) == .done)
        #expect(try await Script.save(["a": 1], in: "Notes").run(world) == .done)
        disk.arm(.init([.sync], number: 1, .fails))
        #expect(try await step.run(world) != .done)
        #expect(disk.disarm() && world.wantsRestart)

        let next = try DiskWorld(places[0], on: disk, seed: 2, checkpointPages: 8_000)
        let seen = try await next.facts()
        #expect(seen["Notes/a"] == "1" && seen["token t0"] == nil)
        try disk.cutPower(.keepsAll, leaving: places[1])
        let last = try DiskWorld(places[1], seed: 3)
        #expect(try await last.facts() == seen)
        for world in [world, next, last] { world.close() }
        disk.detach()
    }
}
