import Foundation
import GRDB
import Synchronization
import Testing

/// Kill -9 while several clients write: whatever was acknowledged is there afterwards, and no feed has a gap.
///
/// Reliability reference 2 a, b, c and i, and 5. A killed process proves nothing about power loss; for that the stores'
/// `synchronous` is read back, below and in the stores' own tests.
@Suite(.serialized) struct CrashTests {
    let folder = ScratchFolder()

    private static let zones = ["Notes", "Lists"]
    private static let rounds = 3
    private static let writers = 6

    @Test(.timeLimit(.minutes(3))) func acknowledgedWritesSurviveAndFeedsHaveNoGap() throws {
        let ledger = Ledger()
        var followers = Self.zones.map { Follower(zone: $0) }
        var relay = try RelayProcess(folder: folder.path)
        try Self.makeZones(on: relay)
        for round in 1...Self.rounds {
            try writeUntilKilled(relay, ledger, acknowledgements: 250 * round)
            relay = try RelayProcess(folder: folder.path)
            for index in followers.indices {
                // Its token is from before the kill.
                try followers[index].catchUp(on: relay, pageSize: [200, 7, 50][round % 3])
                try check(followers[index], on: relay, ledger, round)
            }
        }
        #expect(relay.stop().status == 0)
        try checkFiles()
    }

    /// Runs the writers and kills the relay when so many writes are acknowledged, 60 s at most.
    private func writeUntilKilled(_ relay: RelayProcess, _ ledger: Ledger, acknowledgements: Int) throws {
        let finished = DispatchGroup()
        for number in 0..<Self.writers {
            let writer = Writer(number: number, zone: Self.zones[number % Self.zones.count], ledger: ledger)
            let port = relay.port
            finished.enter()
            Thread {
                writer.run(port: port)
                finished.leave()
            }.start()
        }
        let reached = ledger.waitForAcknowledgements(acknowledgements, until: Date(timeIntervalSinceNow: 60))
        relay.killHard()
        #expect(finished.wait(timeout: .now() + 60) == .success, "the writers did not notice the kill")
        try #require(reached, "waited 60 s for \(acknowledgements) acknowledged writes")
    }

    private func check(_ follower: Follower, on relay: RelayProcess, _ ledger: Ledger, _ round: Int) throws {
        var full = Follower(zone: follower.zone)
        try full.catchUp(on: relay, pageSize: 50)
        #expect(full.repeated.isEmpty, "a full fetch names a record twice: \(full.repeated)")
        #expect(
            full.values == follower.values,
            "round \(round): state and feed of \(follower.zone) differ from a full fetch"
        )
        #expect(follower.wentBack.isEmpty, "the feed went back: \(follower.wentBack)")
        let written = ledger.entries.filter { $0.value.zone == follower.zone }
        for (name, entry) in written {
            let found = full.values[name]
            if let acknowledged = entry.acknowledged {
                #expect(
                    (found ?? -1) >= acknowledged,
                    "round \(round): \(name) lost \(acknowledged), has \(found ?? -1)"
                )
            }
            if let found { #expect(found <= entry.sent, "\(name) holds \(found), which nobody wrote") }
        }
        #expect(Set(full.values.keys).isSubset(of: written.keys), "records that nobody wrote")
        #expect(!written.isEmpty)
    }

    private func checkFiles() throws {
        let root = folder.path + "/containers/iCloud.org.example.crash/development.sqlite"
        for path in [folder.path + "/relay.sqlite", root] {
            let queue = try DatabaseQueue(path: path)
            #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok", "\(path)")
            #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal", "\(path)")
        }
    }

    private static func makeZones(on relay: RelayProcess) throws {
        let operations = zones.map { #"{"operationType":"create","zone":{"zoneID":{"zoneName":"\#($0)"}}}"# }
        let body = #"{"operations":[\#(operations.joined(separator: ","))]}"#
        let answer = try relay.connect().send("POST", Path.to("zones/modify"), body: body)
        try #require(answer.status == 200)
    }
}

private enum Path {
    static func to(_ operation: String) -> String {
        "/database/1/iCloud.org.example.crash/development/private/\(operation)?ckWebAuthToken=dev-alice"
    }
}

/// What was sent and what was acknowledged, by record name.
///
/// Values of one record only ever grow.
private final class Ledger: Sendable {
    struct Entry {
        var zone: String
        var sent: Int
        var acknowledged: Int?
    }

    private let state = Mutex((entries: [String: Entry](), acknowledgements: 0))
    private let changed = NSCondition()

    var entries: [String: Entry] { state.withLock { $0.entries } }

    func willSend(_ value: Int, to name: String, in zone: String) {
        state.withLock { $0.entries[name, default: Entry(zone: zone, sent: value)].sent = value }
    }

    func acknowledged(_ value: Int, of name: String) {
        state.withLock {
            $0.entries[name]?.acknowledged = value
            $0.acknowledgements += 1
        }
        changed.lock()
        changed.broadcast()
        changed.unlock()
    }

    /// Waits for that many more than there were.
    func waitForAcknowledgements(_ count: Int, until end: Date) -> Bool {
        changed.lock()
        defer { changed.unlock() }
        let goal = state.withLock { $0.acknowledgements } + count
        while state.withLock({ $0.acknowledgements }) < goal {
            guard changed.wait(until: end) else { return false }
        }
        return true
    }
}

/// Writes on its own connection until the relay is gone: new records, and new values for those it made.
private struct Writer: Sendable {
    let number: Int
    let zone: String
    let ledger: Ledger

    func run(port: Int) {
        guard let connection = try? HTTPConnection(port: port) else { return }
        // Where an earlier round ended; a value that may or may not have arrived is never used again.
        var value = (ledger.entries.filter { $0.key.hasPrefix("w\(number)-") }.map(\.value.sent).max() ?? 0) + 1
        while (try? write(value, on: connection)) != nil { value += 1 }
    }

    private func write(_ value: Int, on connection: HTTPConnection) throws {
        // Three of four writes change one of ten records, the fourth makes a new one.
        let name = value % 4 == 0 ? "w\(number)-new\(value)" : "w\(number)-\(value % 10)"
        ledger.willSend(value, to: name, in: zone)
        let record = #"{"recordName":"\#(name)","recordType":"Note","fields":{"value":{"value":\#(value)}}}"#
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[{"operationType":"forceUpdate","record":\#(record)}]}"#
        let answer = try connection.send("POST", Path.to("records/modify"), body: body)
        struct Result: Decodable {
            struct Record: Decodable { var recordChangeTag: String? }
            var records: [Record]
        }
        guard answer.status == 200, try answer.json(Result.self).records.first?.recordChangeTag != nil else {
            throw HTTPConnection.Lost()
        }
        ledger.acknowledged(value, of: name)
    }
}

/// Follows one zone's feed by token, in pages.
private struct Follower {
    let zone: String
    private(set) var values: [String: Int] = [:]
    /// Names that one run from the beginning gave twice.
    private(set) var repeated: [String] = []
    /// Names that came with an older value than before.
    private(set) var wentBack: [String] = []
    private var token: String?

    init(zone: String) { self.zone = zone }

    private struct Answer: Decodable {
        struct Zone: Decodable {
            var records: [Record]?
            var syncToken: String?
            var moreComing: Bool?
        }
        struct Record: Decodable {
            struct Field: Decodable { var value: Int }
            var recordName: String
            var fields: [String: Field]
        }
        var zones: [Zone]
    }

    mutating func catchUp(on relay: RelayProcess, pageSize: Int) throws {
        let connection = try relay.connect()
        let isFirst = token == nil
        var isMore = true
        while isMore {
            let since = token.map { #","syncToken":"\#($0)""# } ?? ""
            let body = #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"},"resultsLimit":\#(pageSize)\#(since)}]}"#
            let answer = try connection.send("POST", Path.to("changes/zone"), body: body)
            let page = try #require(try answer.json(Answer.self).zones.first)
            let records = try #require(page.records, "the token of before the kill was refused")
            for record in records {
                let value = try #require(record.fields["value"]).value
                if isFirst, values[record.recordName] != nil { repeated.append(record.recordName) }
                if let before = values[record.recordName], before > value { wentBack.append(record.recordName) }
                values[record.recordName] = value
            }
            let next: String = try #require(page.syncToken)
            token = next
            isMore = page.moreComing ?? false
        }
    }
}
