import Sockets

/// Sequential commits: each starts after the notice of the last.
struct SequentialCommits {
    /// The delays of one commit in milliseconds.
    ///
    /// A notice that arrives before the response counts as no delay.
    struct Delay {
        var sinceRequest: Double
        var sinceAnswer: Double
    }

    private let writer: HTTPConnection
    private let count: Int
    private let pause: UInt32
    private let request: NumberedRequest

    /// Sleeps for `pause` microseconds before each commit.
    init(_ side: NoticeTarget, zone: Int = 0, count: Int, pause: UInt32) throws {
        writer = try HTTPConnection(to: side.requests)
        self.count = count
        self.pause = pause
        request = side.commit(zone)
    }

    /// Waits for one notice per commit.
    func run(receivedBy listeners: Listeners, number: inout Int) throws -> [Delay] {
        var request = request
        var delays: [Delay] = []
        for _ in 0..<count {
            Sockets.pause(microseconds: pause)
            request.number(from: number)
            number += 1
            let sent = Monotonic.nanoseconds
            try writer.exchange(request.bytes) { try $0.mustBeSuccess() }
            let answered = Monotonic.nanoseconds
            for arrival in try listeners.arrivals(1) {
                delays.append(
                    Delay(
                        sinceRequest: Double(arrival.time - sent) / 1e6,
                        sinceAnswer: Double(max(0, arrival.time - answered)) / 1e6
                    )
                )
            }
        }
        return delays
    }
}

/// Commits at a fixed rate, each in the next zone, without waiting for responses.
///
/// A commit's delay counts from its scheduled time, so that a stalling server cannot hide delays.
struct PacedCommits {
    private let side: NoticeTarget
    private let zones: Int
    private let perSecond: Int
    private let count: Int
    private let connections: [HTTPConnection]
    private let poller: Poller

    init(_ side: NoticeTarget, zones: Int, perSecond: Int, seconds: Double) throws {
        self.side = side
        self.zones = zones
        self.perSecond = perSecond
        count = Int(Double(perSecond) * seconds)
        poller = try Poller()
        connections = try (0..<64).map { _ in try HTTPConnection(to: side.requests, blocks: false) }
        for (key, connection) in connections.enumerated() {
            try poller.add(connection.socket.descriptor, key: key)
        }
    }

    /// The delay in milliseconds of each notice to each listener.
    func run(receivedBy listeners: Listeners, listenersEach each: Int) throws -> [Double] {
        // Start the numbering at the clock, so that it differs from other runs.
        var number = Monotonic.nanoseconds
        var requests = (0..<min(zones, count)).map { side.commit($0) }
        var free = Array(connections.indices)
        let start = Monotonic.nanoseconds + 10_000_000
        func due(_ commit: Int) -> Int { start + commit * (1_000_000_000 / perSecond) }
        var (sent, answered) = (0, 0)
        while answered < count {
            while sent < count, due(sent) <= Monotonic.nanoseconds, let key = free.popLast() {
                requests[sent % zones].number(from: number)
                number += 1
                try connections[key].socket.write(requests[sent % zones].bytes)
                sent += 1
            }
            guard Monotonic.nanoseconds < due(count) + 30_000_000_000 else {
                throw LoadError.timedOut("answers to \(sent - answered) commits")
            }
            try poller.wait(milliseconds: 1) { key in
                guard try connections[key].receive({ try $0.mustBeSuccess() }) != nil else { return }
                answered += 1
                free.append(key)
            }
        }
        // A zone's k-th notice belongs to its k-th commit: the same zone is written again only seconds later.
        var seen: [Int: Int] = [:]
        return try listeners.arrivals(count * each).map { arrival in
            let turn = seen[arrival.listener, default: 0]
            seen[arrival.listener] = turn + 1
            return Double(arrival.time - due(arrival.listener / each + turn * zones)) / 1e6
        }
    }
}

/// Clients that send the next request as soon as the last one is answered, all on one thread.
struct ClosedLoop {
    private struct Client {
        var connection: HTTPConnection
        var request: NumberedRequest
    }

    struct Outcome {
        var requestsPerSecond: Double
        /// Seconds of the server's CPU time per request.
        var cpuPerRequest: Double
    }

    private var clients: [Client] = []
    private let poller: Poller
    /// The number of the next record, shared by all clients so that names are unique.
    private var next: Int

    init(_ requests: [NumberedRequest], to endpoint: Endpoint, numberingFrom first: Int = 1) throws {
        try self.init(requests.map { ($0, endpoint) }, numberingFrom: first)
    }

    /// Each client sends its request to a server of its own.
    init(_ requests: [(request: NumberedRequest, endpoint: Endpoint)], numberingFrom first: Int) throws {
        poller = try Poller()
        next = first
        for (key, (request, endpoint)) in requests.enumerated() {
            let connection = try HTTPConnection(to: endpoint, blocks: false)
            try poller.add(connection.socket.descriptor, key: key)
            clients.append(Client(connection: connection, request: request))
        }
    }

    /// Runs for this time, and then waits for the last responses.
    mutating func run(seconds: Double, meter: ProcessMeter) throws -> Outcome {
        let (start, cpu) = (Monotonic.nanoseconds, meter.cpuSeconds)
        for key in clients.indices { try send(from: key) }
        var (answered, running) = (0, clients.count)
        while running > 0 {
            let mayGoOn = Monotonic.seconds(since: start) < seconds
            let count = try poller.wait(milliseconds: 30_000) { key in
                guard try clients[key].connection.receive({ try $0.mustBeSuccess() }) != nil else { return }
                answered += 1
                if mayGoOn { try send(from: key) } else { running -= 1 }
            }
            guard count > 0 else { throw LoadError.timedOut("answers to \(running) requests") }
        }
        let elapsed = Monotonic.seconds(since: start)
        return Outcome(
            requestsPerSecond: Double(answered) / elapsed,
            cpuPerRequest: (meter.cpuSeconds - cpu) / Double(max(1, answered))
        )
    }

    private mutating func send(from key: Int) throws {
        clients[key].request.number(from: next)
        next += clients[key].request.count
        try clients[key].connection.socket.write(clients[key].request.bytes)
    }
}
