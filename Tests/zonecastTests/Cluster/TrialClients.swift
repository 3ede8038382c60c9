import Foundation
import Synchronization

/// What the writers of a trial have sent, what was confirmed, and what devices on each node have seen.
final class TrialLedger: Sendable {
    struct Entry {
        var sent = 0
        var confirmed = 0
    }

    /// A confirmed value that a device has not seen yet.
    private struct Unseen {
        var name: String
        var value: Int
        var since: ContinuousClock.Instant
    }

    private struct State {
        var entries: [String: Entry] = [:]
        var confirmations = 0
        /// By listener.
        var unseen: [String: [Unseen]] = [:]
        /// Since when a listener's requests have succeeded; `nil` while they fail.
        var healthySince: [String: ContinuousClock.Instant] = [:]
        var objections: [String] = []
        var slowest = Duration.zero
        var seen = 0
    }

    /// How long a change may stay unannounced, with two seconds for the request that fetches it on a busy machine.
    private static let mostTime = Duration.seconds(17)

    private let state = Mutex(State())

    var entries: [String: Entry] { state.withLock { $0.entries } }
    var confirmations: Int { state.withLock { $0.confirmations } }
    /// What contradicts an invariant.
    var objections: [String] { state.withLock { $0.objections } }
    /// The longest time from a confirmation until a device of a working node had the value.
    var slowest: Duration { state.withLock { $0.slowest } }
    var seen: Int { state.withLock { $0.seen } }

    func object(_ words: String) { state.withLock { if $0.objections.count < 20 { $0.objections.append(words) } } }

    func willSend(_ value: Int, to name: String) { state.withLock { $0.entries[name, default: Entry()].sent = value } }

    func confirmed(_ value: Int, of name: String) {
        state.withLock { state in
            state.entries[name]?.confirmed = value
            state.confirmations += 1
            for listener in state.unseen.keys {
                state.unseen[listener]?.append(Unseen(name: name, value: value, since: .now))
            }
        }
    }

    func add(listener: String) { state.withLock { $0.unseen[listener] = [] } }

    /// A listener's requests succeed or fail.
    func listener(_ name: String, isHealthy: Bool) {
        state.withLock { state in
            state.healthySince[name] = isHealthy ? state.healthySince[name] ?? .now : nil
        }
    }

    /// A listener has read the feed.
    func saw(_ values: [String: Int], by listener: String) {
        state.withLock { state in
            let now = ContinuousClock.now
            let healthySince = state.healthySince[listener] ?? now
            var rest: [Unseen] = []
            for each in state.unseen[listener] ?? [] {
                guard values[each.name] ?? 0 >= each.value else {
                    rest.append(each)
                    continue
                }
                state.seen += 1
                state.slowest = max(state.slowest, now - max(each.since, healthySince))
            }
            state.unseen[listener] = rest
        }
    }

    /// Objects to changes that a device of a working node should have been told of.
    func checkNotices() {
        state.withLock { state in
            for (listener, unseen) in state.unseen {
                guard let oldest = unseen.first, let healthySince = state.healthySince[listener] else { continue }
                let age = ContinuousClock.now - max(oldest.since, healthySince)
                guard age > Self.mostTime else { continue }
                state.objections.append(
                    "e: \(listener) has not been told of \(oldest.name) = \(oldest.value) for \(age)"
                )
                state.unseen[listener] = []
            }
        }
    }
}

/// Requests of one user in the trial's zone.
struct TrialClient {
    static let zone = "Trial"
    static let container = "iCloud.org.example.trials"

    static func path(_ operation: String, device: Bool = false) -> String {
        device
            ? "/device/1/\(container)/development/\(operation)?ckWebAuthToken=dev-alice"
            : "/database/1/\(container)/development/private/\(operation)?ckWebAuthToken=dev-alice"
    }

    /// The header with the device of a listener: the device that writes gets no notice.
    static func device(_ name: String) -> [String: String] { ["X-Zonecast-Device-ID": name] }

    /// Waits until the port answers with success.
    static func send(_ operation: String, body: String, port: Int) throws -> HTTPConnection.Answer {
        for _ in 0..<300 {
            if let answer = try? HTTPConnection(port: port).send("POST", path(operation), body: body),
                answer.status == 200
            {
                return answer
            }
            usleep(200_000)
        }
        throw HTTPConnection.ConnectionLost()
    }

    static func prepare(port: Int) throws {
        _ = try send(
            "zones/modify",
            body: #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(zone)"}}}]}"#,
            port: port
        )
        let subscription = #"{"subscriptionID":"s","subscriptionType":"zone","zoneID":{"zoneName":"\#(zone)"}}"#
        _ = try send(
            "subscriptions/modify",
            body: #"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#,
            port: port
        )
    }
}

/// Writes through the balancer, and repeats each request with its identifier until it has an answer.
final class TrialWriter: Sendable {
    private let number: Int
    private let port: Int
    private let ledger: TrialLedger
    private let isStopped = Atomic(false)
    private let life = DispatchGroup()

    init(_ number: Int, port: Int, ledger: TrialLedger) {
        self.number = number
        self.port = port
        self.ledger = ledger
        life.enter()
        Thread {
            self.run()
            self.life.leave()
        }.start()
    }

    func stop() {
        isStopped.store(true, ordering: .relaxed)
        life.wait()
    }

    private func run() {
        var value = 0
        while !isStopped.load(ordering: .relaxed) {
            value += 1
            // Every fourth write creates a record, which a second execution of the same write could not.
            let name = value % 4 == 0 ? "w\(number)-new\(value)" : "w\(number)-\(value % 10)"
            ledger.willSend(value, to: name)
            if write(value, to: name, isNew: value % 4 == 0) { ledger.confirmed(value, of: name) }
        }
    }

    /// Returns whether the write was confirmed; `false` only at the end.
    private func write(_ value: Int, to name: String, isNew: Bool) -> Bool {
        struct Result: Decodable {
            struct Record: Decodable {
                var recordChangeTag: String?
                var serverErrorCode: String?
            }
            var records: [Record]?
        }
        let record = #"{"recordName":"\#(name)","recordType":"Note","fields":{"value":{"value":\#(value)}}}"#
        let operation = #"{"operationType":"\#(isNew ? "create" : "forceUpdate")","record":\#(record)}"#
        let body =
            #"{"zoneID":{"zoneName":"\#(TrialClient.zone)"},"operationID":"\#(UUID().uuidString)","operations":[\#(operation)]}"#
        var connection: HTTPConnection?
        while true {
            do {
                let open = try connection ?? HTTPConnection(port: port)
                connection = open
                let answer = try open.send("POST", TrialClient.path("records/modify"), body: body)
                let result = try? answer.json(Result.self).records?.first
                if answer.status == 200, result?.recordChangeTag != nil { return true }
                let code = result?.serverErrorCode
                if answer.status == 200, let code, code != "TRY_AGAIN_LATER" {
                    // A first attempt without an answer must not be in the way of the repetition.
                    ledger.object("i: \(name) = \(value) was refused with \(code)")
                    return false
                }
                if answer.status < 500, answer.status != 200 {
                    ledger.object("i: \(name) = \(value) was refused: \(String(decoding: answer.body, as: UTF8.self))")
                    return false
                }
            } catch {
                connection = nil
            }
            if isStopped.load(ordering: .relaxed) { return false }
            usleep(50_000)
        }
    }
}

/// A device that is connected to one node and fetches when it gets a notice, and after connecting.
final class TrialListener: Sendable {
    let name: String
    /// Returns the node's port; `nil` while it is down.
    private let port: @Sendable () -> Int?
    private let ledger: TrialLedger
    private let isStopped = Atomic(false)
    private let life = DispatchGroup()

    init(_ name: String, ledger: TrialLedger, port: @escaping @Sendable () -> Int?) {
        self.name = name
        self.port = port
        self.ledger = ledger
        ledger.add(listener: name)
        life.enter()
        Thread {
            self.run()
            self.life.leave()
        }.start()
    }

    func stop() {
        isStopped.store(true, ordering: .relaxed)
        life.wait()
    }

    private func run() {
        var follower = TrialFollower()
        while !isStopped.load(ordering: .relaxed) {
            do {
                guard let port = port() else { throw HTTPConnection.ConnectionLost() }
                try listen(port, &follower)
            } catch {
                ledger.listener(name, isHealthy: false)
                usleep(200_000)
            }
        }
    }

    private func listen(_ port: Int, _ follower: inout TrialFollower) throws {
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
        while !isStopped.load(ordering: .relaxed) {
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
            var records: [Record]?
            var syncToken: String?
            var moreComing: Bool?
            var serverErrorCode: String?
        }
        struct Record: Decodable {
            struct Field: Decodable { var value: Int }
            var recordName: String
            var deleted: Bool?
            var fields: [String: Field]?
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
                guard let value = record.fields?["value"]?.value else { continue }
                if let before = values[record.recordName], before > value { wentBack.append(record.recordName) }
                values[record.recordName] = value
            }
            token = next
            isMore = page.moreComing ?? false
        }
    }
}
