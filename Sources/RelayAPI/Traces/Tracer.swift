import HTTPTypes
package import Records
package import RelayCore
import Synchronization

/// Chooses which requests are traced, and knows whose commits are on their way to become notices.
///
/// Made only where traces are wanted: elsewhere a request has none, which costs it one comparison.
package final class Tracer: Sendable {
    private static let header = HTTPField.Name("traceparent")

    private let time: TimeSource
    private let random: RandomSource
    private let sink: any TraceSink
    /// Requests whose number, spread over all of 64 bits, lies below this.
    private let threshold: UInt64
    private let count = Atomic<UInt64>(0)
    /// Traces of others that were followed in this second of the uptime.
    private let followed = Mutex<(second: Int64, count: Int)>((0, 0))
    /// Of those in one second: anybody can ask for them, and each costs a little.
    package static let followedLimit = 200
    /// The traced writes of the commit that each store is making.
    private let committing = Mutex<[ContainerEnvironment: [RequestTrace]]>([:])

    /// - Parameters:
    ///   - share: how many of the requests are traced, from 0 to 1; those that come with a trace which is kept always are, up to
    ///     `followedLimit` a second.
    ///   - sink: gets the spans.
    ///   - time: the clocks.
    ///   - random: for identifiers.
    package init(share: Double, sink: any TraceSink, time: TimeSource, random: RandomSource) {
        self.time = time
        self.random = random
        self.sink = sink
        threshold = share >= 1 ? .max : UInt64(max(0, share) * 0x1p64)
    }

    /// Begins the trace of a request; `nil` where it is to have none.
    package func begin(_ request: APIRequest) -> RequestTrace? {
        let parent = Self.header.flatMap { request.headers[$0] }.flatMap { TraceContext(traceparent: $0) }
        // Evenly spread without a draw: multiples of the golden ratio.
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

    /// A traced write is part of the commit that this store is making.
    func decides(_ trace: RequestTrace, in home: ContainerEnvironment) {
        committing.withLock { committing in
            // It may be decided twice, when the commit it shared fails.
            guard committing[home]?.contains(where: { $0 === trace }) != true else { return }
            committing[home, default: []].append(trace)
        }
    }

    /// Its commit is over.
    func committed(_ trace: RequestTrace, in home: ContainerEnvironment) {
        committing.withLock { committing in
            committing[home]?.removeAll { $0 === trace }
            if committing[home]?.isEmpty == true { committing[home] = nil }
        }
    }

    /// The traced writes of the commit of which this store tells now.
    package func writes(in home: ContainerEnvironment) -> [RequestTrace] {
        committing.withLock { $0[home] ?? [] }
    }
}
