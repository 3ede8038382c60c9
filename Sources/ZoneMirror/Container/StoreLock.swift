import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// The right to sync one file, held by one container at a time in any process.
package final class StoreLock: Sendable {
    private let descriptor: Int32

    /// Acquires the lock; `nil` if another container has it.
    ///
    /// - Throws: `storage` if the file system refuses.
    package init?(path: String) throws(MirrorError) {
        let descriptor = open(path + "-sync", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.refused(path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            defer { close(descriptor) }
            guard errno == EWOULDBLOCK else { throw Self.refused(path) }
            return nil
        }
        self.descriptor = descriptor
    }

    private static func refused(_ path: String) -> MirrorError {
        let reason = String(cString: strerror(errno))
        return MirrorError(
            .storage,
            "The lock file \(path)-sync cannot be opened: \(reason). Check the permissions of the file and its folder."
        )
    }

    deinit {
        // A process that is being forked holds a copy of the descriptor until it executes its program. Closing the
        // file alone would keep the lock until then.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
