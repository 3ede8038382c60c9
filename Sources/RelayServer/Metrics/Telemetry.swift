package import Foundation
package import Records
package import RelayAPI
import Synchronization

/// The values of all counters at one time; the difference of two readings describes the time between them.
package struct MetricsReading: Codable, Sendable {
    package struct Operation: Codable, Sendable {
        package var name: String
        package var requests: UInt64 = 0
        /// By `serverErrorCode`.
        package var errors: [String: UInt64] = [:]
        package var sentBytes: UInt64 = 0
        package var times = Histogram.times

        package init(name: String) { self.name = name }
    }

    package var operations: [Operation] = []
    package var commitTimes = Histogram.times
    package var commits: UInt64 = 0
    package var writes: UInt64 = 0
    package var noticeTimes = Histogram.times

    package init() {}

    /// Returns the reading that follows from continuing to count at `earlier`.
    fileprivate func continuing(_ earlier: MetricsReading) -> MetricsReading {
        var sum = self
        let before = Dictionary(earlier.operations.map { ($0.name, $0) }) { $1 }
        let counted = Set(operations.map(\.name))
        sum.operations = operations.map { operation in
            guard let old = before[operation.name] else { return operation }
            var both = operation
            both.requests &+= old.requests
            both.errors.merge(old.errors) { $0 &+ $1 }
            both.sentBytes &+= old.sentBytes
            both.times.add(old.times)
            return both
        }
        sum.operations += earlier.operations.filter { !counted.contains($0.name) }
        sum.commitTimes.add(earlier.commitTimes)
        sum.commits &+= earlier.commits
        sum.writes &+= earlier.writes
        sum.noticeTimes.add(earlier.noticeTimes)
        return sum
    }
}

/// The relay's history of the last hour and the last day, in a bounded number of readings.
///
/// The caller adds a point every ten seconds; requests cost nothing in addition to the metrics. Saved and loaded, it
/// continues after a restart.
package final class Telemetry: Sendable {
    /// The readings at one time.
    package struct Point: Codable, Sendable {
        package var at: Timestamp
        package var reading: MetricsReading
        package var connections: Int
        package var notices: NoticeTally.Counts
        /// Bytes of the SQLite files.
        package var storeBytes: Int64

        package init(
            at: Timestamp,
            reading: MetricsReading,
            connections: Int,
            notices: NoticeTally.Counts,
            storeBytes: Int64 = 0
        ) {
            self.storeBytes = storeBytes
            self.at = at
            self.reading = reading
            self.connections = connections
            self.notices = notices
        }
    }

    /// The time between two points and their maximum number: an hour at 10 s, a day at 5 min.
    private static let fine = (step: Duration.seconds(10), count: 361)
    private static let coarse = (step: Duration.seconds(300), count: 289)

    private struct Points: Codable {
        var fine: [Point] = []
        var coarse: [Point] = []
        /// The last point of the run before this one, at which the counters continue.
        var earlier: Point?
    }

    private let points = Mutex(Points())

    package init() {}

    package func take(_ point: Point) {
        points.withLock { points in
            var point = point
            if let earlier = points.earlier {
                point.reading = point.reading.continuing(earlier.reading)
                point.notices = point.notices.continuing(earlier.notices)
            }
            Self.add(point, to: &points.fine, Self.fine)
            if let last = points.coarse.last, last.at <= point.at,
                point.at - last.at < Self.coarse.step - .seconds(1)
            {
                return
            }
            Self.add(point, to: &points.coarse, Self.coarse)
        }
    }

    private static func add(_ point: Point, to points: inout [Point], _ bounds: (step: Duration, count: Int)) {
        points.append(point)
        if points.count > bounds.count { points.removeFirst(points.count - bounds.count) }
        // After a restart there is a gap between the points.
        let oldest = point.at + (.zero - bounds.step * bounds.count)
        points.removeAll { $0.at < oldest }
    }

    /// The history in a form for `load`.
    package var saved: Data? { try? JSONEncoder().encode(points.withLock { $0 }) }

    /// Continues a saved history.
    ///
    /// Call before the first `take`. Ignores data of another version.
    package func load(_ saved: Data) {
        guard var loaded = try? JSONDecoder().decode(Points.self, from: saved) else { return }
        loaded.earlier = loaded.fine.last
        loaded.fine = loaded.fine.suffix(Self.fine.count)
        loaded.coarse = loaded.coarse.suffix(Self.coarse.count)
        points.withLock { $0 = loaded }
    }

    /// The points, oldest first; each covers the time since the preceding one.
    package func lastHour() -> [Point] { points.withLock { $0.fine } }
    package func lastDay() -> [Point] { points.withLock { $0.coarse } }
}

extension Timestamp: Codable {
    package init(from decoder: any Decoder) throws {
        self.init(milliseconds: try decoder.singleValueContainer().decode(Int64.self))
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(milliseconds)
    }
}

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

/// A histogram with fixed upper bounds, as in Prometheus.
package struct Histogram: Codable, Sendable {
    /// The upper bounds in ascending order; an implicit last bucket counts all larger values.
    let bounds: [Double]
    private(set) var counts: [UInt64]
    private(set) var sum = 0.0

    /// For durations in seconds, from 0.1 ms to 10 s.
    package static let times = Histogram(bounds: [
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ])
    /// For batch sizes.
    static let batches = Histogram(bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])

    init(bounds: [Double]) {
        self.bounds = bounds
        counts = Array(repeating: 0, count: bounds.count + 1)
    }

    mutating func observe(_ value: Double, times: Int = 1) {
        sum += value * Double(times)
        counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += UInt64(times)
    }

    var count: UInt64 { counts.reduce(0, +) }

    /// Returns the difference from an earlier state of the same histogram.
    func since(_ earlier: Histogram) -> Histogram {
        var difference = self
        difference.counts = zip(counts, earlier.counts).map { $0 >= $1 ? $0 - $1 : $0 }
        difference.sum = max(0, sum - earlier.sum)
        return difference
    }

    mutating func add(_ other: Histogram) {
        guard bounds == other.bounds else { return }
        counts = zip(counts, other.counts).map { $0 &+ $1 }
        sum += other.sum
    }

    /// Returns a quantile, interpolated linearly within its bucket; `nil` for an empty histogram.
    func quantile(_ share: Double) -> Double? {
        let wanted = Double(count) * share
        guard wanted > 0 else { return nil }
        var passed = 0.0
        for (index, own) in counts.enumerated() {
            let below = index == 0 ? 0 : bounds[index - 1]
            guard index < bounds.count else { return below }
            if passed + Double(own) >= wanted, own > 0 {
                return below + (bounds[index] - below) * (wanted - passed) / Double(own)
            }
            passed += Double(own)
        }
        return bounds.last
    }
}
