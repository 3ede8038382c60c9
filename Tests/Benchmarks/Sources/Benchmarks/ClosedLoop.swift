import Sockets

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
        poller = try Poller()
        next = first
        for (key, request) in requests.enumerated() {
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
