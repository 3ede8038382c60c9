import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing

/// Kill -9 while several clients write: acknowledged writes survive, and no feed has a gap.
///
/// See Reliability.md, "Invariants", a, b, c and i, and "Faults". A killed process proves nothing about power loss; the
/// stores' own tests check that `synchronous` is set for it.
@Suite(.ownThread, .serialized) struct CrashTests {
    let folder = ScratchFolder()

    private static let zones = ["Notes", "Lists"]
    /// A soak runs more rounds.
    private static let rounds = ProcessInfo.processInfo.environment["ZONECAST_KILLS"].flatMap { Int($0) } ?? 3
    private static let writers = 6

    @Test(.timeLimit(.minutes(30))) func acknowledgedWritesSurviveAKillAndFeedsHaveNoGap() throws {
        let ledger = Ledger()
        var followers = Self.zones.map { Follower(zone: $0) }
        var relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(Self.zones, on: relay)
        for round in 1...Self.rounds {
            try writeUntilKilled(relay, ledger, acknowledgements: 250 * min(round, 4))
            relay = try RelayProcess(folder: folder.path)
            for index in followers.indices {
                // The follower's token is older than the kill.
                try followers[index].catchUp(on: relay, pageSize: [200, 7, 50][round % 3])
                try followers[index].check(on: relay, ledger, "round \(round)")
            }
        }
        #expect(relay.stop().status == 0)
        try checkFiles()
    }

    /// Runs the writers and kills the relay after a number of acknowledged writes, waiting 180 s at most.
    private func writeUntilKilled(_ relay: RelayProcess, _ ledger: Ledger, acknowledgements: Int) throws {
        let finished = Writer.start(Self.writers, in: Self.zones, on: relay, ledger)
        let reached = ledger.waitForAcknowledgements(acknowledgements, until: Date(timeIntervalSinceNow: 180))
        relay.killHard()
        #expect(finished.wait(timeout: .now() + 180) == .success, "the writers did not notice the kill")
        try #require(reached, "waited 180 s for \(acknowledgements) acknowledged writes")
    }

    private func checkFiles() throws {
        let root = folder.path + "/containers/\(Path.container)/development.sqlite"
        for path in [folder.path + "/relay.sqlite", root] {
            let queue = try DatabaseQueue(path: path)
            #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok", "\(path)")
            #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal", "\(path)")
        }
    }
}
