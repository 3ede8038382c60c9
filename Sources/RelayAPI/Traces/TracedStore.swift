import Records
import RelayCore
import Synchronization

/// A store in the hands of one traced request, which notes how long it reads, waits, decides and commits.
struct TracedStore: Store {
    private let store: any Store
    private let home: ContainerEnvironment
    private let trace: RequestTrace

    init(_ store: any Store, of home: ContainerEnvironment, _ trace: RequestTrace) {
        self.store = store
        self.home = home
        self.trace = trace
    }

    var epoch: UInt64 { store.epoch }
    var currentSchema: Schema { store.currentSchema }

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

    /// When a write was decided: the last time counts, should it be decided twice.
    private final class Decision: Sendable {
        let times = Mutex<(start: Duration, end: Duration)?>(nil)
    }

    func write<Value: Sendable>(
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        let decision = Decision()
        let asked = trace.uptime()
        store.write { writer throws(RelayError) in
            let start = trace.uptime()
            trace.tracer.decides(trace, in: home)
            defer {
                let end = trace.uptime()
                decision.times.withLock { $0 = (start, end) }
            }
            return try body(writer)
        } then: { result in
            trace.tracer.committed(trace, in: home)
            if let (start, end) = decision.times.withLock({ $0 }) {
                trace.note("wait", from: asked, to: start)
                trace.note("decide", from: start, to: end)
                trace.note("commit", from: end, to: trace.uptime())
            }
            then(result)
        }
    }
}
