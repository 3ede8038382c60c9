import Foundation
import Synchronization

/// Writes pairs of records, each in one atomic request, and reads both at once.
struct TrialPair {
    let port: Int
    let ledger: TrialLedger

    private static let names = ["pair-a", "pair-b"]

    func startWriting() -> TrialThread {
        TrialThread { thread in
            var connection = TrialConnection(port: port)
            var value = 0
            while !thread.isStopped {
                value += 1
                let operations = Self.names.map {
                    #"{"operationType":"forceUpdate","record":\#(TrialClient.record($0, value))}"#
                }
                guard let answer = connection.modify(operations, until: thread) else { return }
                if answer.contains(where: { $0.serverErrorCode != nil }) { ledger.object("g: a pair was refused") }
            }
        }
    }

    func startReading() -> TrialThread {
        TrialThread { thread in
            var connection = TrialConnection(port: port)
            while !thread.isStopped {
                guard let found = connection.look(Self.names), found.count == 2 else {
                    usleep(50_000)
                    continue
                }
                if found[0].value != found[1].value {
                    ledger.object("g: half of a pair: \(String(describing: found.map(\.value)))")
                }
            }
        }
    }
}

/// A counter that several writers increase, each on the version that it has read.
final class TrialCounter: Sendable {
    private static let name = "counter"

    private let port: Int
    private let ledger: TrialLedger
    private let state = Mutex(State())

    private struct State {
        var won: Set<Int> = []
        /// Increases whose writer was stopped before the answer.
        var undecided = 0
    }

    init(port: Int, ledger: TrialLedger) throws {
        (self.port, self.ledger) = (port, ledger)
        let create = #"{"operationType":"forceUpdate","record":\#(TrialClient.record(Self.name, 0))}"#
        _ = try TrialClient.send(
            "records/modify",
            body: #"{"zoneID":{"zoneName":"\#(TrialClient.zone)"},"operations":[\#(create)]}"#,
            port: port
        )
    }

    func start() -> TrialThread {
        TrialThread { thread in
            var connection = TrialConnection(port: self.port)
            while !thread.isStopped {
                guard let known = connection.look([Self.name])?.first, let value = known.value,
                    let tag = known.recordChangeTag
                else {
                    usleep(50_000)
                    continue
                }
                let record = TrialClient.record(Self.name, value + 1, tag: tag)
                let operation = #"{"operationType":"update","record":\#(record)}"#
                guard let answer = connection.modify([operation], until: thread)?.first else {
                    return self.state.withLock { $0.undecided += 1 }
                }
                switch answer.serverErrorCode {
                case nil:
                    let isFirst = self.state.withLock { $0.won.insert(value + 1).inserted }
                    if !isFirst { self.ledger.object("h: two writes of one version made \(value + 1)") }
                case "CONFLICT", "ATOMIC_ERROR": break
                case let code?: self.ledger.object("h: an increase was refused with \(code)")
                }
            }
        }
    }

    /// Compares the counter with the increases that were confirmed; call when all writers have stopped.
    func check() {
        var connection = TrialConnection(port: port)
        guard let value = connection.look([Self.name])?.first?.value else {
            return ledger.object("a: the counter cannot be read")
        }
        let (won, undecided) = state.withLock { ($0.won, $0.undecided) }
        if value < won.max() ?? 0 { ledger.object("a: the counter lost increases: \(value), won \(won.max() ?? 0)") }
        if !(won.count...won.count + undecided).contains(value) {
            ledger.object("h: the counter is \(value) after \(won.count) increases")
        }
    }
}

/// A zone that alice shares with bob and no longer shares.
struct TrialShare {
    let port: Int
    let ledger: TrialLedger

    private struct Accepted: Decodable {
        struct Result: Decodable {
            struct Zone: Decodable { var ownerRecordName: String }
            var zoneID: Zone?
            var serverErrorCode: String?
        }
        var results: [Result]?
    }

    /// Checks that bob reads the zone on every node while it is shared, and no longer from the next request on, with the
    /// answer for a zone that never existed.
    func check(_ round: Int, nodes: [Int]) throws {
        let zone = "Shared-\(round)"
        try TrialClient.makeZone(zone, port: port)
        let share =
            #"{"operationType":"create","record":{"recordName":"cloudkit.zoneshare","#
            + #""recordType":"cloudkit.share","publicPermission":"READ_ONLY","fields":{}}}"#
        let note = #"{"operationType":"forceUpdate","record":\#(TrialClient.record("note", round))}"#
        let made = try write([note, share], to: zone)
        guard let link = made.compactMap(\.shortGUID).first else {
            return ledger.object("f: no share in \(made.map { $0.serverErrorCode ?? "a record" })")
        }
        let answer = try TrialClient.send(
            "records/accept",
            in: "public",
            of: "bob",
            body: #"{"shortGUIDs":[{"value":"\#(link)"}]}"#,
            port: port
        )
        guard let owner = try answer.json(Accepted.self).results?.first?.zoneID?.ownerRecordName else {
            return ledger.object("f: bob could not join: \(String(decoding: answer.body, as: UTF8.self))")
        }
        for node in nodes where try look(zone, owner, on: node).value != round {
            ledger.object("j: bob does not see the zone on port \(node)")
        }
        _ = try write([#"{"operationType":"forceDelete","record":{"recordName":"cloudkit.zoneshare"}}"#], to: zone)
        for node in nodes {
            let after = try look(zone, owner, on: node)
            if after.value != nil { ledger.object("j: bob still reads on port \(node)") }
            let missing = try look("Never-\(round)", owner, on: node)
            if after.shape != missing.shape {
                ledger.object("f: the answers differ: \(after.shape), for a zone that never was \(missing.shape)")
            }
        }
    }

    private func write(_ operations: [String], to zone: String) throws -> [TrialRecord] {
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)"},"operationID":"\#(UUID().uuidString)","#
            + #""operations":[\#(operations.joined(separator: ","))]}"#
        let answer = try TrialClient.send("records/modify", body: body, port: port)
        return try answer.json(TrialRecord.Answer.self).records ?? []
    }

    /// Returns the value that bob reads, and the answer without what is different in each.
    private func look(_ zone: String, _ owner: String, on port: Int) throws -> (value: Int?, shape: String) {
        let body =
            #"{"zoneID":{"zoneName":"\#(zone)","ownerRecordName":"\#(owner)"},"records":[{"recordName":"note"}]}"#
        let answer = try HTTPConnection(port: port)
            .send("POST", TrialClient.path("records/lookup", in: "shared", of: "bob"), body: body)
        let text = String(decoding: answer.body, as: UTF8.self)
            .replacing(zone, with: "ZONE").replacing(/"uuid":"[^"]*"/, with: "")
        let value = try? answer.json(TrialRecord.Answer.self).records?.first?.value
        return (value ?? nil, "\(answer.status) \(text)")
    }
}
