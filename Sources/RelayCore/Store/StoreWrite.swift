package import Records

/// A write and its completion, in one object that travels from the request to the store and back.
///
/// A store accesses it from one thread at a time.
package protocol StoreWrite: AnyObject, Sendable {
    /// The user who makes the request; `nil` for the relay itself.
    ///
    /// Stores use it for fairness: a user's large writes yield to those of other users.
    var user: UserID? { get }

    /// Decides and writes, and keeps the outcome until it is durable.
    ///
    /// Must decide before it writes anything: a refused write must leave no trace. May run again if the shared commit
    /// failed because of another write.
    func run(in writer: any StoreWriter)

    /// Delivers the outcome once it is durable, or `failure` if the commit failed.
    ///
    /// Must not block the calling thread.
    func finish(_ failure: RelayError?)
}

extension Store {
    /// Runs `body` in the next commit and passes its outcome to `then` once it is durable; see `StoreWrite` for the
    /// rules.
    package func write<Value: Sendable>(
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        write(ClosureWrite(for: nil, body, then))
    }

    /// Runs `body` for `user` in the next commit and returns once that is durable; see `StoreWrite` for the rules.
    package func write<Value: Sendable>(
        for user: UserID? = nil,
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value
    ) async throws(RelayError) -> Value {
        let outcome = await withUnsafeContinuation { continuation in
            write(ClosureWrite(for: user, body) { continuation.resume(returning: $0) })
        }
        return try outcome.get()
    }
}

/// A `StoreWrite` made of two closures.
// Unchecked because of `outcome`: once enqueued, only the store touches it, from one thread at a time.
private final class ClosureWrite<Value: Sendable>: StoreWrite, @unchecked Sendable {
    let user: UserID?
    private var outcome: Result<Value, RelayError>?
    private let body: @Sendable (any StoreWriter) throws(RelayError) -> Value
    private let then: @Sendable (Result<Value, RelayError>) -> Void

    init(
        for user: UserID?,
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        _ then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        self.user = user
        self.body = body
        self.then = then
    }

    func run(in writer: any StoreWriter) {
        do throws(RelayError) {
            outcome = .success(try body(writer))
        } catch {
            outcome = .failure(error)
        }
    }

    func finish(_ failure: RelayError?) {
        then(failure.map { .failure($0) } ?? outcome ?? .failure(.notCarriedOut))
    }
}

extension RelayError {
    /// The error of a write that was never run, for an unknown reason.
    package static let notCarriedOut = RelayError(
        .tryAgainLater,
        "The store cannot write now.",
        retryAfter: .seconds(5)
    )
}
