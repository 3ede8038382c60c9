import Foundation
import Sockets

/// The speed and cost of notices for a commit.
enum NoticeRows {
    /// One commit to 10,000 sockets, beside a server that only writes to as many sockets.
    static func burst(_ bench: inout Bench) throws {
        let (relay, bare) = (try bench.startRelay(), try bench.startBareServer())
        let count = bench.scale(10_000, quick: 10_000)
        let sides = [try relay.asOneUser(), bare.asNoticeSide(listenersEach: count, syncs: false)]
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
        _ side: NoticeSide,
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
            try relay.asManyUsers(zones, listenersEach: 10), bare.asNoticeSide(listenersEach: 10, syncs: true),
        ]
        let seconds = bench.scale(8.0, quick: 4)
        var medians: [[Double]] = [[], []]
        func turn(_ side: Int) throws -> Double {
            let listeners = try Listeners(count: zones * 10, to: sides[side].server)
            let load = try PacedCommits(sides[side], zones: zones, perSecond: 200, seconds: seconds)
            let delays = try load.run(heardBy: listeners, listenersEach: 10)
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
        let sides = [try relay.asOneUser(), bare.asNoticeSide(listenersEach: 1, syncs: true)]
        var afterAnswer: [Double] = []
        var number = 1
        func turn(_ side: Int) throws -> Double {
            let listeners = try Listeners(count: 1, threads: 1, to: sides[side].server)
            let commits = try SequentialCommits(sides[side], count: bench.scale(300, quick: 100), pause: 3000)
            let delays = try commits.run(heardBy: listeners, number: &number)
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
