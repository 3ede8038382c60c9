/// Measures how long the notices of one commit take to reach their sockets.
package final class NoticeDelivery: Sendable {
    /// The clock and the callbacks of the measurement.
    package struct Timing: Sendable {
        /// A monotonic clock.
        package var uptime: @Sendable () -> Duration
        /// Receives the number of devices of one event loop that were sent a notice, and the time since its commit.
        ///
        /// Called on the event loop, once per notice and event loop. Must not block.
        package var delivered: @Sendable (Int, Duration) -> Void
        /// Like `delivered`, for notices of query subscriptions, which are matched asynchronously.
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

    /// Creates the measurement for a query subscription's notice; `start` is the time of the commit.
    init(_ timing: Timing, ofQuerySince start: Duration) {
        self.timing = timing
        self.start = start
        traces = []
        isOfQuery = true
    }

    /// Called when an event loop has sent the notice to `devices` devices.
    func reached(_ devices: Int) {
        guard devices > 0 else { return }
        let end = timing.uptime()
        guard !isOfQuery else { return timing.queryDelivered(devices, end - start) }
        timing.delivered(devices, end - start)
        for trace in traces { trace.noteNotice(from: start, to: end, devices: devices) }
    }
}
