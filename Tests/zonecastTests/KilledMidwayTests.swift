import Foundation
import TestSupport
import Testing

/// Kill -9 in the middle of one thing that must be whole: a move of many records, an asset on its way in.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct KilledMidwayTests {
    let folder = ScratchFolder()

    private struct Moved: Decodable {
        struct Record: Decodable { var recordName: String }
        var records: [Record]?
    }

    /// Reads a zone from its beginning; nothing where there is no such zone.
    private func names(in zone: String, on relay: RelayProcess) throws -> Set<String> {
        var follower = Follower(zone: zone)
        try follower.catchUp(on: relay, pageSize: 200)
        return Set(follower.values.keys)
    }

    @Test func aMoveHappensWhollyOrNotAtAll() throws {
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
        // Microseconds from sending to killing: shorter after a move that happened, longer after one that did not, so that
        // the kills gather about the moment at which it does, however fast the machine is. That one kill comes before it
        // and one after is not left to that.
        var delay = 4_000.0
        for round in 0..<10 {
            let moment: Moment = round == 0 ? .unread : round == 1 ? .answered : .after(UInt32(delay))
            for index in followers.indices { try followers[index].catchUp(on: relay, pageSize: 50) }
            let there = here == "A" ? "B" : "A"
            let isAnswered = try move(from: here, to: there, on: relay, killed: moment)
            relay = try RelayProcess(folder: folder.path)
            let (left, arrived) = (try self.names(in: here, on: relay), try self.names(in: there, on: relay))
            #expect(
                left.isDisjoint(with: arrived) && left.union(arrived) == names,
                "round \(round): some are lost or twice"
            )
            #expect(left.isEmpty || arrived.isEmpty, "round \(round): \(left.count) stayed and \(arrived.count) went")
            #expect(!isAnswered || left.isEmpty, "round \(round): the move was acknowledged and has not happened")
            #expect(isAnswered || round != 1, "round \(round): the relay did not answer")
            #expect(!left.isEmpty || round != 0, "round \(round): a relay that was halted has moved")
            outcomes.insert(left.isEmpty)
            if round > 1 { delay = min(max(delay * (left.isEmpty ? 0.6 : 1.8), 200), 2_000_000) }
            if left.isEmpty { here = there }
            for index in followers.indices {
                try followers[index].catchUp(on: relay, pageSize: 50)
                let full = try self.names(in: followers[index].zone, on: relay)
                #expect(Set(followers[index].values.keys) == full, "round \(round): the feed has a gap")
            }
        }
        #expect(outcomes == [true, false], "every kill came before the move, or every one after")
    }

    /// When a relay is killed that was sent a move.
    private enum Moment {
        /// Before it has read anything of it.
        case unread
        /// So many microseconds after it was sent.
        case after(UInt32)
        case answered
    }

    /// Sends a move and kills the relay at some moment of it; says whether the move was acknowledged.
    private func move(from source: String, to target: String, on relay: RelayProcess, killed moment: Moment) throws
        -> Bool
    {
        let connection = try relay.connect()
        let body =
            #"{"zoneID":{"zoneName":"\#(source)"},"destinationZoneID":{"zoneName":"\#(target)"},"allRecords":true}"#
        if case .unread = moment { try relay.halt() }
        try connection.begin("POST", Path.to("records/move"), body: body)
        switch moment {
        case .unread: break
        case .after(let delay): usleep(delay)
        case .answered:
            let answer = try connection.finish()
            relay.killHard()
            return answer.status == 200
        }
        relay.killHard()
        return (try? connection.finish())?.status == 200
    }

    @Test func anUploadThatIsCutLeavesNothingUnderAName() throws {
        struct Tokens: Decodable {
            struct Token: Decodable { var url: String }
            var tokens: [Token]
        }
        let content = String(repeating: "0123456789abcdef", count: 256 * 1024)
        let assets = folder.path + "/containers/\(Path.container)/development.assets"
        for round in 0..<3 {
            let relay = try RelayProcess(folder: folder.path)
            let connection = try relay.connect()
            let wish = #"{"tokens":[{"recordType":"Note","recordName":"a","fieldName":"file"}]}"#
            let tokens = try connection.send("POST", Path.to("assets/upload"), body: wish).json(Tokens.self)
            let url = try #require(tokens.tokens.first.flatMap { URLComponents(string: $0.url) })
            let target = url.percentEncodedPath + (url.percentEncodedQuery.map { "?\($0)" } ?? "")
            // All but the last byte.
            try connection.begin("POST", target, body: content, withholding: 1 + round * 1_000_000)
            #expect(arrives(in: assets + "/incoming"), "waited 120 s for the upload to reach the disk")
            relay.killHard()
        }
        let names = try #require(FileManager.default.enumerator(atPath: assets)).compactMap { $0 as? String }
        #expect(!names.contains { $0.count > 40 }, "a part of an upload stands under a hash: \(names)")
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        let wish = #"{"tokens":[{"recordType":"Note","recordName":"a","fieldName":"file"}]}"#
        let tokens = try connection.send("POST", Path.to("assets/upload"), body: wish).json(Tokens.self)
        let url = try #require(tokens.tokens.first.flatMap { URLComponents(string: $0.url) })
        let target = url.percentEncodedPath + (url.percentEncodedQuery.map { "?\($0)" } ?? "")
        #expect(try connection.send("POST", target, body: content).status == 200, "a later upload goes")
    }

    /// Waits until something of an upload is in the folder, 120 s at most.
    private func arrives(in folder: String) -> Bool {
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
