import Crypto
import Dispatch
package import RelayCore

/// Hashes pieces while they are being written, which takes about as long.
///
/// A few pieces may wait; then `add` blocks.
// Unchecked for the hasher: used on `queue` only, by one thread at a time.
package final class PieceHasher: @unchecked Sendable {
    private var hasher = SHA256()
    private let queue = DispatchQueue(label: "zonecast hashing")
    private let room = DispatchSemaphore(value: 16)

    package init() {}

    package func add(_ piece: [UInt8]) {
        room.wait()
        queue.async { [self] in
            piece.withUnsafeBytes { hasher.update(bufferPointer: $0) }
            room.signal()
        }
    }

    /// Returns the hash of all pieces.
    package func finish() -> AssetHash? { AssetHash(queue.sync { hasher.finalize() }) }
}
