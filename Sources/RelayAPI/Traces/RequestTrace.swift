import Records
package import RelayCore
import Synchronization

/// The spans of one sampled request: its own, and those of its reads, its write and its notices.
///
/// Safe to use from any thread, because a write is decided and committed on another thread than the request's.
package final class RequestTrace: Sendable {
    private struct State {
        var spans: [TraceSpan] = []
        var notices = 0
        var hasEnded = false
    }

    private let trace: TraceContext.TraceID
    private let parent: UInt64?
    private let id: UInt64
    /// The tracer that created this trace.
    let tracer: Tracer
    private let time: TimeSource
    private let random: RandomSource
    private let sink: any TraceSink
    /// The start by both clocks; spans are measured by the monotonic one.
    private let begin: (uptime: Duration, now: Timestamp)
    private let state = Mutex(State())

    /// The maximum number of notice spans per request: a commit may concern thousands of users.
    private static let noticeLimit = 16

    /// Begins a trace now, under `parent` or as a new trace.
    init(
        under parent: TraceContext?,
        tracer: Tracer,
        time: TimeSource,
        random: RandomSource,
        sink: any TraceSink
    ) {
        self.tracer = tracer
        self.time = time
        self.random = random
        self.sink = sink
        trace = parent?.trace ?? .init(high: Self.draw(random), low: Self.draw(random))
        self.parent = parent?.span
        id = Self.draw(random)
        begin = (time.uptime(), time.now())
    }

    /// Returns a random number other than zero, which means "no ID".
    private static func draw(_ random: RandomSource) -> UInt64 {
        max(1, random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// The clock by which spans are measured.
    func uptime() -> Duration { time.uptime() }

    /// Records a span between two moments of `uptime`.
    func note(_ name: String, from start: Duration, to end: Duration, _ attributes: [TraceSpan.Attribute] = []) {
        let span = span(name, .internal, from: start, to: end, id: Self.draw(random), parent: id, attributes)
        add(span)
    }

    /// Records that a notice of the request's commit has been delivered to devices.
    func noteNotice(from start: Duration, to end: Duration, devices: Int) {
        let isWanted = state.withLock { state in
            state.notices += 1
            return state.notices <= Self.noticeLimit
        }
        guard isWanted else { return }
        let attributes = [TraceSpan.Attribute("zonecast.devices", .number(devices))]
        add(span("notices", .producer, from: start, to: end, id: Self.draw(random), parent: id, attributes))
    }

    /// Ends the request's span and exports all spans; later spans are exported one by one.
    package func end(_ name: String, _ attributes: [TraceSpan.Attribute], isFailure: Bool) {
        var own = span(name, .server, from: begin.uptime, to: time.uptime(), id: id, parent: parent, attributes)
        own.isFailure = isFailure
        let spans = state.withLock { state in
            defer { state.spans = [] }
            state.hasEnded = true
            return [own] + state.spans
        }
        sink.take(spans)
    }

    private func add(_ span: TraceSpan) {
        let isLate = state.withLock { state in
            if !state.hasEnded { state.spans.append(span) }
            return state.hasEnded
        }
        if isLate { sink.take([span]) }
    }

    private func span(
        _ name: String,
        _ kind: TraceSpan.Kind,
        from start: Duration,
        to end: Duration,
        id: UInt64,
        parent: UInt64?,
        _ attributes: [TraceSpan.Attribute]
    ) -> TraceSpan {
        TraceSpan(
            trace: trace,
            id: id,
            parent: parent,
            name: name,
            kind: kind,
            start: wall(start),
            end: max(wall(start), wall(end)),
            attributes: attributes
        )
    }

    private func wall(_ moment: Duration) -> Int64 {
        let (seconds, attoseconds) = (moment - begin.uptime).components
        return begin.now.milliseconds * 1_000_000 + seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
