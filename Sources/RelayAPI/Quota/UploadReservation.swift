import Records
import RelayCore
import Synchronization

/// The room that one upload takes while it is being kept; it is given back where that fails.
final class UploadReservation: Sendable {
    private let pending: PendingUploads
    private let user: UserID
    private let home: ContainerEnvironment
    private let size = Mutex<Int64>(0)

    init(in pending: PendingUploads, of user: UserID, _ home: ContainerEnvironment) {
        self.pending = pending
        self.user = user
        self.home = home
    }

    deinit {
        let left = size.withLock { $0 }
        if left != 0 { pending.release(left, for: user, in: home) }
    }

    /// Takes room once; false, and nothing taken, where less than `wanted` bytes are left of `room`.
    func take(_ wanted: Int64, of room: Int64?, at now: Duration) -> Bool {
        guard pending.reserve(wanted, of: room, for: user, in: home, at: now) else { return false }
        size.withLock { $0 = wanted }
        return true
    }

    /// The asset is kept, and counts as one that waits to be saved.
    func become(_ hash: AssetHash, for life: Duration, at now: Duration) {
        let taken = size.withLock { size in
            defer { size = 0 }
            return size
        }
        pending.add(hash, size: taken, of: user, in: home, for: life, at: now)
    }
}
