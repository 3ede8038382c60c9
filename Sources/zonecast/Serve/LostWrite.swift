import Foundation
import Logging
import Synchronization

/// Stops the process after a failed commit.
///
/// The commit may or may not be on the disk, and only opening the store again can show which.
final class LostWrite: Sendable {
    private let logger: Logger
    private let happened = Mutex(false)

    init(logger: Logger) { self.logger = logger }

    /// Stops the relay gracefully: pending responses are sent, no further writes are accepted.
    func endProcess() {
        happened.withLock { $0 = true }
        logger.critical(
            "A commit could not be written to the disk. The relay stops; its next start reads what the disk holds."
        )
        kill(getpid(), SIGTERM)
    }

    /// Throws after a failed commit: supervisors restart a relay only if it exits with an error.
    func check() throws {
        guard happened.withLock({ $0 }) else { return }
        throw CommandFailure(
            .failed,
            "A commit could not be written to the disk. Check the disk, then start the relay again; no confirmed write is lost."
        )
    }
}
