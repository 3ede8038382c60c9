import Dispatch
package import GRDB
import Synchronization

/// The database connections of a store's file.
///
/// Any number of tasks may read, blocking or suspending, without deadlock. A blocking read holds its thread until a
/// connection is free. With GRDB's pool alone, a suspended task could hold that connection while it waits for the same
/// thread. So a suspending read here is a blocking read on a thread of its own, and the application's own queries use
/// other connections than the mirror: the holder of a connection is always running.
///
/// In a simulation, accesses from tasks run synchronously on the caller's thread, so that a seed determines the order
/// of all operations.
package struct MirrorPool: Sendable {
    /// The readers of contexts and of the mirror.
    ///
    /// Declared before the writer so that it closes first: the last connection to close checkpoints the WAL, which a
    /// read-only one cannot.
    private let views: DatabasePool
    /// The writer and the application's readers.
    let pool: DatabasePool
    private let readerQueues: ReaderQueues
    private let isImmediate: Bool

    init(path: String, configuration: Configuration, isImmediate: Bool) throws {
        pool = try DatabasePool(path: path, configuration: configuration)
        var reading = configuration
        reading.readonly = true
        // Enough for all concurrent readers: the main thread, the threads of tasks and our own.
        reading.maximumReaderCount = 16
        views = try DatabasePool(path: path, configuration: reading)
        readerQueues = ReaderQueues()
        self.isImmediate = isImmediate
    }

    func read<Value>(_ body: (Database) throws -> Value) throws -> Value { try views.read(body) }

    package func write<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.write(body) }

    private func inspect<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try pool.writeWithoutTransaction(body)
    }

    package func read<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        if isImmediate { return try readNow(body) }
        let views = views
        return try await readerQueues.run { try views.read(body) }
    }

    package func write<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        if isImmediate { return try writeNow(body) }
        return try await pool.write(body)
    }

    func writeWithoutTransaction<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        if isImmediate { return try inspect(body) }
        return try await pool.writeWithoutTransaction(body)
    }

    /// Runs a passive checkpoint, which copies the WAL into the file as far as no reader still needs it.
    func checkpoint() async throws {
        try await writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
    }

    /// Closes the file, as the end of the process would.
    func abandon() {
        try? views.close()
        try? pool.close()
    }

    // Separate names, because in an async context the compiler would choose the suspending overloads.
    private func readNow<Value>(_ body: (Database) throws -> Value) throws -> Value { try views.read(body) }
    private func writeNow<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.write(body) }

    func makeSnapshot() throws -> DatabaseSnapshot { try pool.makeSnapshot() }

    func add(transactionObserver observer: some TransactionObserver, extent: Database.TransactionObservationExtent) {
        pool.add(transactionObserver: observer, extent: extent)
    }
}

/// A few threads for suspending reads, used round-robin.
///
/// The queues are serial because those have threads of their own; a concurrent queue shares the threads of all tasks.
private final class ReaderQueues: Sendable {
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
