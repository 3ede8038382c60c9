import Records
import Synchronization
import ZoneKit

extension TestNetwork {
    /// A fault in one request.
    public enum Fault: Sendable {
        /// No fault: for requests before the one that is to fail.
        case passes
        /// The request never reaches the relay.
        case unreachable
        /// The relay executes the request, and the response is lost.
        case losesAnswer
        /// The relay receives the request twice; the device receives the second response.
        case doubled
        /// The request and the response each take this much longer.
        case slow(Duration)
        /// The relay refuses the request for now, with "too many requests". The device may retry after this time.
        case throttled(retryAfter: Duration)
        /// The relay refuses the request for now, as out of service. The device may retry after this time.
        case busy(retryAfter: Duration)
        /// The relay refuses the request: the device's user has to sign in again.
        case signedOut
        /// An intermediary responds, and the relay receives nothing.
        case answered(status: Int, body: String)
        /// The relay executes the request, but an intermediary responds, like a proxy after a timeout.
        case answeredInstead(status: Int, body: String)
        /// Something else happens before the request reaches the relay, such as the removal of a participant or a
        /// restart.
        case meanwhile(@Sendable () async -> Void)
        /// Something else happens after the relay has executed the request, and before the response arrives.
        case beforeAnswer(@Sendable () async -> Void)
    }

    /// How the network handles notices from the relay to the device.
    public enum NoticeHandling: Sendable {
        /// Each notice arrives once, in order.
        case delivered
        /// No notice arrives.
        case dropped
        /// Each notice arrives twice.
        case doubled
        /// Notices overtake each other by up to a second.
        case reordered
    }

    /// A fault for the nth request of one kind.
    struct AimedFault {
        var operation: String
        var skips: Int
        var fault: Fault
    }

    /// Makes the next requests fail, with one fault each, in this order.
    public func fail(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// Makes one future request fail.
    ///
    /// - Parameters:
    ///   - number: the number of the request, counted from 1 from now on.
    ///   - operation: count only requests of this kind, such as `records/modify` or `asset/1/download`; by default all.
    ///   - fault: the fault.
    public func fail(request number: Int, of operation: String = "", by fault: Fault) {
        state.withLock { $0.aimed.append(AimedFault(operation: operation, skips: number - 1, fault: fault)) }
    }

    /// Removes all faults that have not occurred yet.
    public func failNothing() {
        state.withLock { state in
            state.faults = []
            state.aimed = []
            state.throttledUntil = nil
        }
    }

    /// Makes the relay refuse every request of this device for this time, with the remaining time as `retryAfter`.
    public func throttle(for duration: Duration) {
        state.withLock { $0.throttledUntil = world.clock.now.advanced(by: duration) }
    }

    /// How notices are handled; `delivered` by default.
    public var notices: NoticeHandling {
        get { state.withLock { $0.notices } }
        set { state.withLock { $0.notices = newValue } }
    }
}

/// What happens to one request.
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
    /// Plans a request, and removes the fault that applies to it.
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
    /// Creates an error response in the form of the relay's.
    static func refusal(_ status: Int, _ code: ErrorCode, retryAfter: Duration?) -> RelayResponse {
        let wait = retryAfter.map { #","retryAfter":\#(max(0, $0.inSeconds))"# } ?? ""
        let body = #"{"uuid":"test","serverErrorCode":"\#(code.rawValue)","reason":"Injected by the test."\#(wait)}"#
        return RelayResponse(status: status, body: Array(body.utf8))
    }
}
