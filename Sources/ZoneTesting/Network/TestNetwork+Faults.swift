import Records
import Synchronization
import ZoneKit

extension TestNetwork {
    /// What can go wrong with one request.
    public enum Fault: Sendable {
        /// Nothing: for a request before the one that is to fail.
        case passes
        /// It never reaches the relay.
        case unreachable
        /// The relay carries it out, and the answer is lost.
        case losesAnswer
        /// The relay gets it twice; the second answer comes back.
        case doubled
        /// It takes so much longer, each way.
        case slow(Duration)
        /// The relay refuses for now: too many requests. The device may try again after so long.
        case throttled(retryAfter: Duration)
        /// The relay refuses for now: it is out of service. The device may try again after so long.
        case busy(retryAfter: Duration)
        /// The relay refuses: the device's user has to sign in again.
        case signedOut
        /// Something in between answers instead of the relay.
        case answered(status: Int, body: String)
        /// The relay carries it out, and something in between answers in its stead: a proxy that has waited long enough.
        case answeredInstead(status: Int, body: String)
        /// Something else happens while the request is on its way: a participant is removed, the relay restarted.
        case meanwhile(@Sendable () async -> Void)
        /// Something else happens when the relay has carried it out, and before the answer comes back.
        case beforeAnswer(@Sendable () async -> Void)
    }

    /// What becomes of the relay's notices on their way to the device.
    public enum NoticeHandling: Sendable {
        /// Each arrives once, in order.
        case delivered
        /// None arrives.
        case dropped
        /// Each arrives twice.
        case doubled
        /// They overtake each other by up to a second.
        case reordered
    }

    /// A fault for the nth request of one kind.
    struct AimedFault {
        var operation: String
        var skips: Int
        var fault: Fault
    }

    /// Makes the next requests go wrong, one fault each, in order.
    public func fail(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// Makes one request to come go wrong.
    ///
    /// - Parameters:
    ///   - number: Which of the requests from now on, counted from 1.
    ///   - operation: Requests of this kind only, such as `records/modify` or `asset/1/download`; left out, all
    ///     count.
    ///   - fault: What goes wrong.
    public func fail(request number: Int, of operation: String = "", by fault: Fault) {
        state.withLock { $0.aimed.append(AimedFault(operation: operation, skips: number - 1, fault: fault)) }
    }

    /// Forgets the faults that have not been met.
    public func failNothing() {
        state.withLock { state in
            state.faults = []
            state.aimed = []
            state.throttledUntil = nil
        }
    }

    /// Makes the relay refuse every request of this device for so long, each time with how long is left.
    public func throttle(for duration: Duration) {
        state.withLock { $0.throttledUntil = world.clock.now.advanced(by: duration) }
    }

    /// What becomes of notices; delivered unless said otherwise.
    public var notices: NoticeHandling {
        get { state.withLock { $0.notices } }
        set { state.withLock { $0.notices = newValue } }
    }
}

/// What becomes of one request.
struct RequestPlan {
    enum Way {
        case offline
        case answered(RelayResponse)
        case carried(TestNetwork.Fault?)
    }

    var way: Way
    var thither = Duration.zero
    var back = Duration.zero
}

extension TestNetwork.State {
    /// Decides about a request, and takes out the fault that it meets.
    mutating func plan(
        _ operation: String,
        at now: TestClock.Instant,
        _ random: inout some RandomNumberGenerator
    ) -> RequestPlan {
        operations.append(operation)
        if isCut { return RequestPlan(way: .offline) }
        if let until = throttledUntil, until > now {
            return RequestPlan(way: .answered(.refusal(429, .throttled, retryAfter: now.duration(to: until))))
        }
        var plan = RequestPlan(way: .carried(nil), thither: latency, back: latency)
        if let fault = takeFault(operation) ?? weather?.fault(&random) {
            plan.way = Self.way(of: fault)
            if case .slow(let more) = fault {
                plan.thither += more
                plan.back += more
            }
        }
        if let weather {
            plan.thither += weather.delay(&random)
            plan.back += weather.delay(&random)
        }
        return plan
    }

    private static func way(of fault: TestNetwork.Fault) -> RequestPlan.Way {
        switch fault {
        case .passes, .slow: .carried(nil)
        case .throttled(let wait): .answered(.refusal(429, .throttled, retryAfter: wait))
        case .busy(let wait): .answered(.refusal(503, .tryAgainLater, retryAfter: wait))
        case .signedOut: .answered(.refusal(421, .authenticationRequired, retryAfter: nil))
        case .answered(let status, let body): .answered(RelayResponse(status: status, body: Array(body.utf8)))
        case .unreachable, .losesAnswer, .answeredInstead, .doubled, .meanwhile, .beforeAnswer: .carried(fault)
        }
    }

    private mutating func takeFault(_ operation: String) -> TestNetwork.Fault? {
        var met: TestNetwork.Fault?
        for index in aimed.indices.reversed() where operation.hasSuffix(aimed[index].operation) {
            if aimed[index].skips == 0 { met = aimed.remove(at: index).fault } else { aimed[index].skips -= 1 }
        }
        if let met { return met }
        return faults.isEmpty ? nil : faults.removeFirst()
    }
}

extension RelayResponse {
    /// A refusal in the relay's own words.
    static func refusal(_ status: Int, _ code: ErrorCode, retryAfter: Duration?) -> RelayResponse {
        let wait = retryAfter.map { #","retryAfter":\#(max(0, $0.inSeconds))"# } ?? ""
        let body = #"{"uuid":"test","serverErrorCode":"\#(code.rawValue)","reason":"The test said so."\#(wait)}"#
        return RelayResponse(status: status, body: Array(body.utf8))
    }
}
