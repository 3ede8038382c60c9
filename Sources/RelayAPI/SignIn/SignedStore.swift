import Records
import RelayCore
import Synchronization

/// A store for one signed request, whose first write also stores the signature.
///
/// After a restart, the relay detects replays by the stored signatures, because those in memory are lost. See
/// Reliability.md, "Tokens".
final class SignedStore: Store {
    private let store: any Store
    private let signature: SignatureMark
    private let isTaken = Atomic(false)

    init(_ store: any Store, _ signature: SignatureMark) {
        self.store = store
        self.signature = signature
    }

    var epochs: Epochs { store.epochs }
    var currentSchema: Schema { store.currentSchema }

    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
        try store.read(body)
    }

    func query<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) async throws(RelayError) -> Result {
        try await store.query(body)
    }

    func write(_ write: any StoreWrite) {
        let isFirst = !isTaken.exchange(true, ordering: .relaxed)
        store.write(isFirst ? SignedWrite(write, signature) : write)
    }
}

/// A write that is performed only if its signature is new.
// Unchecked because of `refusal`: only the store's writer accesses it, one thread at a time.
private final class SignedWrite: StoreWrite, @unchecked Sendable {
    var user: UserID? { write.user }
    private let write: any StoreWrite
    private let signature: SignatureMark
    // If the write is decided twice, the last time counts.
    private var refusal: RelayError?

    init(_ write: any StoreWrite, _ signature: SignatureMark) {
        self.write = write
        self.signature = signature
    }

    func run(in writer: any StoreWriter) {
        // Before the write decides: a refused write must not be replayed either.
        do throws(RelayError) {
            refusal = try writer.keep(signature) ? nil : CredentialRefusal.failed.relayError(redirectURL: nil)
        } catch {
            refusal = error
        }
        if refusal == nil { write.run(in: writer) }
    }

    func finish(_ failure: RelayError?) { write.finish(failure ?? refusal) }
}
