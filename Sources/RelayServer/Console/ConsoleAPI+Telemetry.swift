import Records
import RelayAPI
import RelayCore

/// The relay's recent metrics and request log.
extension ConsoleAPI {
    static let telemetry: [ConsoleRoute] = [
        .get("telemetry") { call in
            let day = call.parts.telemetry.lastDay()
            guard call["period"] != "day" else { return TelemetryAnswer(day) }
            let end = call.parts.time.now() + .seconds(-3_600)
            let before = day.filter { $0.at <= end && $0.at >= end + .seconds(-3_600) }
            return TelemetryAnswer(call.parts.telemetry.lastHour(), before: before)
        },
        .get("logs") { call in
            let operation = call["operation"]
            let user = call["user"]
            let wantsErrors = call["errors"] == "1"
            let container = call["container"]
            let environment = call["environment"]
            let all = call["everywhere"] == "1"
            let lines = call.parts.requests.look(
                after: call.number("after", in: 0...Int.max, else: 0),
                limit: call.number("limit", in: 1...500, else: 200)
            ) { line in
                (operation == nil || line.operation == operation) && (!wantsErrors || line.status >= 400)
                    && (user == nil || line.user == user)
                    && (all || (line.container == container && line.environment == environment))
            }
            return ["lines": lines]
        },
    ]
}

/// Data points for the charts, and sums for the table.
struct TelemetryAnswer: Encodable {
    struct Point: Encodable {
        var at: Int64
        /// The time since the previous point in seconds.
        var seconds: Double
        var requests: UInt64
        var errors: UInt64
        var sentBytes: UInt64
        /// The p50 of response times in milliseconds; `slowest` is the p99.
        var median: Double?
        var slowest: Double?
        var commits: UInt64
        var writes: UInt64
        var commitMedian: Double?
        var connections: Int
        var storeBytes: Int64
        var notices: Int
        /// The p50 of the time from commit to socket in milliseconds; `noticeSlowest` is the p99.
        var noticeMedian: Double?
        var noticeSlowest: Double?
    }

    struct Operation: Encodable {
        var name: String
        var requests: UInt64
        var errors: [String: UInt64]
        var sentBytes: UInt64
        var median: Double?
        var slowest: Double?
    }

    /// The sums over the whole period.
    struct Sum: Encodable {
        var seconds: Double
        var requests: UInt64
        var errors: UInt64
        var sentBytes: UInt64
        var median: Double?
        var slowest: Double?
        var notices: Int
        /// The p50 of the time from commit to socket in milliseconds; `noticeSlowest` is the p99.
        var noticeMedian: Double?
        var noticeSlowest: Double?
    }

    var points: [Point]
    var operations: [Operation]
    var sum: Sum
    /// The sums of the previous hour, if the relay has run that long.
    var before: Sum?

    init(_ taken: [Telemetry.Point], before: [Telemetry.Point] = []) {
        self.before = before.count > 1 ? Self.sum(before) : nil
        points = zip(taken, taken.dropFirst()).map { Self.point($0, $1) }
        sum = Self.sum(taken)
        operations = Self.operations(taken)
    }

    private static func point(_ earlier: Telemetry.Point, _ later: Telemetry.Point) -> Point {
        let difference = sum([earlier, later])
        let commits = later.reading.commitTimes.since(earlier.reading.commitTimes)
        let notices = later.reading.noticeTimes.since(earlier.reading.noticeTimes)
        return Point(
            at: later.at.milliseconds,
            seconds: difference.seconds,
            requests: difference.requests,
            errors: difference.errors,
            sentBytes: difference.sentBytes,
            median: difference.median,
            slowest: difference.slowest,
            commits: later.reading.commits &- earlier.reading.commits,
            writes: later.reading.writes &- earlier.reading.writes,
            commitMedian: commits.quantile(0.5).map { $0 * 1_000 },
            connections: later.connections,
            storeBytes: later.storeBytes,
            notices: difference.notices,
            noticeMedian: notices.quantile(0.5).map { $0 * 1_000 },
            noticeSlowest: notices.quantile(0.99).map { $0 * 1_000 }
        )
    }

    /// Returns the differences between the first and the last point.
    static func sum(_ taken: [Telemetry.Point]) -> Sum {
        var times = Histogram.times
        var sum = Sum(seconds: 0, requests: 0, errors: 0, sentBytes: 0, notices: 0)
        guard let first = taken.first, let last = taken.last else { return sum }
        for operation in differences(first, last) {
            sum.requests += operation.requests
            sum.errors += operation.errors.values.reduce(0, +)
            sum.sentBytes += operation.sentBytes
            times.add(operation.times)
        }
        sum.seconds = (last.at - first.at).inSeconds
        sum.median = times.quantile(0.5).map { $0 * 1_000 }
        sum.slowest = times.quantile(0.99).map { $0 * 1_000 }
        sum.notices = last.notices.sent - first.notices.sent
        let noticeTimes = last.reading.noticeTimes.since(first.reading.noticeTimes)
        sum.noticeMedian = noticeTimes.quantile(0.5).map { $0 * 1_000 }
        sum.noticeSlowest = noticeTimes.quantile(0.99).map { $0 * 1_000 }
        return sum
    }

    private static func operations(_ taken: [Telemetry.Point]) -> [Operation] {
        guard let first = taken.first, let last = taken.last else { return [] }
        return differences(first, last).map {
            Operation(
                name: $0.name,
                requests: $0.requests,
                errors: $0.errors,
                sentBytes: $0.sentBytes,
                median: $0.times.quantile(0.5).map { $0 * 1_000 },
                slowest: $0.times.quantile(0.99).map { $0 * 1_000 }
            )
        }.sorted { $0.requests > $1.requests }
    }

    private static func differences(
        _ first: Telemetry.Point,
        _ last: Telemetry.Point
    ) -> [MetricsReading.Operation] {
        let before = Dictionary(first.reading.operations.map { ($0.name, $0) }) { $1 }
        return last.reading.operations.compactMap { operation in
            guard let earlier = before[operation.name] else { return operation }
            var difference = operation
            difference.requests = operation.requests &- earlier.requests
            difference.sentBytes = operation.sentBytes &- earlier.sentBytes
            difference.errors = operation.errors.merging(earlier.errors) { $0 &- $1 }.filter { $0.value > 0 }
            difference.times = operation.times.since(earlier.times)
            return difference.requests > 0 ? difference : nil
        }
    }
}
