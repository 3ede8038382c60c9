import Foundation
import Synchronization
import Testing

/// Paths of alice's private database.
enum Path {
    static let container = "iCloud.org.example.crash"

    static func to(_ operation: String) -> String {
        "/database/1/\(container)/development/private/\(operation)?ckWebAuthToken=dev-alice"
    }

    static func makeZones(_ names: [String], on relay: RelayProcess) throws {
        let operations = names.map { #"{"operationType":"create","zone":{"zoneID":{"zoneName":"\#($0)"}}}"# }
        let body = #"{"operations":[\#(operations.joined(separator: ","))]}"#
        let answer = try relay.connect().send("POST", to("zones/modify"), body: body)
        try #require(answer.status == 200)
    }
}

/// The values sent and acknowledged, by record name.
///
/// The values of a record only grow.
final class Ledger: Sendable {
    struct Entry {
        var zone: String
        var sent: Int
        var acknowledged: Int?
    }

    private let state: Mutex<(entries: [String: Entry], acknowledgements: Int)>
    private let changed = NSCondition()

    init() { state = Mutex((entries: [:], acknowledgements: 0)) }

    /// Starts without acknowledgements, with values that continue those of another relay.
    init(startingAt other: Ledger) {
        let entries = other.entries.mapValues { Entry(zone: $0.zone, sent: $0.sent) }
        state = Mutex((entries: entries, acknowledgements: 0))
    }

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

    /// Waits until `count` further writes are acknowledged.
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

/// Writes new records and new values on its own connection until the relay is gone.
struct Writer: Sendable {
    let number: Int
    let zone: String
    let ledger: Ledger

    /// Starts writers on their own threads; the group is left when all have noticed that the relay is gone.
    static func start(_ count: Int, in zones: [String], on relay: RelayProcess, _ ledger: Ledger) -> DispatchGroup {
        let finished = DispatchGroup()
        for number in 0..<count {
            let writer = Writer(number: number, zone: zones[number % zones.count], ledger: ledger)
            let port = relay.port
            finished.enter()
            Thread {
                writer.run(port: port)
                finished.leave()
            }.start()
        }
        return finished
    }

    func run(port: Int) {
        guard let connection = try? HTTPConnection(port: port) else { return }
        // Continue after an earlier round; a value that may have arrived is never used again.
        var value = (ledger.entries.filter { $0.key.hasPrefix("w\(number)-") }.map(\.value.sent).max() ?? 0) + 1
        while (try? write(value, on: connection)) != nil { value += 1 }
    }

    private func write(_ value: Int, on connection: HTTPConnection) throws {
        // Three of four writes change one of ten records, the fourth creates a new one.
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
            throw HTTPConnection.ConnectionLost()
        }
        ledger.acknowledged(value, of: name)
    }
}

/// Follows one zone's feed by token, in pages.
struct Follower {
    let zone: String
    private(set) var values: [String: Int] = [:]
    /// Names that occurred twice in one fetch from the beginning.
    private(set) var repeated: [String] = []
    /// Names that came with an older value than before.
    private(set) var wentBack: [String] = []
    private var token: String?

    init(zone: String) { self.zone = zone }

    /// Discards everything but the zone, as a device does when its token is refused.
    mutating func startOver() { self = Follower(zone: zone) }

    /// Returns the error with which the relay refuses the token, `nil` if it accepts the token.
    func refusal(on relay: RelayProcess) throws -> String? {
        struct Refused: Decodable {
            struct Zone: Decodable { var ckErrorCode: String? }
            var zones: [Zone]
        }
        let body = #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"},"syncToken":"\#(token ?? "")"}]}"#
        let answer = try relay.connect().send("POST", Path.to("changes/zone"), body: body)
        return try answer.json(Refused.self).zones.first?.ckErrorCode
    }

    private struct Answer: Decodable {
        struct Zone: Decodable {
            var records: [Record]?
            var syncToken: String?
            var moreComing: Bool?
        }
        struct Record: Decodable {
            struct Field: Decodable { var value: Int }
            var recordName: String
            var deleted: Bool?
            var fields: [String: Field]?
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
            let records = try #require(page.records, "a token from before the kill was refused")
            for record in records {
                if record.deleted == true {
                    values[record.recordName] = nil
                    continue
                }
                let value = try #require(record.fields?["value"]).value
                if isFirst, values[record.recordName] != nil { repeated.append(record.recordName) }
                if let before = values[record.recordName], before > value { wentBack.append(record.recordName) }
                values[record.recordName] = value
            }
            let next: String = try #require(page.syncToken)
            token = next
            isMore = page.moreComing ?? false
        }
    }

    /// Compares the followed values with a full fetch, and the full fetch with the ledger.
    func check(on relay: RelayProcess, _ ledger: Ledger, _ when: String) throws {
        var full = Follower(zone: zone)
        try full.catchUp(on: relay, pageSize: 50)
        #expect(full.repeated.isEmpty, "a full fetch names a record twice: \(full.repeated)")
        #expect(full.values == values, "\(when): state and feed of \(zone) differ from a full fetch")
        #expect(wentBack.isEmpty, "the feed went back: \(wentBack)")
        let written = ledger.entries.filter { $0.value.zone == zone }
        for (name, entry) in written {
            let found = full.values[name]
            if let acknowledged = entry.acknowledged {
                #expect((found ?? -1) >= acknowledged, "\(when): \(name) lost \(acknowledged), has \(found ?? -1)")
            }
            if let found { #expect(found <= entry.sent, "\(name) holds \(found), which no writer sent") }
        }
        #expect(Set(full.values.keys).isSubset(of: written.keys), "records that no writer sent")
        #expect(!written.isEmpty)
    }
}
