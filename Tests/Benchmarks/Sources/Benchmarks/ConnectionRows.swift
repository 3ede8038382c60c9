import Sockets

/// The cost of idle connections.
enum ConnectionRows {
    /// The memory of an idle connection, and the rate of new ones.
    static func idle(_ bench: inout Bench) throws {
        let (relay, bare) = (try bench.startRelay(), try bench.startBareServer())
        let sides = [try relay.asOneUser(), bare.asNoticeSide(listenersEach: 1, syncs: false)]
        let count = 10_000
        var memory: [Double] = []
        func turn(_ side: Int) throws -> Double {
            // A few connections first, so that one-time allocations do not count.
            try Listeners(count: 100, to: sides[side].server).close()
            pause(microseconds: 300_000)
            let before = sides[side].meter.residentBytes
            let listeners = try Listeners(count: count, to: sides[side].server)
            if side == 0 { memory.append(Double(sides[side].meter.residentBytes - before) / Double(count)) }
            try listeners.close()
            pause(microseconds: 500_000)
            return listeners.connectsPerSecond
        }
        let paired = try Paired.measure(rounds: bench.scale(5, quick: 2)) {
            try turn(0)
        } floor: {
            try turn(1)
        }
        // Only the first turn counts: later ones reuse memory that the allocator kept.
        bench.report.add(
            Finding(
                "idle",
                "memory of an idle connection, \(count) held",
                unit: "bytes",
                relay: memory.first ?? 0,
                target: .atMost(6 * 1024)
            )
        )
        bench.report.add(
            Finding(
                "idle",
                "connections brought to `ready`: TCP, upgrade, hello",
                unit: "/s",
                paired,
                against: "bare server",
                target: .atLeast(20_000)
            )
        )
    }

    /// A notice to one connection among 10,000, beside one among 100.
    static func oneAmongMany(_ bench: inout Bench) throws {
        let relay = try bench.startRelay()
        let crowd = try relay.asOneUser()
        let one = try relay.asManyUsers(1, listenersEach: 1)
        var number = 1
        func turn(_ idle: Int) throws -> Double {
            let others = try Listeners(count: idle - 1, to: crowd.server)
            let listener = try Listeners(count: 1, threads: 1, to: one.server)
            let commits = try SequentialCommits(one, count: bench.scale(500, quick: 200), pause: 0)
            _ = try commits.run(heardBy: listener, number: &number)
            let cpu = relay.meter.cpuSeconds
            let delays = try commits.run(heardBy: listener, number: &number)
            let used = relay.meter.cpuSeconds - cpu
            try listener.close()
            try others.close()
            return used * 1e6 / Double(delays.count)
        }
        let paired = try Paired.measure(rounds: bench.scale(5, quick: 3)) {
            try turn(10_000)
        } floor: {
            try turn(100)
        }
        bench.report.add(
            Finding(
                "notice-idle",
                "relay CPU of a commit and its one notice, among 10,000 connections",
                unit: "us",
                paired,
                against: "among 100",
                target: .ratioAtMost(1.2)
            )
        )
    }
}
