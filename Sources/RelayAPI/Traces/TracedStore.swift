import Records
import RelayCore

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

    var epochs: Epochs { store.epochs }
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

    func write(_ write: any StoreWrite) {
        store.write(TracedWrite(write, of: home, trace))
    }
}

/// A write of a traced request.
// Unchecked because of `decided`: only the store's writer accesses it, one thread at a time.
private final class TracedWrite: StoreWrite, @unchecked Sendable {
    var user: UserID? { write.user }
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
        trace.tracer.decides(trace, in: home)
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
