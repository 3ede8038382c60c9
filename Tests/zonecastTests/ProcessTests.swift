import ChildProcesses
import Foundation
import TestSupport
import Testing

/// The real program while clients write to it: stopped, started several times, restored elsewhere, and with a limit on
/// the size of its files.
///
/// See Reliability.md, "Faults".
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ProcessTests {
    let folder = ScratchFolder()
    private static let zones = ["Notes", "Lists"]

    @Test func stoppingUnderLoadLosesNothing() throws {
        let ledger = Ledger()
        for round in 1...2 {
            let relay = try RelayProcess(folder: folder.path)
            if round == 1 { try Path.makeZones(Self.zones, on: relay) }
            let finished = Writer.start(6, in: Self.zones, on: relay, ledger)
            #expect(
                ledger.waitForAcknowledgements(300, until: Date(timeIntervalSinceNow: 180)),
                "waited 180 s for writes"
            )
            let stopped = relay.stop()
            #expect(stopped.status == 0)
            #expect(stopped.took < .seconds(120))
            #expect(finished.wait(timeout: .now() + 180) == .success, "the writers did not stop after the relay ended")
        }
        let relay = try RelayProcess(folder: folder.path)
        try expectEverything(of: ledger, on: relay, "after two stops")
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/relay.sqlite-wal") || relay.stop().status == 0)
    }

    @Test func onlyOneOfSeveralRelaysStartedTogetherServes() throws {
        let starts = (0..<5).map { _ in
            let process = ChildProcess()
            process.executableURL = Command.program
            process.arguments = ["serve", "--dev", "--data", folder.path, "--listen", "127.0.0.1:0"]
            process.environment = Command.cleanEnvironment()
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            return process
        }
        for process in starts { try process.run() }
        defer { for process in starts where process.isRunning { kill(process.processIdentifier, SIGKILL) } }
        let deadline = ContinuousClock.now + .seconds(120)
        while starts.count(where: \.isRunning) > 1, ContinuousClock.now < deadline { usleep(5_000) }
        #expect(starts.count(where: \.isRunning) == 1, "waited 120 s for all but one to be refused")
        for process in starts where !process.isRunning { #expect(process.terminationStatus == 5) }
    }

    @Test func aBackupMadeDuringWritesIsRestoredElsewhere() throws {
        let ledger = Ledger()
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(Self.zones, on: relay)
        let finished = Writer.start(4, in: Self.zones, on: relay, ledger)
        #expect(ledger.waitForAcknowledgements(100, until: Date(timeIntervalSinceNow: 180)), "waited 180 s for writes")
        let before = ledger.entries
        let copies = ScratchFolder()
        for _ in 0..<2 {
            let made = try Command.run(["backup", "create", "--backups", copies.path, "--data", folder.path, "--json"])
            #expect(made.status == 0, "\(made.errors)")
        }
        // The clients go on, so they know writes that the backup lacks.
        #expect(ledger.waitForAcknowledgements(200, until: Date(timeIntervalSinceNow: 180)), "waited 180 s for writes")
        var followers = Self.zones.map { Follower(zone: $0) }
        for index in followers.indices { try followers[index].catchUp(on: relay, pageSize: 50) }
        relay.killHard()
        #expect(finished.wait(timeout: .now() + 180) == .success, "the writers did not stop after the kill")

        let elsewhere = ScratchFolder()
        let restored = try Command.run([
            "backup", "restore", "latest", "--backups", copies.path, "--data", elsewhere.path,
        ])
        #expect(restored.status == 0, "\(restored.errors)")
        let again = try RelayProcess(folder: elsewhere.path)
        for follower in followers {
            #expect(try follower.refusal(on: again) == "CHANGE_TOKEN_EXPIRED")
            var fresh = Follower(zone: follower.zone)
            try fresh.catchUp(on: again, pageSize: 7)
            for (name, entry) in before where entry.zone == follower.zone {
                guard let acknowledged = entry.acknowledged else { continue }
                #expect((fresh.values[name] ?? -1) >= acknowledged, "\(name) was saved before the backup")
            }
            for (name, value) in fresh.values {
                #expect(value <= follower.values[name] ?? -1, "\(name) is newer than any value in the feed")
            }
        }
        try expectTheClientsGoOn(ledger, on: again)
    }

    /// Writes to the restored relay while followers hold tokens from before these writes.
    private func expectTheClientsGoOn(_ ledger: Ledger, on relay: RelayProcess) throws {
        var followers = Self.zones.map { Follower(zone: $0) }
        for index in followers.indices { try followers[index].catchUp(on: relay, pageSize: 200) }
        let fresh = Ledger(startingAt: ledger)
        let finished = Writer.start(4, in: Self.zones, on: relay, fresh)
        #expect(fresh.waitForAcknowledgements(100, until: Date(timeIntervalSinceNow: 180)), "waited 180 s for writes")
        #expect(relay.stop().status == 0)
        #expect(finished.wait(timeout: .now() + 180) == .success, "the writers did not stop after the relay ended")
        let last = try RelayProcess(folder: relay.folder)
        for index in followers.indices {
            try followers[index].catchUp(on: last, pageSize: 3)
            var full = Follower(zone: followers[index].zone)
            try full.catchUp(on: last, pageSize: 200)
            #expect(full.values == followers[index].values, "state and feed differ after the restore")
        }
    }

    @Test func aFailedWriteToTheDiskEndsTheRelayAndLosesNothing() throws {
        let ledger = Ledger()
        do {
            let relay = try RelayProcess(folder: folder.path)
            try Path.makeZones(Self.zones, on: relay)
            #expect(relay.stop().status == 0)
        }
        let log = folder.path + "/relay.log"
        let relay = try RelayProcess(folder: folder.path, log: log, longestFile: 1_500)
        let finished = Writer.start(4, in: Self.zones, on: relay, ledger)
        #expect(finished.wait(timeout: .now() + 180) == .success, "waited 180 s for the log to reach its size limit")
        // A supervisor restarts a program that failed, but not one that exits with 0.
        #expect(try relay.end() == 1)
        let output = String(decoding: FileManager.default.contents(atPath: log) ?? Data(), as: UTF8.self)
        #expect(output.contains("A commit could not be written to the disk"), "\(output)")
        #expect(ledger.entries.contains { $0.value.acknowledged != nil })
        try expectEverything(of: ledger, on: RelayProcess(folder: folder.path), "after the failed write")
    }

    private func expectEverything(of ledger: Ledger, on relay: RelayProcess, _ when: String) throws {
        for zone in Self.zones {
            var follower = Follower(zone: zone)
            try follower.catchUp(on: relay, pageSize: 50)
            try follower.check(on: relay, ledger, when)
        }
    }
}
