import Sockets

/// Several relays on one PostgreSQL.
enum ClusterRows {
    /// 64 clients of 64 owners, on one node and spread over two and three, beside one relay on SQLite.
    ///
    /// All programs share the cores of one machine, so a second node would find no core that is free. Each node
    /// therefore gets a part of a core, which makes the nodes the limit and leaves the rest to PostgreSQL.
    static func nodes(_ bench: inout Bench) throws {
        guard let nodes = try bench.startCluster(of: 3, for: "cluster-nodes") else { return }
        let single = try bench.startRelay()
        let owners = 64
        for owner in 0..<owners {
            try nodes[0].makeZones(["one"], as: .dev(owner))
            try single.makeZones(["one"], as: .dev(owner))
        }
        func load(_ targets: [Relay], numberingFrom first: Int) throws -> ManyLoops {
            try ManyLoops(owners: owners, targets, numberingFrom: first)
        }
        let seconds = bench.scale(4.0, quick: 2)
        let rounds = bench.scale(5, quick: 3)
        var one = try load([nodes[0]], numberingFrom: 1)
        var local = try load([single], numberingFrom: 1)
        let beside = try Paired.measure(rounds: rounds) {
            try one.run(seconds: seconds)
        } floor: {
            try local.run(seconds: seconds)
        }
        bench.report.add(
            Finding(
                "cluster-nodes",
                "durable writes of 64 owners, 1 node with all cores",
                unit: "/s",
                beside,
                against: "a relay on SQLite"
            )
        )
        let share = 0.3
        guard nodes.allSatisfy({ $0.limitCPU(to: share) }) else {
            return bench.report.skip("cluster-nodes, 2 and 3", because: "No CPU control group (version 1) can be made.")
        }
        // Not earlier: relays close connections that are idle for long.
        var two = try load(Array(nodes.prefix(2)), numberingFrom: 1 << 40)
        var three = try load(nodes, numberingFrom: 1 << 41)
        var rates: [[Double]] = [[], []]
        let paired = try Paired.measure(rounds: rounds) {
            rates[1].append(try three.run(seconds: seconds))
            return try two.run(seconds: seconds)
        } floor: {
            let rate = try one.run(seconds: seconds)
            rates[0].append(rate)
            return rate
        }
        bench.report.add(
            Finding(
                "cluster-nodes",
                "the same, 2 nodes with 0.3 of a core each",
                unit: "/s",
                paired,
                against: "1 such node",
                target: .ratioAtLeast(1.6)
            )
        )
        bench.report.add(
            Finding(
                "cluster-nodes",
                "the same, 3 such nodes",
                unit: "/s",
                Paired(relay: rates[1], floor: rates[0]),
                against: "1 such node"
            )
        )
    }

    /// Commits on one node, and the notice on another.
    static func noticeAcross(_ bench: inout Bench) throws {
        guard let nodes = try bench.startCluster(of: 2, for: "cluster-notice") else { return }
        var side = try nodes[0].asOneUser()
        side.server.listeners = nodes[1].endpoint
        let listeners = try Listeners(count: 1, threads: 1, to: side.server)
        let commits = try SequentialCommits(side, count: bench.scale(3_000, quick: 500), pause: 1_000)
        var number = 1
        let delays = try commits.run(receivedBy: listeners, number: &number)
        try listeners.close()
        let figures: [(String, [Double], Double, Double)] = [
            ("write sent to node A to notice on node B", delays.map(\.sinceRequest), 0.5, 10),
            ("write sent to node A to notice on node B", delays.map(\.sinceRequest), 0.99, 100),
            ("write answered by node A to notice on node B", delays.map(\.sinceAnswer), 0.5, 10),
            ("write answered by node A to notice on node B", delays.map(\.sinceAnswer), 0.99, 100),
        ]
        for (what, values, share, most) in figures {
            bench.report.add(
                Finding(
                    "cluster-notice",
                    "\(what), p\(Int(share * 100))",
                    unit: "ms",
                    relay: values.quantile(share),
                    target: .atMost(most)
                )
            )
        }
    }

    /// 10,000 sockets over three nodes, all of which get each notice.
    static func sockets(_ bench: inout Bench) throws {
        guard let nodes = try bench.startCluster(of: 3, for: "cluster-sockets") else { return }
        let side = try nodes[0].asOneUser()
        let all = 10_000
        let before = nodes.reduce(0) { $0 + $1.meter.residentBytes }
        let groups = try nodes.enumerated().map { place, node in
            var server = side.server
            server.listeners = node.endpoint
            let (first, hello) = (place * all, server.hello)
            // A device's name is used on one node.
            server.hello = { hello(first + $0) }
            return try Listeners(count: all / 3 + (place < all % 3 ? 1 : 0), to: server)
        }
        let memory = nodes.reduce(0) { $0 + $1.meter.residentBytes } - before
        let writer = try HTTPConnection(to: side.requests)
        var request = side.commit(0)
        var (toLast, toMedian): ([Double], [Double]) = ([], [])
        for number in 1...bench.scale(40, quick: 10) {
            request.number(from: number)
            let sent = Monotonic.nanoseconds
            try writer.exchange(request.bytes) { try $0.mustBeSuccess() }
            let delays = try groups.flatMap { group in
                try group.arrivals(group.count).map { Double($0.time - sent) / 1e6 }
            }
            toMedian.append(delays.median)
            toLast.append(delays.quantile(1))
        }
        for group in groups { try group.close() }
        let figures: [(String, String, Double)] = [
            ("to the median socket", "ms", toMedian.median), ("to the last socket", "ms", toLast.median),
            ("memory of the nodes per socket", "bytes", Double(memory) / Double(all)),
        ]
        for (what, unit, value) in figures {
            let subject = "10,000 sockets over 3 nodes, one commit"
            bench.report.add(Finding("cluster-sockets", "\(subject): \(what)", unit: unit, relay: value))
        }
    }
}

/// Clients of many owners, spread over several relays, which all run at once.
private struct ManyLoops {
    private var loop: ClosedLoop
    private let meter: ProcessMeter

    init(owners: Int, _ targets: [Relay], numberingFrom first: Int) throws {
        loop = try ClosedLoop(
            (0..<owners).map { owner in
                let target = targets[owner % targets.count]
                return (target.create(1, in: "one", as: .dev(owner)), target.endpoint)
            },
            numberingFrom: first
        )
        meter = targets[0].meter
    }

    /// Returns the writes per second.
    mutating func run(seconds: Double) throws -> Double {
        try loop.run(seconds: seconds, meter: meter).requestsPerSecond
    }
}
