import Foundation
import Records
import Wire

/// Runs a load on a relay for some seconds, in a temporary zone.
struct BenchRun: Sendable {
    let load: BenchLoad
    let target: BenchClient.Target
    let clients: Int
    let time: Duration

    /// The maximum wait after a throttled request, even if the relay asks for longer.
    private static let longestWait = Duration.seconds(5)

    /// Runs the load; returns the measurements and their duration.
    func run() async throws -> (times: BenchTimes, seconds: Double) {
        let setupClient = try await BenchClient(target, name: "setup")
        defer { setupClient.close() }
        try await prepare(setupClient)
        let outcome: Result<(BenchTimes, Double), any Error>
        do {
            outcome = .success(try await measure(setupClient))
        } catch {
            outcome = .failure(error)
        }
        await deleteTemporaryData(setupClient)
        return try outcome.get()
    }

    // MARK: Before and after

    private func prepare(_ setupClient: BenchClient) async throws {
        if load != .public {
            let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":\#(target.zoneID)}}]}"#
            try await setupClient.post("zones/modify", zone)
        }
        for start in stride(from: 0, to: load.prepared, by: 200) {
            try await setupClient.save((start..<(start + 200)).map { name("prepared", 0, $0) })
        }
        if load == .notices { try await setupClient.post("subscriptions/modify", subscription("create")) }
    }

    /// Deletes the temporary data; prints a warning if the relay refuses.
    private func deleteTemporaryData(_ setupClient: BenchClient) async {
        do {
            if load == .notices { try await setupClient.post("subscriptions/modify", subscription("delete")) }
            guard load == .public else {
                let zone = #"{"operations":[{"operationType":"delete","zone":{"zoneID":\#(target.zoneID)}}]}"#
                _ = try await retryingThrottled { try await setupClient.post("zones/modify", zone) }
                return
            }
            for start in stride(from: 0, to: load.prepared, by: 200) {
                let names = (start..<(start + 200)).map { name("prepared", 0, $0) }
                try await retryingThrottled { try await setupClient.delete(names) }
            }
        } catch {
            let what = load == .public ? "Records of type \(target.type ?? "Bench")" : "The zone \(target.zone)"
            Terminal.sayError("\(what) could not be deleted: \(Self.words(error))")
        }
    }

    /// Retries throttled requests up to five times.
    private func retryingThrottled<Value>(_ body: () async throws -> Value) async throws -> Value {
        for _ in 0..<5 {
            do {
                return try await body()
            } catch let refusal as WireConnection.Refusal where refusal.code == "THROTTLED" {
                try await Task.sleep(for: min(refusal.retryAfter ?? .seconds(1), Self.longestWait))
            }
        }
        return try await body()
    }

    private func subscription(_ type: String) -> String {
        #"{"operations":[{"operationType":"\#(type)","subscription":{"subscriptionID":"\#(target.zone)","#
            + #""subscriptionType":"zone","zoneID":\#(target.zoneID)}}]}"#
    }

    static func words(_ error: any Error) -> String {
        guard let refusal = error as? WireConnection.Refusal else { return "\(error)" }
        return "\(refusal.code) \(refusal.reason)"
    }

    // MARK: The load

    /// The measurement starts when all clients are connected, which may take longer than a short load on a busy
    /// machine.
    private func measure(_ setupClient: BenchClient) async throws -> (BenchTimes, Double) {
        var connected: [BenchClient] = []
        defer { connected.forEach { $0.close() } }
        for number in 0..<clients {
            let client = try await BenchClient(target, name: load == .notices ? "device-\(number)" : "\(number)")
            connected.append(client)
            if load == .notices { try await client.listen() }
        }
        let start = ContinuousClock.now
        let end = start + time
        let measuresNotices = load == .notices
        let times =
            try await measuresNotices
            ? measureNotices(setupClient, connected, until: end) : measureRequests(connected, until: end)
        return (times, (ContinuousClock.now - start).milliseconds / 1000)
    }

    private func measureRequests(_ clients: [BenchClient], until end: ContinuousClock.Instant) async throws
        -> BenchTimes
    {
        try await withThrowingTaskGroup(of: BenchTimes.self) { tasks in
            for (number, client) in clients.enumerated() {
                tasks.addTask { try await repeatRequests(client, number, until: end) }
            }
            return try await tasks.reduce(into: BenchTimes()) { $0.add($1) }
        }
    }

    private func repeatRequests(_ client: BenchClient, _ number: Int, until end: ContinuousClock.Instant) async throws
        -> BenchTimes
    {
        var times = BenchTimes()
        var token: String?
        var count = 0
        // At least once, so that there is a result.
        while case let start = ContinuousClock.now, count == 0 || start < end {
            count += 1
            do {
                let done = try await performRequest(client, number, count, &token)
                times.record(ContinuousClock.now - start, done: done)
            } catch let refusal as WireConnection.Refusal {
                times.recordRefusal(refusal.code)
                // Wait as the relay asks, but not beyond the end of the benchmark.
                let wait = min(refusal.retryAfter ?? .milliseconds(50), Self.longestWait)
                try await Task.sleep(for: min(wait, max(.zero, end - ContinuousClock.now)))
            }
        }
        return times
    }

    /// Sends one request; returns the number of operations done.
    private func performRequest(_ client: BenchClient, _ number: Int, _ count: Int, _ token: inout String?) async throws
        -> Int
    {
        switch load {
        case .writes:
            try await client.save([name("w", number, count)])
            return 1
        case .changes:
            let page = try await client.fetch(since: token)
            token = page.token
            return page.count
        case .public:
            try await client.query()
            return 1
        case .mixed, .notices:
            switch count % 5 {
            case 0: try await client.save([name("w", number, count)])
            case 1, 3: try await client.query()
            default: token = try await client.fetch(since: token).token
            }
            return 1
        }
    }

    /// One device saves and waits until all others have received the notice.
    private func measureNotices(
        _ setupClient: BenchClient,
        _ devices: [BenchClient],
        until end: ContinuousClock.Instant
    ) async throws -> BenchTimes {
        var times = BenchTimes()
        var count = 0
        while case let start = ContinuousClock.now, count == 0 || start < end {
            count += 1
            do {
                try await setupClient.save([name("n", 0, count)])
            } catch let refusal as WireConnection.Refusal {
                times.recordRefusal(refusal.code)
                try await Task.sleep(for: min(refusal.retryAfter ?? .seconds(1), Self.longestWait))
                continue
            }
            let noticeDelays = try await withThrowingTaskGroup(of: Duration.self) { tasks in
                for device in devices {
                    tasks.addTask {
                        try await device.receiveNotice()
                        return ContinuousClock.now - start
                    }
                }
                return try await tasks.reduce(into: []) { $0.append($1) }
            }
            for time in noticeDelays { times.record(time) }
        }
        return times
    }

    private func name(_ kind: String, _ client: Int, _ number: Int) -> String {
        "\(target.mark)-\(kind)-\(client)-\(number)"
    }
}

/// One client of a benchmark, with its own connection; sends one request at a time.
struct BenchClient: Sendable {
    /// The target that all clients of a benchmark share.
    struct Target: Sendable {
        var address: ProbeAddress
        var credentials: DoctorCredentials
        var database: String
        /// The zone that the benchmark creates and deletes; the default zone in the public database.
        var zone: String
        /// The prefix of its record names.
        var mark: String
        /// A record type of the app; `nil` in the benchmark's own container.
        var type: String?

        var zoneID: String { #"{"zoneName":"\#(zone)"}"# }
    }

    let target: Target
    private let name: String
    private let wire: WireConnection
    private var probe: Probe { wire.probe }

    init(_ target: Target, name: String) async throws {
        self.target = target
        self.name = name
        wire = try await WireConnection(target.address, target.credentials, device: "bench-\(name)")
    }

    func close() { wire.close() }

    @discardableResult
    func post(_ operation: String, _ body: String) async throws -> JSONValue {
        try await wire.post(operation, in: target.database, body)
    }

    // MARK: Requests

    /// Saves new records in one request.
    func save(_ names: [String]) async throws {
        let operations = names.map { name in
            let own = #"{"title":{"value":"Buy milk"},"count":{"value":\#(name.utf8.count)}}"#
            return #"{"operationType":"create","record":{"recordName":"\#(name)","recordType":\#(type),"#
                + #""fields":\#(target.type == nil ? own : "{}")}}"#
        }
        try await modify(operations)
    }

    private var type: String { quoted(target.type ?? "Bench") }

    private func modify(_ operations: [String]) async throws {
        let list = operations.joined(separator: ",")
        try await post("records/modify", #"{"zoneID":\#(target.zoneID),"operations":[\#(list)]}"#)
    }

    func delete(_ names: [String]) async throws {
        let operations = names.map { #"{"operationType":"forceDelete","record":{"recordName":"\#($0)"}}"# }
        try await modify(operations)
    }

    /// Fetches one page of the zone's changes.
    ///
    /// Returns the number of records and the next token; the token is `nil` at the end.
    func fetch(since token: String?) async throws -> (count: Int, token: String?) {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let answer = try await post(
            "changes/zone",
            #"{"zones":[{"zoneID":\#(target.zoneID),"resultsLimit":200\#(since)}]}"#
        )
        guard let zone = answer.list("zones").first else { return (0, nil) }
        let hasMore = (try? zone["moreComing"]?.bool()) ?? false
        return (zone.list("records").count, hasMore ? zone.text("syncToken") : nil)
    }

    /// Queries 50 records.
    func query() async throws {
        let own = #"{"fieldName":"title","comparator":"BEGINS_WITH","fieldValue":{"value":"Buy"}}"#
        try await post(
            "records/query",
            #"{"zoneID":\#(target.zoneID),"resultsLimit":50,"query":{"recordType":\#(type),"#
                + #""filterBy":[\#(target.type == nil ? own : "")]}}"#
        )
    }

    // MARK: Notices

    /// Opens a notice socket as a separate device.
    func listen() async throws {
        let path = "/push/1/\(target.credentials.container)/\(target.credentials.environment)"
        let answer = try await probe.upgrade(path)
        guard answer.status == 101 else {
            throw WireConnection.Refusal(
                code: "\(answer.status)",
                reason: "No WebSocket for notices.",
                status: answer.status
            )
        }
        var hello = ["deviceID": "bench-\(name)", "ckWebAuthToken": target.credentials.webToken]
        hello["ckAPIToken"] = target.credentials.apiToken
        probe.send(text: [UInt8](try JSONEncoder().encode(["hello": hello])))
        guard case .text = try await probe.frame("the answer to hello") else { throw ProbeFault.ended("it was ready") }
    }

    /// Waits for the next notice.
    func receiveNotice() async throws {
        guard case .text = try await probe.frame("a notice") else { throw ProbeFault.ended("a notice") }
    }
}
