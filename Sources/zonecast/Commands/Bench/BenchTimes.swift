/// The latencies of a load's requests, and counts of their outcomes.
struct BenchTimes: Sendable {
    private var milliseconds: [Double] = []
    /// Operations done; one request may do several.
    private(set) var done = 0
    /// The number of refusals, by error code or status.
    private(set) var refused: [String: Int] = [:]

    mutating func record(_ time: Duration, done count: Int = 1) {
        milliseconds.append(time.milliseconds)
        done += count
    }

    mutating func recordRefusal(_ code: String) { refused[code, default: 0] += 1 }

    mutating func add(_ other: BenchTimes) {
        milliseconds += other.milliseconds
        done += other.done
        refused.merge(other.refused) { $0 + $1 }
    }

    var requests: Int { milliseconds.count }

    /// Returns the quantiles of the latencies; 0 without measurements.
    func quantiles(_ shares: [Double]) -> [Double] {
        let sorted = milliseconds.sorted()
        guard let last = sorted.last else { return shares.map { _ in 0 } }
        return shares.map { share in
            let place = Int((Double(sorted.count) * share).rounded(.up)) - 1
            return share >= 1 ? last : sorted[max(0, min(place, sorted.count - 1))]
        }
    }
}

/// The results of `zonecast bench`.
struct BenchReport: Encodable, Sendable {
    struct Milliseconds: Encodable, Sendable {
        var p50: Double
        var p90: Double
        var p99: Double
        var max: Double
    }

    var load: String
    var url: String
    var clients: Int
    var seconds: Double
    /// The unit counted: writes, records, notices, queries or requests.
    var counted: String
    var done: Int
    var perSecond: Double
    /// The operation timed.
    var timed: String
    var milliseconds: Milliseconds
    var refused: [String: Int]

    init(_ load: BenchLoad, _ times: BenchTimes, url: String, clients: Int, seconds: Double) {
        self.load = load.rawValue
        self.url = url
        self.clients = clients
        self.seconds = (seconds * 100).rounded() / 100
        counted = load.counted
        done = times.done
        perSecond = (Double(times.done) / max(seconds, 0.001) * 10).rounded() / 10
        timed = load.timed
        let found = times.quantiles([0.5, 0.9, 0.99, 1]).map { ($0 * 100).rounded() / 100 }
        milliseconds = Milliseconds(p50: found[0], p90: found[1], p99: found[2], max: found[3])
        refused = times.refused
    }

    /// The results as text.
    var lines: [String] {
        let times = milliseconds
        var lines = [
            "\(load)  \(clients) client\(clients == 1 ? "" : "s")  \(seconds) s  \(url)",
            "  done  \(done) \(counted)  \(perSecond)/s",
            "  time  p50 \(times.p50) ms  p90 \(times.p90) ms  p99 \(times.p99) ms  max \(times.max) ms  (\(timed))",
        ]
        for (code, count) in refused.sorted(by: { $0.key < $1.key }) { lines.append("  refused  \(count) \(code)") }
        if refused["THROTTLED"] != nil {
            lines.append("  The relay limits each user's rate: limits.requests-per-second and the other rates in its")
            lines.append("  configuration. Measure another relay, or one with higher limits.")
        }
        return lines
    }
}
