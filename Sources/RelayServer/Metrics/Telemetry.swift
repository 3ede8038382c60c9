package import Records
package import RelayAPI
import Synchronization

/// The values of all counters at one time; the difference of two readings describes the time between them.
package struct MetricsReading: Sendable {
    package struct Operation: Sendable {
        package var name: String
        package var requests: UInt64 = 0
        /// By `serverErrorCode`.
        package var errors: [String: UInt64] = [:]
        package var sentBytes: UInt64 = 0
        package var times = Histogram.times
    }

    package var operations: [Operation] = []
    package var commitTimes = Histogram.times
    package var commits: UInt64 = 0
    package var writes: UInt64 = 0
    package var noticeTimes = Histogram.times

    package init() {}
}

/// The relay's history of the last hour and the last day, in a bounded number of readings.
///
/// The caller adds a point every ten seconds; requests cost nothing in addition to the metrics.
package final class Telemetry: Sendable {
    /// The readings at one time.
    package struct Point: Sendable {
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

    private struct Points {
        var fine: [Point] = []
        var coarse: [Point] = []
    }

    private let points = Mutex(Points())

    package init() {}

    package func take(_ point: Point) {
        points.withLock { points in
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
    }

    /// The points, oldest first; each covers the time since the preceding one.
    package func lastHour() -> [Point] { points.withLock { $0.fine } }
    package func lastDay() -> [Point] { points.withLock { $0.coarse } }
}
