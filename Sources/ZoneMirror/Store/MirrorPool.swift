import GRDB

/// A store's file as its users open it.
///
/// In a test's world accesses from tasks are made at once, on the caller's thread: then one seed gives one order of
/// everything, and nothing is under way that the world does not know of.
struct MirrorPool: Sendable {
    let pool: DatabasePool
    private let isImmediate: Bool

    init(path: String, configuration: Configuration, isImmediate: Bool) throws {
        pool = try DatabasePool(path: path, configuration: configuration)
        self.isImmediate = isImmediate
    }

    func read<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.read(body) }

    func write<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.write(body) }

    private func inspect<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try pool.writeWithoutTransaction(body)
    }

    func read<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        if isImmediate { return try readNow(body) }
        return try await pool.read(body)
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

    // By names of their own, since a task would choose the calls that suspend.
    private func readNow<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.read(body) }
    private func writeNow<Value>(_ body: (Database) throws -> Value) throws -> Value { try pool.write(body) }

    func makeSnapshot() throws -> DatabaseSnapshot { try pool.makeSnapshot() }

    func add(transactionObserver observer: some TransactionObserver, extent: Database.TransactionObservationExtent) {
        pool.add(transactionObserver: observer, extent: extent)
    }

    func close() throws { try pool.close() }
}
