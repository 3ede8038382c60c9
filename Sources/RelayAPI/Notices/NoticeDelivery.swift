/// The notices of one commit on their way to sockets: how long they take is told to whoever measures it.
package final class NoticeDelivery: Sendable {
    /// When and what is measured.
    package struct Timing: Sendable {
        /// A clock that never goes back.
        package var uptime: @Sendable () -> Duration
        /// Hears how many devices of one lane were handed a notice, and how long after its commit.
        ///
        /// On the lane, once for each notice and lane: it must not wait.
        package var delivered: @Sendable (Int, Duration) -> Void
        /// The same for notices of query subscriptions, which are found beside the commits.
        package var queryDelivered: @Sendable (Int, Duration) -> Void

        package init(
            uptime: @escaping @Sendable () -> Duration,
            delivered: @escaping @Sendable (Int, Duration) -> Void,
            queryDelivered: @escaping @Sendable (Int, Duration) -> Void = { _, _ in }
        ) {
            self.uptime = uptime
            self.delivered = delivered
            self.queryDelivered = queryDelivered
        }
    }

    private let timing: Timing
    private let traces: [RequestTrace]
    private let start: Duration
    private let isOfQuery: Bool

    init(_ timing: Timing, _ traces: [RequestTrace]) {
        self.timing = timing
        self.traces = traces
        start = timing.uptime()
        isOfQuery = false
    }

    /// Of a query subscription's notice, whose commit was then.
    init(_ timing: Timing, ofQuerySince start: Duration) {
        self.timing = timing
        self.start = start
        traces = []
        isOfQuery = true
    }

    /// A lane has handed the notice to so many devices.
    func reached(_ devices: Int) {
        guard devices > 0 else { return }
        let end = timing.uptime()
        guard !isOfQuery else { return timing.queryDelivered(devices, end - start) }
        timing.delivered(devices, end - start)
        for trace in traces { trace.noteNotice(from: start, to: end, devices: devices) }
    }
}
