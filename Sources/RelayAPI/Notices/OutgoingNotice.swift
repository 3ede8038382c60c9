package import Wire

/// The bytes of one frame, encoded once and shared by all connections that receive it.
///
/// A class so that a transport can cache its own encoding by identity.
package final class NoticeFrame: Sendable {
    /// The message's text.
    package let text: [UInt8]

    package init(_ frame: ServerFrame) { text = frame.encoded }
}

/// A notice for all devices of one user.
package struct OutgoingNotice: Sendable {
    /// The subject.
    ///
    /// A newer notice about the same subject replaces a queued one.
    package var subject: NoticeSubject
    package var frame: NoticeFrame
    /// Creates a frame without a zone, which replaces many notices if a client reads too slowly.
    package var collapsed: @Sendable () -> NoticeFrame
    /// The `aps` member if the notice is visible or audible.
    package var aps: [UInt8]?
    /// The measurement of its commit, if enabled.
    var delivery: NoticeDelivery?

    package init(_ notice: Notice) {
        aps = notice.aps
        subject = NoticeSubject(
            scope: notice.scope,
            zone: notice.zone,
            match: notice.query.map { .init(subscriptionID: notice.subscriptionID, recordName: $0.recordName) }
        )
        frame = NoticeFrame(.notice(notice))
        collapsed = {
            var whole = notice
            whole.zone = nil
            whole.syncToken = nil
            whole.aps = nil
            if whole.query != nil { whole.query = .init() }
            return NoticeFrame(.notice(whole))
        }
    }
}

/// The unsent notices of one connection: a bounded queue with at most one per zone.
///
/// A newer notice replaces an older one about the same zone. When the bound is exceeded, all notices collapse into one
/// for each database, which also makes the client fetch.
struct NoticeQueue: Sendable {
    private struct Entry: Sendable {
        var notice: OutgoingNotice
        var isCollapsed = false
    }

    private var entries: [Entry] = []
    private var bytes = 0
    /// Since when the reader has been too slow for the bound; `nil` if all notices have been sent since.
    private(set) var fullSince: Duration?

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }

    mutating func put(_ notice: OutgoingNotice, limits: NoticeLimits, at now: Duration) {
        for index in entries.indices where entries[index].notice.subject.scope == notice.subject.scope {
            // A collapsed entry stands for its whole database and does not change.
            if entries[index].isCollapsed { return }
            if entries[index].notice.subject == notice.subject {
                bytes += notice.frame.text.count - entries[index].notice.frame.text.count
                entries[index].notice = notice
                return
            }
        }
        entries.append(Entry(notice: notice))
        bytes += notice.frame.text.count
        guard entries.count > limits.queuedNotices || bytes > limits.queuedBytes else { return }
        fullSince = fullSince ?? now
        collapse()
    }

    /// Inserts older notices at the front, except those about a zone that is already queued.
    mutating func putFirst(_ older: [OutgoingNotice], limits: NoticeLimits) {
        let newer = entries
        let since = fullSince
        entries = []
        bytes = 0
        for notice in older { put(notice, limits: limits, at: .zero) }
        for entry in newer {
            if entry.isCollapsed { entries.removeAll { $0.notice.subject.scope == entry.notice.subject.scope } }
            put(entry.notice, limits: limits, at: .zero)
            if entry.isCollapsed, !entries.isEmpty { entries[entries.count - 1].isCollapsed = true }
        }
        fullSince = since
    }

    /// Removes and returns the oldest frame.
    mutating func removeFirst() -> NoticeFrame? {
        guard !entries.isEmpty else { return nil }
        let frame = entries.removeFirst().notice.frame
        bytes -= frame.text.count
        if entries.isEmpty { self = NoticeQueue() }
        return frame
    }

    /// Removes and returns all frames, oldest first.
    mutating func removeAll() -> [NoticeFrame] { removeAllNotices().map(\.frame) }

    /// Removes and returns all notices, oldest first.
    mutating func removeAllNotices() -> [OutgoingNotice] {
        let notices = entries.map(\.notice)
        self = NoticeQueue()
        return notices
    }

    private mutating func collapse() {
        var collapsed: [Entry] = []
        for entry in entries where !collapsed.contains(where: { $0.notice.subject.scope == entry.notice.subject.scope })
        {
            var notice = entry.notice
            notice.frame = notice.collapsed()
            notice.subject.zone = nil
            notice.subject.match = nil
            collapsed.append(Entry(notice: notice, isCollapsed: true))
        }
        entries = collapsed
        bytes = collapsed.reduce(0) { $0 + $1.notice.frame.text.count }
    }
}

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
