import Synchronization

/// A network with random faults: the probability of each, between 0 and 1.
package struct Weather: Sendable {
    package var losesRequest = 0.0
    /// The response is lost, or replaced by that of a proxy.
    package var losesAnswer = 0.0
    package var doubles = 0.0
    package var throttles = 0.0
    package var isBusy = 0.0
    package var dropsNotice = 0.0
    package var doublesNotice = 0.0
    package var reordersNotice = 0.0
    /// The range of the delay in each direction, in milliseconds, uniformly distributed.
    package var delays: ClosedRange<Int64> = 0...0

    package init() {}

    func fault(_ random: inout some RandomNumberGenerator) -> TestNetwork.Fault? {
        var draw = Double.random(in: 0..<1, using: &random)
        let wait = Duration.milliseconds(Int64.random(in: 0...20_000, using: &random))
        let proxys = TestNetwork.Fault.answeredInstead(status: 504, body: "<html>")
        let loss = Bool.random(using: &random) ? .losesAnswer : proxys
        let faults: [(Double, TestNetwork.Fault)] = [
            (losesRequest, .unreachable), (losesAnswer, loss), (doubles, .doubled),
            (throttles, .throttled(retryAfter: wait)), (isBusy, .busy(retryAfter: wait)),
        ]
        for (chance, fault) in faults {
            if draw < chance { return fault }
            draw -= chance
        }
        return nil
    }

    func notices(_ random: inout some RandomNumberGenerator) -> TestNetwork.NoticeHandling {
        var draw = Double.random(in: 0..<1, using: &random)
        let faults: [(Double, TestNetwork.NoticeHandling)] = [
            (dropsNotice, .dropped), (doublesNotice, .doubled), (reordersNotice, .reordered),
        ]
        for (chance, handling) in faults {
            if draw < chance { return handling }
            draw -= chance
        }
        return .delivered
    }

    /// Draws a delay.
    func delay(_ random: inout some RandomNumberGenerator) -> Duration {
        .milliseconds(Int64.random(in: delays, using: &random))
    }
}

extension TestNetwork {
    /// The random faults of this network; `nil` for only those that the test injects.
    package var weather: Weather? {
        get { state.withLock { $0.weather } }
        set { state.withLock { $0.weather = newValue } }
    }
}
