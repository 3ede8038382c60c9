import Records
import RelayCore
import Synchronization

/// The quota reserved for one upload while it is being stored; released on deinitialization unless the asset was
/// stored.
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

    /// Reserves bytes, once; returns `false` and reserves nothing if less than `wanted` is left of `room`.
    func take(_ wanted: Int64, of room: Int64?, at now: Duration) -> Bool {
        guard pending.reserve(wanted, of: room, for: user, in: home, at: now) else { return false }
        size.withLock { $0 = wanted }
        return true
    }

    /// Converts the reservation into an entry for the stored asset.
    func become(_ hash: AssetHash, for life: Duration, at now: Duration) {
        let taken = size.withLock { size in
            defer { size = 0 }
            return size
        }
        pending.add(hash, size: taken, of: user, in: home, for: life, at: now)
    }
}
