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
    private let continuedTraces = Mutex<(second: Int64, count: Int)>((0, 0))
    /// The maximum per second: any client can request tracing, and each trace has a cost.
    package static let continuedTraceLimit = 200
    /// The traced writes in the current commit of each store.
    private let committing = Mutex<[ContainerEnvironment: [RequestTrace]]>([:])

    /// - Parameters:
    ///   - share: The share of traced requests, from 0 to 1. Requests with a sampled parent trace are always traced, up
    ///     to `continuedTraceLimit` per second.
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
        guard parent.map({ $0.isSampled && mayContinueTrace() }) ?? isChosen else { return nil }
        return RequestTrace(under: parent, tracer: self, time: time, random: random, sink: sink)
    }

    private func mayContinueTrace() -> Bool {
        let second = time.uptime().components.seconds
        return continuedTraces.withLock { continuedTraces in
            continuedTraces = continuedTraces.second == second ? (second, continuedTraces.count + 1) : (second, 1)
            return continuedTraces.count <= Self.continuedTraceLimit
        }
    }

    // MARK: From a commit to its notices

    /// Records that a traced write is part of the current commit of this store.
    func writeDecided(_ trace: RequestTrace, in home: ContainerEnvironment) {
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

/// A store that records the reads, waits, decisions and commits of one traced request.
struct TracedStore: Store {
    private let store: any Store
    private let home: ContainerEnvironment
    private let trace: RequestTrace

    init(_ store: any Store, of home: ContainerEnvironment, _ trace: RequestTrace) {
        self.store = store
        self.home = home
        self.trace = trace
    }

    var currentSchema: Schema { store.currentSchema }

    func epochs(of owner: UserID) throws(RelayError) -> Epochs { try store.epochs(of: owner) }

    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
        let start = trace.uptime()
        defer { trace.note("read", from: start, to: trace.uptime()) }
        return try store.read(body)
    }

    func query<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) async throws(RelayError) -> Result {
        let start = trace.uptime()
        defer { trace.note("query", from: start, to: trace.uptime()) }
        return try await store.query(body)
    }

    func publicQuery<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        let start = trace.uptime()
        defer { trace.note("query", from: start, to: trace.uptime()) }
        return try await store.publicQuery(body)
    }

    func write(_ write: any StoreWrite) {
        store.write(TracedWrite(write, of: home, trace))
    }
}

/// A write of a traced request.
// Unchecked because of `decided`: only the store's writer accesses it, one thread at a time.
private final class TracedWrite: StoreWrite, @unchecked Sendable {
    var user: UserID? { write.user }
    var owner: UserID? { write.owner }
    var prefetch: Prefetch { write.prefetch }
    private let write: any StoreWrite
    private let home: ContainerEnvironment
    private let trace: RequestTrace
    private let asked: Duration
    // If the write is decided twice, the last time counts.
    private var decided: (start: Duration, end: Duration)?

    init(_ write: any StoreWrite, of home: ContainerEnvironment, _ trace: RequestTrace) {
        self.write = write
        self.home = home
        self.trace = trace
        asked = trace.uptime()
    }

    func run(in writer: any StoreWriter) {
        let start = trace.uptime()
        trace.tracer.writeDecided(trace, in: home)
        write.run(in: writer)
        decided = (start, trace.uptime())
    }

    func finish(_ failure: RelayError?) {
        trace.tracer.committed(trace, in: home)
        if let (start, end) = decided {
            trace.note("wait", from: asked, to: start)
            trace.note("decide", from: start, to: end)
            trace.note("commit", from: end, to: trace.uptime())
        }
        write.finish(failure)
    }
}
