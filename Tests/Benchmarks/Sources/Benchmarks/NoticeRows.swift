import Foundation
import Sockets

/// The speed and cost of notices for a commit.
enum NoticeRows {
    /// One commit to 10,000 sockets, beside a server that only writes to as many sockets.
    static func burst(_ bench: inout Bench) throws {
        let (relay, bare) = (try bench.startRelay(), try bench.startBareServer())
        let count = bench.scale(10_000, quick: 10_000)
        let sides = [try relay.asOneUser(), bare.asNoticeTarget(listenersEach: count, syncs: false)]
        let commits = bench.scale(20, quick: 5)
        var numbers = 1
        var costs: [[Double]] = [[], []]
        func turn(_ side: Int) throws -> Double {
            let outcome = try Self.burst(sides[side], listeners: count, commits: commits, number: &numbers)
            costs[side].append(outcome.cpuPerNotice)
            return outcome.noticesPerSecond
        }
        let paired = try Paired.measure(rounds: bench.scale(5, quick: 3)) {
            try turn(0)
        } floor: {
            try turn(1)
        }
        bench.report.add(
            Finding(
                "notice-burst",
                "one commit to \(count) sockets, from the first to the last notice",
                unit: "notices/s",
                paired,
                against: "bare socket writes",
                target: .ratioAtLeast(0.8)
            )
        )
        bench.report.add(
            Finding(
                "notice-burst",
                "relay CPU per notice of such a commit",
                unit: "us",
                Paired(relay: costs[0], floor: costs[1]),
                against: "bare socket writes",
                target: .atMost(12)
            )
        )
    }

    static func burst(
        _ side: NoticeTarget,
        listeners count: Int,
        commits: Int,
        number: inout Int
    ) throws -> (noticesPerSecond: Double, cpuPerNotice: Double) {
        let listeners = try Listeners(count: count, to: side.server)
        let writer = try HTTPConnection(to: side.requests)
        var request = side.commit(0)
        var rates: [Double] = []
        let cpu = side.meter.cpuSeconds
        for _ in 0..<commits {
            request.number(from: number)
            number += 1
            try writer.exchange(request.bytes) { try $0.mustBeSuccess() }
            let arrivals = try listeners.arrivals(count)
            guard let first = arrivals.first, let last = arrivals.last else { continue }
            rates.append(Double(count - 1) * 1e9 / Double(max(1, last.time - first.time)))
        }
        let used = side.meter.cpuSeconds - cpu
        try listeners.close()
        return (rates.median, used * 1e6 / Double(commits * count))
    }

    /// 1,000 zones with 10 listeners each and 200 commits a second, beside a server that appends, fsyncs and writes.
    static func zones(_ bench: inout Bench) throws {
        let (relay, bare) = (try bench.startRelay(), try bench.startBareServer())
        let zones = bench.scale(1000, quick: 1000)
        let sides = [
            try relay.asManyUsers(zones, listenersEach: 10), bare.asNoticeTarget(listenersEach: 10, syncs: true),
        ]
        let seconds = bench.scale(8.0, quick: 4)
        var medians: [[Double]] = [[], []]
        func turn(_ side: Int) throws -> Double {
            let listeners = try Listeners(count: zones * 10, to: sides[side].server)
            let load = try PacedCommits(sides[side], zones: zones, perSecond: 200, seconds: seconds)
            let delays = try load.run(receivedBy: listeners, listenersEach: 10)
            try listeners.close()
            medians[side].append(delays.median)
            return delays.quantile(0.99)
        }
        let paired = try Paired.measure(rounds: bench.scale(5, quick: 3)) {
            try turn(0)
        } floor: {
            try turn(1)
        }
        bench.report.add(
            Finding(
                "notice-zones",
                "1,000 zones of 10 listeners, 200 commits/s: commit to notice, p99",
                unit: "ms",
                paired,
                against: "bare fsync and write",
                target: .ratioAtMost(1.5)
            )
        )
        bench.report.add(
            Finding(
                "notice-zones",
                "the same, median",
                unit: "ms",
                Paired(relay: medians[0], floor: medians[1]),
                against: "bare fsync and write"
            )
        )
    }

    /// One listener on an idle machine.
    static func latency(_ bench: inout Bench) throws {
        let (relay, bare) = (try bench.startRelay(), try bench.startBareServer())
        let sides = [try relay.asOneUser(), bare.asNoticeTarget(listenersEach: 1, syncs: true)]
        var afterAnswer: [Double] = []
        var number = 1
        func turn(_ side: Int) throws -> Double {
            let listeners = try Listeners(count: 1, threads: 1, to: sides[side].server)
            let commits = try SequentialCommits(sides[side], count: bench.scale(300, quick: 100), pause: 3000)
            let delays = try commits.run(receivedBy: listeners, number: &number)
            try listeners.close()
            if side == 0 { afterAnswer += delays.map(\.sinceAnswer) }
            return delays.map(\.sinceRequest).median
        }
        let paired = try Paired.measure(rounds: bench.scale(5, quick: 3)) {
            try turn(0)
        } floor: {
            try turn(1)
        }
        bench.report.add(
            Finding(
                "notice-latency",
                "idle machine: request sent to notice heard, median",
                unit: "ms",
                paired,
                against: "bare fsync and write"
            )
        )
        bench.report.add(
            Finding(
                "notice-latency",
                "idle machine: commit answered to notice heard, median",
                unit: "ms",
                relay: afterAnswer.median,
                target: .atMost(2)
            )
        )
        bench.report.add(
            Finding(
                "notice-latency",
                "idle machine: commit answered to notice heard, p99",
                unit: "ms",
                relay: afterAnswer.quantile(0.99),
                target: .atMost(20)
            )
        )
    }
}

/// The cost of query subscriptions for writers.
enum SubscriptionRows {
    /// Writes with 10,000 query subscriptions that match none of them, beside the same writes without subscriptions.
    ///
    /// A thousand subscriptions belong to the writer and to the written type, but have other values. The rest belong to
    /// other users and types.
    static func uninterested(_ bench: inout Bench) throws {
        let quiet = try bench.startRelay()
        let watched = try bench.startRelay()
        for relay in [quiet, watched] {
            try relay.makeZones(["one"])
            // A connected device of the writer's: the relay matches nothing without listeners.
            try relay.ask("tokens/create", "{}")
        }
        try watched.watch(1_000, type: "Note")
        for user in 0..<9 { try watched.watch(1_000, type: "Other\(user)", as: .dev(user)) }
        var loops = try [quiet, watched].map {
            try ClosedLoop(Array(repeating: $0.create(1, in: "one"), count: 64), to: $0.endpoint)
        }
        let seconds = bench.scale(3.0, quick: 2)
        let paired = try Paired.measure(rounds: bench.scale(9, quick: 5)) {
            try loops[1].run(seconds: seconds, meter: watched.meter).cpuPerRequest * 1e6
        } floor: {
            try loops[0].run(seconds: seconds, meter: quiet.meter).cpuPerRequest * 1e6
        }
        bench.report.add(
            Finding(
                "write-watched",
                "relay CPU per write among 10,000 query subscriptions on other types and values",
                unit: "us",
                paired,
                against: "the same without subscriptions",
                target: .ratioAtMost(1.05)
            )
        )
    }
}

extension Relay {
    /// Creates `count` query subscriptions, each on one value of a field.
    fileprivate func watch(_ count: Int, type: String, as login: Login? = nil) throws {
        for start in stride(from: 0, to: count, by: 200) {
            let operations = (start..<min(start + 200, count)).map { number in
                let value = #"{"value":"title \#(number)","type":"STRING"}"#
                let filter = #"{"comparator":"EQUALS","fieldName":"title","fieldValue":\#(value)}"#
                return """
                    {"operationType":"create","subscription":{"subscriptionID":"watch-\(number)",\
                    "subscriptionType":"query","firesOn":["create","update"],\
                    "query":{"recordType":"\(type)","filterBy":[\(filter)]}}}
                    """
            }
            try ask("subscriptions/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#, as: login)
        }
    }
}

/// The cost of idle connections.
enum ConnectionRows {
    /// The memory of an idle connection, and the rate of new ones.
    static func idle(_ bench: inout Bench) throws {
        let (relay, bare) = (try bench.startRelay(), try bench.startBareServer())
        let sides = [try relay.asOneUser(), bare.asNoticeTarget(listenersEach: 1, syncs: false)]
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
                target: .ratioAtLeast(0.4)
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
            _ = try commits.run(receivedBy: listener, number: &number)
            let cpu = relay.meter.cpuSeconds
            let delays = try commits.run(receivedBy: listener, number: &number)
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
