import Records
import RelayCore
import Synchronization

/// Uploaded assets that no record uses yet, and whose room they will take: nobody fills the disk with what they never save.
///
/// In memory, and an entry only until its receipt ends; the disk's own clearing up comes later.
final class PendingUploads: Sendable {
    private struct Owner: Hashable {
        var home: ContainerEnvironment
        var user: UserID
    }

    private struct Uploads {
        var bytes: Int64 = 0
        var sizes: [AssetHash: (size: Int64, end: Timestamp)] = [:]
        /// When the first of them ends.
        var next = Timestamp(milliseconds: .max)

        mutating func add(_ hash: AssetHash, size: Int64, until end: Timestamp) {
            remove(hash)
            sizes[hash] = (size, end)
            bytes += size
            next = min(next, end)
        }

        mutating func remove(_ hash: AssetHash) {
            if let entry = sizes.removeValue(forKey: hash) { bytes -= entry.size }
        }

        mutating func drop(at now: Timestamp) {
            guard now >= next else { return }
            for (hash, entry) in sizes where now >= entry.end { remove(hash) }
            next = sizes.values.map(\.end).min() ?? Timestamp(milliseconds: .max)
        }
    }

    private let uploads = Mutex<[Owner: Uploads]>([:])

    /// Bytes that wait to be saved in zones of `user`.
    func bytes(of user: UserID, in home: ContainerEnvironment, at now: Timestamp) -> Int64 {
        uploads.withLock { uploads in
            let owner = Owner(home: home, user: user)
            uploads[owner]?.drop(at: now)
            if uploads[owner]?.sizes.isEmpty ?? false { uploads[owner] = nil }
            return uploads[owner]?.bytes ?? 0
        }
    }

    func add(_ hash: AssetHash, size: Int64, of user: UserID, in home: ContainerEnvironment, until end: Timestamp) {
        uploads.withLock { uploads in
            uploads[Owner(home: home, user: user), default: Uploads()].add(hash, size: size, until: end)
        }
    }

    /// They were saved, and count there.
    func remove(_ hashes: some Sequence<AssetHash>, of user: UserID, in home: ContainerEnvironment) {
        uploads.withLock { uploads in
            for hash in hashes { uploads[Owner(home: home, user: user)]?.remove(hash) }
        }
    }
}
