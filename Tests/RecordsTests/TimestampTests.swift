import Records
import Testing

@Suite struct TimestampTests {
    /// The whole seconds just fit; with the fraction added they no longer do.
    @Test(arguments: [
        (Duration.milliseconds(Int64.max), Int64.max), (.milliseconds(Int64.min), .min),
        (.milliseconds(Int64.max) + .milliseconds(100), .max), (.milliseconds(Int64.min) - .milliseconds(100), .min),
        (.seconds(Int64.max), .max), (.microseconds(1_999), 1), (.microseconds(-1_999), -1),
    ])
    func durationsSaturateAtTheEndsOfTheRange(_ duration: Duration, _ milliseconds: Int64) {
        #expect(duration.wholeMilliseconds == milliseconds)
        #expect(Timestamp(milliseconds: 0) + duration == Timestamp(milliseconds: milliseconds))
    }
}
