import Foundation
import Records
import RelayAPI
import RelayServer
import Testing

/// The relay's record of its own measurements.
@Suite struct TelemetryTests {
    private func take(_ count: Int, from start: Timestamp, _ telemetry: Telemetry) {
        for number in 0..<count {
            telemetry.take(
                Telemetry.Point(
                    at: start + .seconds(10 * number),
                    reading: MetricsReading(),
                    connections: 0,
                    notices: NoticeTally.Counts()
                )
            )
        }
    }

    @Test func aClockThatIsPutBackDoesNotDiscardTheDay() {
        let telemetry = Telemetry()
        let start = Timestamp(milliseconds: 1_800_000_000_000)
        take(61, from: start + .seconds(365 * 86_400), telemetry)
        #expect(telemetry.lastDay().count == 3)
        take(61, from: start, telemetry)
        #expect(telemetry.lastDay().count == 6)
        #expect(telemetry.lastHour().count == 122)
    }

    private func point(_ at: Timestamp, requests: UInt64, sent: Int) -> Telemetry.Point {
        var reading = MetricsReading()
        var operation = MetricsReading.Operation(name: "records/query")
        operation.requests = requests
        reading.operations = [operation]
        var notices = NoticeTally.Counts()
        notices.sent = sent
        return Telemetry.Point(at: at, reading: reading, connections: 0, notices: notices)
    }

    @Test("a loaded history continues: the counters of the new run begin at zero, the sums do not")
    func restart() throws {
        let start = Timestamp(milliseconds: 1_800_000_000_000)
        let before = Telemetry()
        before.take(point(start, requests: 0, sent: 0))
        before.take(point(start + .seconds(10), requests: 7, sent: 3))
        let after = Telemetry()
        after.load(try #require(before.saved))
        after.take(point(start + .seconds(60), requests: 0, sent: 0))
        after.take(point(start + .seconds(70), requests: 5, sent: 1))
        let summary = TelemetrySummary(after.lastHour())
        #expect(summary.points.map(\.requests) == [7, 0, 5])
        #expect(summary.sum.requests == 12)
        #expect(summary.sum.notices == 4)
    }

    @Test func pointsBeforeALongPauseAreNotShownAsTheLastHour() throws {
        let start = Timestamp(milliseconds: 1_800_000_000_000)
        let before = Telemetry()
        before.take(point(start, requests: 7, sent: 3))
        let after = Telemetry()
        after.load(try #require(before.saved))
        after.take(point(start + .seconds(7_200), requests: 1, sent: 0))
        #expect(after.lastHour().count == 1)
        #expect(after.lastDay().count == 2)
    }
}
