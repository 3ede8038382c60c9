import Foundation

/// A lock on a data folder's assets, held while a backup copies them, and while unused ones or whole stores are removed.
///
/// Uses a file of its own in the folder, since other processes make backups too; the system releases the lock with the
/// process. If the file system has no locks, or the folder cannot be written, nothing is locked.
struct AssetLock {
    /// The assets are being copied, or removed by another process.
    struct Busy: Error {}

    private let descriptor: Int32

    /// Locks the assets for copying; waits until a removal has ended.
    static func copying(of data: String) -> AssetLock? { try? AssetLock(data, LOCK_SH) }

    /// Locks the assets for removing unused ones.
    static func clearing(of data: String) throws(Busy) -> AssetLock? { try AssetLock(data, LOCK_EX | LOCK_NB) }

    /// Locks the assets for replacing or deleting whole stores; waits up to a minute for a backup.
    static func replacing(of data: String) throws(Busy) -> AssetLock? {
        let start = ContinuousClock.now
        while true {
            do throws(Busy) { return try AssetLock(data, LOCK_EX | LOCK_NB) } catch {
                guard ContinuousClock.now - start < .seconds(60) else { throw error }
                usleep(20_000)
            }
        }
    }

    private init?(_ data: String, _ kind: Int32) throws(Busy) {
        descriptor = open("\(data)/assets.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        while flock(descriptor, kind) != 0 {
            if errno == EINTR { continue }
            let isBusy = errno == EWOULDBLOCK
            close(descriptor)
            if isBusy { throw Busy() }
            return nil
        }
    }

    func release() {
        // See `BackupLock.release`.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
