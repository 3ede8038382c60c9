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

/// Kill -9 during an atomic operation: a move of many records, or an upload.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct KilledMidwayTests {
    let folder = ScratchFolder()

    private struct Moved: Decodable {
        struct Record: Decodable { var recordName: String }
        var records: [Record]?
    }

    /// Returns the names of a zone's records, empty if the zone does not exist.
    private func names(in zone: String, on relay: RelayProcess) throws -> Set<String> {
        var follower = Follower(zone: zone)
        try follower.catchUp(on: relay, pageSize: 200)
        return Set(follower.values.keys)
    }

    @Test func aKillDuringAMoveLeavesAllRecordsMovedOrNone() throws {
        let count = 180
        let names = Set((0..<count).map { "r\($0)" })
        var relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["A", "B"], on: relay)
        let operations = names.sorted().map {
            #"{"operationType":"forceUpdate","record":{"recordName":"\#($0)","recordType":"Note","#
                + #""fields":{"value":{"value":1}}}}"#
        }
        let body = #"{"zoneID":{"zoneName":"A"},"operations":[\#(operations.joined(separator: ","))]}"#
        #expect(try relay.connect().send("POST", Path.to("records/modify"), body: body).status == 200)
        var followers = [Follower(zone: "A"), Follower(zone: "B")]
        var (here, outcomes) = ("A", Set<Bool>())
        // Microseconds between sending and killing. The delay shrinks after a move that happened and grows after one
        // that did not, so that the kills converge on the moment of the commit on any machine. The first two rounds
        // ensure that one kill comes before the commit and one after it.
        var delay = 4_000.0
        for round in 0..<10 {
            let killPoint: KillTime = round == 0 ? .beforeReading : round == 1 ? .answered : .after(UInt32(delay))
            for index in followers.indices { try followers[index].catchUp(on: relay, pageSize: 50) }
            let there = here == "A" ? "B" : "A"
            let isAnswered = try move(from: here, to: there, on: relay, killed: killPoint)
            relay = try RelayProcess(folder: folder.path)
            let (left, arrived) = (try self.names(in: here, on: relay), try self.names(in: there, on: relay))
            #expect(
                left.isDisjoint(with: arrived) && left.union(arrived) == names,
                "round \(round): records are lost or duplicated"
            )
            #expect(left.isEmpty || arrived.isEmpty, "round \(round): \(left.count) stayed and \(arrived.count) moved")
            #expect(!isAnswered || left.isEmpty, "round \(round): an acknowledged move is lost")
            #expect(isAnswered || round != 1, "round \(round): the relay did not answer")
            #expect(!left.isEmpty || round != 0, "round \(round): a suspended relay has moved records")
            outcomes.insert(left.isEmpty)
            if round > 1 { delay = min(max(delay * (left.isEmpty ? 0.6 : 1.8), 200), 2_000_000) }
            if left.isEmpty { here = there }
            for index in followers.indices {
                try followers[index].catchUp(on: relay, pageSize: 50)
                let full = try self.names(in: followers[index].zone, on: relay)
                #expect(Set(followers[index].values.keys) == full, "round \(round): the feed has a gap")
            }
        }
        #expect(outcomes == [true, false], "all kills came before the commit, or all after it")
    }

    /// When to kill the relay after it was sent a move.
    private enum KillTime {
        /// Before the relay has read any of the request.
        case beforeReading
        /// This many microseconds after the request was sent.
        case after(UInt32)
        case answered
    }

    /// Sends a move and kills the relay at some moment; returns whether the move was acknowledged.
    private func move(from source: String, to target: String, on relay: RelayProcess, killed killPoint: KillTime) throws
        -> Bool
    {
        let connection = try relay.connect()
        let body =
            #"{"zoneID":{"zoneName":"\#(source)"},"destinationZoneID":{"zoneName":"\#(target)"},"allRecords":true}"#
        if case .beforeReading = killPoint { try relay.suspend() }
        try connection.begin("POST", Path.to("records/move"), body: body)
        switch killPoint {
        case .beforeReading: break
        case .after(let delay): usleep(delay)
        case .answered:
            let answer = try connection.finish()
            relay.killHard()
            return answer.status == 200
        }
        relay.killHard()
        return (try? connection.finish())?.status == 200
    }

    @Test func aKillDuringAnUploadStoresNoPartialAsset() throws {
        struct Tokens: Decodable {
            struct Token: Decodable { var url: String }
            var tokens: [Token]
        }
        let content = String(repeating: "0123456789abcdef", count: 256 * 1024)
        let assets = folder.path + "/containers/\(Path.container)/development.assets"
        for round in 0..<3 {
            let relay = try RelayProcess(folder: folder.path)
            let connection = try relay.connect()
            let tokenRequest = #"{"tokens":[{"recordType":"Note","recordName":"a","fieldName":"file"}]}"#
            let tokens = try connection.send("POST", Path.to("assets/upload"), body: tokenRequest).json(Tokens.self)
            let url = try #require(tokens.tokens.first.flatMap { URLComponents(string: $0.url) })
            let target = url.percentEncodedPath + (url.percentEncodedQuery.map { "?\($0)" } ?? "")
            // The body lacks its last byte, or more.
            try connection.begin("POST", target, body: content, withholding: 1 + round * 1_000_000)
            #expect(hasPartialUpload(in: assets + "/incoming"), "waited 120 s for the upload to reach the disk")
            relay.killHard()
        }
        let names = try #require(FileManager.default.enumerator(atPath: assets)).compactMap { $0 as? String }
        #expect(!names.contains { $0.count > 40 }, "a partial upload is stored under a hash: \(names)")
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        let tokenRequest = #"{"tokens":[{"recordType":"Note","recordName":"a","fieldName":"file"}]}"#
        let tokens = try connection.send("POST", Path.to("assets/upload"), body: tokenRequest).json(Tokens.self)
        let url = try #require(tokens.tokens.first.flatMap { URLComponents(string: $0.url) })
        let target = url.percentEncodedPath + (url.percentEncodedQuery.map { "?\($0)" } ?? "")
        #expect(try connection.send("POST", target, body: content).status == 200, "a later upload succeeds")
    }

    /// Waits 120 s at most for a part of an upload to be in the folder.
    private func hasPartialUpload(in folder: String) -> Bool {
        let deadline = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < deadline {
            let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            let sizes = files.compactMap {
                try? FileManager.default.attributesOfItem(atPath: "\(folder)/\($0)")[.size] as? Int
            }
            if sizes.contains(where: { $0 > 1_000_000 }) { return true }
            usleep(2_000)
        }
        return false
    }
}
