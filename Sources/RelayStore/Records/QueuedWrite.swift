import Records
import RelayCore

/// A write with what waits for it.
final class PendingWrite<Value: Sendable>: QueuedWrite, @unchecked Sendable {
    // `outcome` is touched by the commit thread alone, after the queue's lock has handed the write over.
    private var outcome: Result<Value, RelayError>?
    private let body: @Sendable (any StoreWriter) throws(RelayError) -> Value
    private let then: @Sendable (Result<Value, RelayError>) -> Void

    init(
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        _ then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        self.body = body
        self.then = then
    }

    func run(in writer: SQLiteWriter) {
        do throws(RelayError) {
            outcome = .success(try body(writer))
        } catch {
            outcome = .failure(error)
        }
    }

    func finish(_ failure: RelayError?) {
        let failed = failure.map { Result<Value, RelayError>.failure($0) }
        then(failed ?? outcome ?? .failure(StoreFailure.relayError(for: StoreFailure.stopped)))
    }
}
