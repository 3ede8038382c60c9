package import Records

/// A write with what waits for it: one object on its way from the request to the disk and back.
///
/// A store touches it from one thread at a time.
package protocol StoreWrite: AnyObject, Sendable {
    /// Who asks for it; `nil`: the relay itself. Where one's writes are large, those of others come first.
    var user: UserID? { get }

    /// Decides and writes, and keeps the outcome until it is durable.
    ///
    /// Decides first and writes last: what is refused must not have written. May be run again, when the commit that it
    /// shared failed for another's sake.
    func run(in writer: any StoreWriter)

    /// Hands out the outcome once that is on disk, or `failure` where the commit did not come about; on a thread that must
    /// not be held up.
    func finish(_ failure: RelayError?)
}

extension Store {
    /// Runs `body` in the next commit and hands its outcome to `then` once that is on disk; both as in `StoreWrite`.
    package func write<Value: Sendable>(
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        write(ClosureWrite(for: nil, body, then))
    }

    /// Runs `body`, which `user` asks for, in the next commit and returns once that is on disk; `body` as above.
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

/// What to do and whom to tell.
// Unchecked for the outcome: once it is handed over, only whoever carries out the store's writes touches it, one thread at a time.
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
    /// For a write that nobody has run, and that nobody says why of.
    package static let notCarriedOut = RelayError(
        .tryAgainLater,
        "The store cannot write now.",
        retryAfter: .seconds(5)
    )
}
