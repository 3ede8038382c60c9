import Dispatch
import GRDB
import Synchronization

/// A store's file as its users open it.
///
/// Tasks may read with or without waiting, in any number, and nobody waits for ever: a plain read blocks its thread until a
/// connection is free, and with GRDB's own pool that could be one which a suspended task holds, which in turn waits for a
/// thread to go on. So whoever holds a connection here is always running: reads that suspend are plain reads on threads of
/// their own, and the connections of the program's own queries are others than ours.
///
/// In a test's world accesses from tasks are made at once, on the caller's thread: then one seed gives one order of
/// everything, and nothing is under way that the world does not know of.
struct MirrorPool: Sendable {
    /// The readers of contexts and of the mirror itself.
    ///
    /// Above the writer, so let go of before it: the last connection brings the log into the file, and a reader cannot.
    private let views: DatabasePool
    /// The writer, and the program's own readers.
    let pool: DatabasePool
    private let lanes: ReadingLanes
    private let isImmediate: Bool

    init(path: String, configuration: Configuration, isImmediate: Bool) throws {
        pool = try DatabasePool(path: path, configuration: configuration)
        var reading = configuration
        reading.readonly = true
        // As many as may read at once: the main thread, the threads of tasks, and our own.
        reading.maximumReaderCount = 16
        views = try DatabasePool(path: path, configuration: reading)
        lanes = ReadingLanes()
        self.isImmediate = isImmediate
    }

    func read<Value>(_ body: (Database) throws -> Value) throws -> Value { try views.read(body) }

    func write<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.write(body) }

    private func inspect<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try pool.writeWithoutTransaction(body)
    }

    func read<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        if isImmediate { return try readNow(body) }
        let views = views
        return try await lanes.run { try views.read(body) }
    }

    func write<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        if isImmediate { return try writeNow(body) }
        return try await pool.write(body)
    }

    func writeWithoutTransaction<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        if isImmediate { return try inspect(body) }
        return try await pool.writeWithoutTransaction(body)
    }

    /// Brings what the log holds into the file, as far as no reader still needs it there.
    func putAway() async throws {
        try await writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
    }

    /// Closes the file as the end of the program would.
    func abandon() {
        try? views.close()
        try? pool.close()
    }

    // By names of their own, since a task would choose the calls that suspend.
    private func readNow<Value>(_ body: (Database) throws -> Value) throws -> Value { try views.read(body) }
    private func writeNow<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.write(body) }

    func makeSnapshot() throws -> DatabaseSnapshot { try pool.makeSnapshot() }

    func add(transactionObserver observer: some TransactionObserver, extent: Database.TransactionObservationExtent) {
        pool.add(transactionObserver: observer, extent: extent)
    }
}

/// A few threads for reads that tasks wait for, used in turn.
///
/// Serial queues, because those have threads of their own: a concurrent one shares those of all tasks.
private final class ReadingLanes: Sendable {
    private let queues = (0..<3).map { DispatchQueue(label: "ZoneMirror.read.\($0)") }
    private let next = Atomic(0)

    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let number = next.wrappingAdd(1, ordering: .relaxed).oldValue
        let queue = queues[Int(UInt(bitPattern: number) % UInt(queues.count))]
        return try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try body() }) }
        }
    }
}
