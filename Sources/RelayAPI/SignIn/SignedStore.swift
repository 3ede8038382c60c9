import Records
import RelayCore
import Synchronization

/// A store in the hands of one signed request, whose first write takes the signature to the disk with it: a relay that has
/// started anew remembers nobody's, and refuses by that what it has answered before.
///
/// See Reliability.md, "Tokens".
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

/// A write that is carried out where nobody has sent it before.
// Unchecked for the refusal: only whoever carries out the store's writes touches it, one thread at a time.
private final class SignedWrite: StoreWrite, @unchecked Sendable {
    var user: UserID? { write.user }
    private let write: any StoreWrite
    private let signature: SignatureMark
    // Should it be decided twice, the last time counts.
    private var refusal: RelayError?

    init(_ write: any StoreWrite, _ signature: SignatureMark) {
        self.write = write
        self.signature = signature
    }

    func run(in writer: any StoreWriter) {
        // Before the write has decided: what it refuses is not to come again either.
        do throws(RelayError) {
            refusal = try writer.keep(signature) ? nil : CredentialRefusal.failed.relayError(redirectURL: nil)
        } catch {
            refusal = error
        }
        if refusal == nil { write.run(in: writer) }
    }

    func finish(_ failure: RelayError?) { write.finish(failure ?? refusal) }
}
