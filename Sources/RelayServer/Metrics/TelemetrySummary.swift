import Records
import RelayAPI

/// Data points for the charts, and sums for the table.
package struct TelemetrySummary: Encodable {
    package struct Point: Encodable {
        package var at: Int64
        /// The time since the previous point in seconds.
        package var seconds: Double
        package var requests: UInt64
        package var errors: UInt64
        package var sentBytes: UInt64
        /// The p50 of response times in milliseconds; `slowest` is the p99.
        package var median: Double?
        package var slowest: Double?
        package var commits: UInt64
        package var writes: UInt64
        package var commitMedian: Double?
        package var connections: Int
        package var storeBytes: Int64
        package var notices: Int
        /// The p50 of the time from commit to socket in milliseconds; `noticeSlowest` is the p99.
        package var noticeMedian: Double?
        package var noticeSlowest: Double?
    }

    package struct Operation: Encodable {
        package var name: String
        package var requests: UInt64
        package var errors: [String: UInt64]
        package var sentBytes: UInt64
        package var median: Double?
        package var slowest: Double?
    }

    /// The sums over the whole period.
    package struct Sum: Encodable {
        package var seconds: Double
        package var requests: UInt64
        package var errors: UInt64
        package var sentBytes: UInt64
        package var median: Double?
        package var slowest: Double?
        package var notices: Int
        /// The p50 of the time from commit to socket in milliseconds; `noticeSlowest` is the p99.
        package var noticeMedian: Double?
        package var noticeSlowest: Double?
    }

    package var points: [Point]
    package var operations: [Operation]
    package var sum: Sum
    /// The sums of the previous hour, if the relay has run that long.
    package var before: Sum?

    package init(_ taken: [Telemetry.Point], before: [Telemetry.Point] = []) {
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
    package static func sum(_ taken: [Telemetry.Point]) -> Sum {
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
