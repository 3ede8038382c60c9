import HTTPTypes
package import Records
package import RelayCore
import Synchronization

/// Selects the requests to trace, and relates traced writes to the notices of their commits.
///
/// Created only if tracing is enabled; otherwise a request costs one comparison.
package final class Tracer: Sendable {
    private static let header = HTTPField.Name("traceparent")

    private let time: TimeSource
    private let random: RandomSource
    private let sink: any TraceSink
    /// A request is traced if its number, spread over 64 bits, is below this value.
    private let threshold: UInt64
    private let count = Atomic<UInt64>(0)
    /// The number of clients' traces that were continued in this second of uptime.
    private let followed = Mutex<(second: Int64, count: Int)>((0, 0))
    /// The maximum per second: any client can request tracing, and each trace has a cost.
    package static let followedLimit = 200
    /// The traced writes in the current commit of each store.
    private let committing = Mutex<[ContainerEnvironment: [RequestTrace]]>([:])

    /// - Parameters:
    ///   - share: The share of traced requests, from 0 to 1. Requests with a sampled parent trace are always traced, up
    ///     to `followedLimit` per second.
    ///   - sink: Receives the spans.
    ///   - time: The clocks.
    ///   - random: The source of identifiers.
    package init(share: Double, sink: any TraceSink, time: TimeSource, random: RandomSource) {
        self.time = time
        self.random = random
        self.sink = sink
        threshold = share >= 1 ? .max : UInt64(max(0, share) * 0x1p64)
    }

    /// Begins the trace of a request; returns `nil` if the request is not traced.
    package func begin(_ request: APIRequest) -> RequestTrace? {
        let parent = Self.header.flatMap { request.headers[$0] }.flatMap { TraceContext(traceparent: $0) }
        // Multiples of the golden ratio are evenly distributed without a random number.
        let number = count.add(1, ordering: .relaxed).newValue &* 0x9E37_79B9_7F4A_7C15
        let isChosen = threshold > 0 && number <= threshold
        guard parent.map({ $0.isSampled && mayFollow() }) ?? isChosen else { return nil }
        return RequestTrace(under: parent, tracer: self, time: time, random: random, sink: sink)
    }

    private func mayFollow() -> Bool {
        let second = time.uptime().components.seconds
        return followed.withLock { followed in
            followed = followed.second == second ? (second, followed.count + 1) : (second, 1)
            return followed.count <= Self.followedLimit
        }
    }

    // MARK: From a commit to its notices

    /// Records that a traced write is part of the current commit of this store.
    func decides(_ trace: RequestTrace, in home: ContainerEnvironment) {
        committing.withLock { committing in
            // A write is decided twice if the commit that it shared has failed.
            guard committing[home]?.contains(where: { $0 === trace }) != true else { return }
            committing[home, default: []].append(trace)
        }
    }

    /// Records that the commit of a traced write is over.
    func committed(_ trace: RequestTrace, in home: ContainerEnvironment) {
        committing.withLock { committing in
            committing[home]?.removeAll { $0 === trace }
            if committing[home]?.isEmpty == true { committing[home] = nil }
        }
    }

    /// The traced writes of the commit that this store reports now.
    package func writes(in home: ContainerEnvironment) -> [RequestTrace] {
        committing.withLock { $0[home] ?? [] }
    }
}
