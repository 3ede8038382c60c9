import Foundation
import Synchronization

/// A thread that works until it is stopped.
final class TrialThread: Sendable {
    private let isEnding = Atomic(false)
    private let life = DispatchGroup()

    init(_ body: @escaping @Sendable (TrialThread) -> Void) {
        life.enter()
        Thread {
            body(self)
            self.life.leave()
        }.start()
    }

    var isStopped: Bool { isEnding.load(ordering: .relaxed) }

    /// Waits until the thread has ended.
    func stop() {
        isEnding.store(true, ordering: .relaxed)
        life.wait()
    }
}

/// Requests of the trial's users.
struct TrialClient {
    static let zone = "Trial"
    static let container = "iCloud.org.example.trials"

    static func path(
        _ operation: String,
        in database: String = "private",
        of user: String = "alice",
        device: Bool = false
    ) -> String {
        device
            ? "/device/1/\(container)/development/\(operation)?ckWebAuthToken=dev-\(user)"
            : "/database/1/\(container)/development/\(database)/\(operation)?ckWebAuthToken=dev-\(user)"
    }

    /// The header with the device of a listener: the device that writes gets no notice.
    static func device(_ name: String) -> [String: String] { ["X-Zonecast-Device-ID": name] }

    /// Repeats a request until it succeeds.
    static func send(
        _ operation: String,
        in database: String = "private",
        of user: String = "alice",
        body: String,
        port: Int
    ) throws -> HTTPConnection.Answer {
        for _ in 0..<300 {
            let target = path(operation, in: database, of: user)
            let answer = try? HTTPConnection(port: port).send("POST", target, body: body)
            if let answer, answer.status == 200 { return answer }
            usleep(200_000)
        }
        throw HTTPConnection.ConnectionLost()
    }

    static func makeZone(_ name: String, port: Int) throws {
        let zone = #"{"zoneID":{"zoneName":"\#(name)"}}"#
        _ = try send(
            "zones/modify",
            body: #"{"operations":[{"operationType":"create","zone":\#(zone)}]}"#,
            port: port
        )
    }

    static func prepare(port: Int) throws {
        try makeZone(zone, port: port)
        let subscription = #"{"subscriptionID":"s","subscriptionType":"zone","zoneID":{"zoneName":"\#(zone)"}}"#
        _ = try send(
            "subscriptions/modify",
            body: #"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#,
            port: port
        )
    }

    /// Returns a record with a value, and the tag that it must still have, for an operation.
    static func record(_ name: String, _ value: Int? = nil, tag: String? = nil) -> String {
        var parts = [#""recordName":"\#(name)""#, #""recordType":"Note""#]
        if let value { parts.append(#""fields":{"value":{"value":\#(value)}}"#) }
        if let tag { parts.append(#""recordChangeTag":"\#(tag)""#) }
        return "{\(parts.joined(separator: ","))}"
    }
}

/// A record as the relay answers.
struct TrialRecord: Decodable {
    struct Field: Decodable { var value: Int }
    struct Answer: Decodable { var records: [TrialRecord]? }

    var recordName: String?
    var recordChangeTag: String?
    var deleted: Bool?
    var fields: [String: Field]?
    var serverErrorCode: String?
    var shortGUID: String?

    var value: Int? { fields?["value"]?.value }
}

/// A connection through the balancer, opened anew when it breaks.
struct TrialConnection {
    let port: Int
    private var connection: HTTPConnection?

    init(port: Int) { self.port = port }

    /// Sends once; `nil` if there was no answer, or none that decides the request.
    mutating func ask(_ operation: String, body: String) -> TrialRecord.Answer? {
        do {
            let open = try connection ?? HTTPConnection(port: port)
            connection = open
            let answer = try open.send("POST", TrialClient.path(operation), body: body)
            guard answer.status != 429, answer.status < 500 else { return nil }
            let decoded = try answer.json(TrialRecord.Answer.self)
            guard decoded.records?.contains(where: { $0.serverErrorCode == "TRY_AGAIN_LATER" }) != true else {
                return nil
            }
            return decoded
        } catch {
            connection = nil
            return nil
        }
    }

    /// Repeats a write with one identifier until the relay has decided it.
    ///
    /// - Returns: the records of the answer; `nil` if the thread is stopped before that.
    mutating func modify(
        _ operations: [String],
        until thread: TrialThread,
        whenRefused: () -> Void = {}
    ) -> [TrialRecord]? {
        let body =
            #"{"zoneID":{"zoneName":"\#(TrialClient.zone)"},"operationID":"\#(UUID().uuidString)","atomic":true,"#
            + #""operations":[\#(operations.joined(separator: ","))]}"#
        while true {
            if let answer = ask("records/modify", body: body) { return answer.records ?? [] }
            whenRefused()
            if thread.isStopped { return nil }
            usleep(50_000)
        }
    }

    /// Returns records of one committed state; `nil` if there was no answer.
    mutating func look(_ names: [String]) -> [TrialRecord]? {
        let records = names.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ",")
        return ask(
            "records/lookup",
            body: #"{"zoneID":{"zoneName":"\#(TrialClient.zone)"},"records":[\#(records)]}"#
        )?.records
    }
}

/// Writes through the balancer.
final class TrialWriter: Sendable {
    private let number: Int
    private let port: Int
    private let ledger: TrialLedger

    init(_ number: Int, port: Int, ledger: TrialLedger) {
        (self.number, self.port, self.ledger) = (number, port, ledger)
    }

    func start() -> TrialThread { TrialThread { self.run($0) } }

    private func run(_ thread: TrialThread) {
        var connection = TrialConnection(port: port)
        var value = 0
        while !thread.isStopped {
            value += 1
            // Of four writes, one creates a record, which a second execution of the same write could not, and one deletes
            // the record of half of them.
            switch value % 8 {
            case 4, 0: write(value, to: "w\(number)-new\(value)", "create", thread, &connection)
            case 5: delete("w\(number)-new\(value - 1)", thread, &connection)
            default: write(value, to: "w\(number)-\(value % 10)", "forceUpdate", thread, &connection)
            }
        }
    }

    private func write(
        _ value: Int,
        to name: String,
        _ kind: String,
        _ thread: TrialThread,
        _ connection: inout TrialConnection
    ) {
        ledger.willSend(value, to: name)
        let operation = #"{"operationType":"\#(kind)","record":\#(TrialClient.record(name, value))}"#
        if isConfirmed(operation, of: name, thread, &connection) { ledger.confirmed(value, of: name) }
    }

    private func delete(_ name: String, _ thread: TrialThread, _ connection: inout TrialConnection) {
        ledger.willDelete(name)
        let operation = #"{"operationType":"forceDelete","record":{"recordName":"\#(name)"}}"#
        if isConfirmed(operation, of: name, thread, &connection) { ledger.confirmedDeletion(of: name) }
    }

    private func isConfirmed(
        _ operation: String,
        of name: String,
        _ thread: TrialThread,
        _ connection: inout TrialConnection
    ) -> Bool {
        guard let answer = connection.modify([operation], until: thread, whenRefused: { ledger.noteRefusal() }) else {
            return false
        }
        if answer.count == 1, answer[0].serverErrorCode == nil { return true }
        // A first attempt without an answer must not be in the way of the repetition.
        ledger.object("i: a write of \(name) was refused with \(answer.first?.serverErrorCode ?? "no record")")
        return false
    }
}

/// A device that is connected to one node and fetches when it gets a notice, and after connecting.
final class TrialListener: Sendable {
    let name: String
    /// Returns the node's port; `nil` while it is down.
    private let port: @Sendable () -> Int?
    private let ledger: TrialLedger

    init(_ name: String, ledger: TrialLedger, port: @escaping @Sendable () -> Int?) {
        self.name = name
        self.port = port
        self.ledger = ledger
    }

    func start() -> TrialThread {
        ledger.add(listener: name)
        return TrialThread { self.run($0) }
    }

    private func run(_ thread: TrialThread) {
        var follower = TrialFollower()
        while !thread.isStopped {
            do {
                guard let port = port() else { throw HTTPConnection.ConnectionLost() }
                try listen(port, &follower, thread)
            } catch {
                ledger.listener(name, isHealthy: false)
                usleep(200_000)
            }
        }
    }

    private func listen(_ port: Int, _ follower: inout TrialFollower, _ thread: TrialThread) throws {
        struct Token: Decodable { var webcourierURL: String }
        let poll = try HTTPConnection(port: port)
        let made = try poll.send(
            "POST",
            TrialClient.path("tokens/create", device: true),
            headers: TrialClient.device(name),
            body: "{}"
        )
        guard made.status == 200, let url = URLComponents(string: try made.json(Token.self).webcourierURL) else {
            throw HTTPConnection.ConnectionLost()
        }
        let target = url.percentEncodedPath + "?" + (url.percentEncodedQuery ?? "")
        let connection = try HTTPConnection(port: port)
        // The first poll begins before the fetch, so that no change is missed in between.
        try poll.begin("GET", target)
        try fetch(on: connection, &follower)
        ledger.listener(name, isHealthy: true)
        while !thread.isStopped {
            guard poll.hasInput(within: 250) else { continue }
            let notice = try poll.finish()
            guard notice.status == 200 else { throw HTTPConnection.ConnectionLost() }
            try poll.begin("GET", target)
            if !notice.body.isEmpty { try fetch(on: connection, &follower) }
        }
    }

    private func fetch(on connection: HTTPConnection, _ follower: inout TrialFollower) throws {
        try follower.catchUp(on: connection, pageSize: 100)
        if !follower.wentBack.isEmpty { ledger.object("c: the feed of \(name) went back: \(follower.wentBack)") }
        ledger.saw(follower.values, by: name)
    }
}

/// Follows the trial's zone by token, and begins anew if its token is refused.
struct TrialFollower {
    private(set) var values: [String: Int] = [:]
    /// Names that came with an older value than before.
    private(set) var wentBack: [String] = []
    /// How often the token was refused.
    private(set) var refusals = 0
    private var token: String?

    private struct Answer: Decodable {
        struct Zone: Decodable {
            var records: [TrialRecord]?
            var syncToken: String?
            var moreComing: Bool?
            var serverErrorCode: String?
        }
        var zones: [Zone]?
    }

    mutating func catchUp(on connection: HTTPConnection, pageSize: Int) throws {
        var isMore = true
        while isMore {
            let since = token.map { #","syncToken":"\#($0)""# } ?? ""
            let body =
                #"{"zones":[{"zoneID":{"zoneName":"\#(TrialClient.zone)"},"resultsLimit":\#(pageSize)\#(since)}]}"#
            let answer = try connection.send("POST", TrialClient.path("changes/zone"), body: body)
            guard answer.status == 200, let page = try answer.json(Answer.self).zones?.first else {
                throw HTTPConnection.ConnectionLost()
            }
            guard let records = page.records, let next = page.syncToken else {
                guard page.serverErrorCode != "TRY_AGAIN_LATER", token != nil else {
                    throw HTTPConnection.ConnectionLost()
                }
                // A token of an epoch that has ended.
                (token, values) = (nil, [:])
                refusals += 1
                continue
            }
            for record in records {
                guard let name = record.recordName else { continue }
                guard record.deleted != true else {
                    values[name] = nil
                    continue
                }
                guard let value = record.value else { continue }
                if let before = values[name], before > value { wentBack.append(name) }
                values[name] = value
            }
            token = next
            isMore = page.moreComing ?? false
        }
    }
}
