package import Records
package import RelayAPI
import Synchronization

/// What was counted up to some moment: of two readings the difference is what happened between them.
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

/// How the relay has done in the last hour and the last day, in a bounded number of readings.
///
/// Somebody calls `take` every ten seconds; requests cost nothing beside what they cost the metrics.
package final class Telemetry: Sendable {
    /// One moment.
    package struct Point: Sendable {
        package var at: Timestamp
        package var reading: MetricsReading
        package var connections: Int
        package var notices: NoticeTally.Counts
        /// Of the SQLite files.
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

    /// The time between two points, and how many are kept: an hour at ten seconds, a day at five minutes.
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

    /// The oldest first; each stands for the time since the one before it.
    package func lastHour() -> [Point] { points.withLock { $0.fine } }
    package func lastDay() -> [Point] { points.withLock { $0.coarse } }
}
