import Foundation

/// Keeps a data folder's assets where they are while a backup copies them, and one clearing from another.
///
/// A lock on a file of its own in that folder, since backups are made by other processes too; the system lets go of it with
/// the process. Where the file system knows no locks, or the folder cannot be written to, nothing is held.
struct AssetHold {
    /// They are being copied, or cleared by somebody else.
    struct Busy: Error {}

    private let descriptor: Int32

    /// For whoever copies them; waits for a clearing to end.
    static func copying(of data: String) -> AssetHold? { try? AssetHold(data, LOCK_SH) }

    /// For whoever clears them.
    static func clearing(of data: String) throws(Busy) -> AssetHold? { try AssetHold(data, LOCK_EX | LOCK_NB) }

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
