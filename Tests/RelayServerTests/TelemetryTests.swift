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
}
